"""The task pool of execution feedback: prompts of roles, and the action that their words must lead to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import pyarrow as pa

from trajmill.schemas.errors import BadInputError
from trajmill.stages.export.formats.base import TrainerFormat, TrainerSettings
from trajmill.stages.export.formats.steps import StepExample
from trajmill.stages.export.messages import BLOCK_MESSAGES, in_blocks


class FeedbackFormat(TrainerFormat):
    """Prompts of roles with the action that their words must lead to.

    The recipes `ces-stage1`, `ces-stage2` and `coda-specialist` read them. `target` is a `ReplyTarget`, `past` a list
    of the replies and conclusions of the steps before, both as JSON.
    """

    columns: ClassVar = (
        pa.field("prompt", BLOCK_MESSAGES),
        pa.field("variant", pa.string()),
        pa.field("target", pa.string()),
        pa.field("past", pa.string()),
    )
    kind: Literal["feedback"] = "feedback"
    """Prompts of roles, and the right actions."""
    weights_as_rows: bool = False
    """Whether a step has as many rows as it weighs; these recipes read the weights."""

    def row(self, example: StepExample, number: int) -> Mapping[str, Any]:
        """Return prompt, target and past.

        Raises:
            BadInputError: the row is no words of a role that lead to an action.
        """
        led = example.leads_to
        if led is None:
            raise BadInputError(
                f"example {example.example_id} leads to no action: execution feedback takes ces and coda"
            )
        return {
            "prompt": in_blocks(example.messages[:-1]),
            "variant": led.variant,
            "target": led.target.model_dump_json(),
            "past": json.dumps(led.past),
        }

    def advice(self, settings: TrainerSettings) -> str:
        return "The recipes `ces-stage1`, `ces-stage2` and `coda-specialist` of `[train]` read it."
