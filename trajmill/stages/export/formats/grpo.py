"""Prompts with targets for TRL's `GRPOTrainer`, which passes the column `target` to our reward functions.

The release's RL steps lie beside them. `GRPOTrainer` samples its own replies; other trainers can learn from these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import pyarrow as pa

from trajmill.stages.export.formats.base import TrainerFormat, TrainerSettings
from trajmill.stages.export.formats.steps import RLStepExample, StepExample
from trajmill.stages.export.messages import BLOCK_MESSAGES, in_blocks


class GrpoFormat(TrainerFormat):
    """Prompts with targets for TRL."""

    columns: ClassVar = (pa.field("prompt", BLOCK_MESSAGES), pa.field("target", pa.string()))
    rl_columns: ClassVar = (pa.field("prompt", BLOCK_MESSAGES), pa.field("completion", BLOCK_MESSAGES))
    kind: Literal["grpo"] = "grpo"
    """Prompts and targets for `GRPOTrainer`."""

    def row(self, example: StepExample, number: int) -> Mapping[str, Any]:
        return {"prompt": in_blocks(example.messages[:-1]), "target": example.target_json()}

    def rl_row(self, example: RLStepExample) -> Mapping[str, Any]:
        blocks = in_blocks(example.messages)
        return {"prompt": blocks[:-1], "completion": blocks[-1:]}

    def advice(self, settings: TrainerSettings) -> str:
        budget = settings.family.budget
        return (
            "```python\nfrom trajmill.stages.export.rewards import ces_rewards  # or coda_rewards, action_rewards\n\n"
            f"processor = AutoProcessor.from_pretrained(MODEL, min_pixels={budget.min_pixels}, "
            f"max_pixels={budget.max_pixels})\n"
            "trainer = GRPOTrainer(model, reward_funcs=ces_rewards, train_dataset=rows, args=GRPOConfig(...), "
            "processing_class=processor)\n```\n\n"
            "Replies are parsed in the dialect of the family and held against the column `target`: the stored action "
            "and the box of its element."
        )
