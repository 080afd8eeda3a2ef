"""Prompts with targets for verl's `RLHFDataset`: `<image>` in prompts, the target as ground truth.

The release's RL steps lie beside them. verl samples its own replies; other trainers can learn from these.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import pyarrow as pa

from trajmill.schemas.tables.query import Split
from trajmill.stages.export.formats.base import TrainerFormat, TrainerSettings
from trajmill.stages.export.formats.steps import RLStepExample, StepExample
from trajmill.stages.export.messages import STRING_MESSAGES, in_strings

REWARD_FILE: Final = "reward.py"
_REWARD = '''\
"""What verl loads as its reward function; trajmill must be installed where verl runs."""

from trajmill.stages.export.rewards import compute_score

__all__ = ["compute_score"]
'''
_EXTRA_INFO = pa.struct(
    [
        ("split", pa.string()),
        ("index", pa.int64()),
        ("query_id", pa.string()),
        ("trajectory_id", pa.string()),
        ("step_index", pa.int64()),
    ]
)


class VerlFormat(TrainerFormat):
    """Prompts with targets for verl."""

    columns: ClassVar = (
        pa.field("data_source", pa.string()),
        pa.field("prompt", STRING_MESSAGES),
        pa.field("ability", pa.string()),
        pa.field("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.string())])),
        pa.field("extra_info", _EXTRA_INFO),
    )
    rl_columns: ClassVar = (pa.field("prompt", STRING_MESSAGES), pa.field("response", pa.string()))
    images_have_bounds: ClassVar[bool] = True
    kind: Literal["verl"] = "verl"
    """Prompts and ground truths for `RLHFDataset`."""

    def row(self, example: StepExample, number: int) -> Mapping[str, Any]:
        """Return prompt and ground truth; verl tells rows apart by `extra_info.index`."""
        lineage = example.lineage
        return {
            "data_source": f"trajmill/{lineage.environment}",
            "prompt": in_strings(example.messages[:-1]),
            "ability": "gui",
            "reward_model": {"style": "rule", "ground_truth": example.target_json()},
            "extra_info": {
                "split": Split.TRAIN.value,
                "index": number,
                "query_id": lineage.query_id,
                "trajectory_id": lineage.trajectory_id,
                "step_index": lineage.step_index,
            },
        }

    def rl_row(self, example: RLStepExample) -> Mapping[str, Any]:
        *prompt, reply = in_strings(example.messages)
        return {"prompt": prompt, "response": reply["content"]}

    def write_settings(self, folder: Path, settings: TrainerSettings) -> None:
        (folder / REWARD_FILE).write_text(_REWARD, encoding="utf-8")

    def advice(self, settings: TrainerSettings) -> str:
        return (
            f"`data.max_prompt_length={settings.max_length} data.image_key=images "
            f"reward.custom_reward_function.path=FOLDER/{REWARD_FILE} "
            "reward.custom_reward_function.name=compute_score "
            "+reward.custom_reward_function.reward_kwargs.rule=ces` (or `coda`, `action`). verl drops longer prompts "
            "without an error: with its default of 1,024 all of them. Each image carries `min_pixels` and "
            "`max_pixels`, by which verl resizes it; the processor of the model must not have narrower bounds."
        )
