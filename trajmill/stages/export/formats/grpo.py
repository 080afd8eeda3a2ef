"""Writes prompts with targets for TRL's `GRPOTrainer`, which passes the column `target` to our reward functions.

It also writes the release's RL steps. `GRPOTrainer` samples its own replies and cannot use them; other trainers can.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from trajmill.stages.export.base import BulkScreenReader
from trajmill.stages.export.formats.base import RLStepWriter, TrainerSettings
from trajmill.stages.export.formats.rows.columns import BLOCK_MESSAGES, COMPARISON, WEIGHT, weight_values
from trajmill.stages.export.formats.rows.parquet import ParquetWriter
from trajmill.stages.export.formats.rows.rl_step_example import RLStepExample
from trajmill.stages.export.formats.rows.step_example import StepExample, target_json
from trajmill.stages.export.formats.rows.turns import in_blocks
from trajmill.stages.export.formats.rows.written import DATA_FOLDER, RL_FOLDER, WrittenRows

_COLUMNS = (pa.field("prompt", BLOCK_MESSAGES), pa.field("target", pa.string()), *WEIGHT)
_RL_COLUMNS = (pa.field("prompt", BLOCK_MESSAGES), pa.field("completion", BLOCK_MESSAGES), *COMPARISON)


@dataclass(frozen=True)
class GrpoFormat:
    """For `GRPOTrainer`."""

    shard_bytes: int
    kind: str = "grpo"
    weights_as_rows: bool = True

    @property
    def rl_steps(self) -> RLStepWriter:
        """Writes the RL steps of the release."""
        return ParquetWriter(_RL_COLUMNS, _rl_values, self.shard_bytes, RL_FOLDER)

    def write(self, folder: Path, examples: Iterable[StepExample], screens: BulkScreenReader) -> WrittenRows:
        """Write all rows with their images."""
        return ParquetWriter(_COLUMNS, _values, self.shard_bytes, DATA_FOLDER).write(folder, examples, screens)

    def finish(self, folder: Path, settings: TrainerSettings) -> None:
        """Write nothing: the trainer imports the reward functions from trajmill."""

    def advice(self, settings: TrainerSettings) -> str:
        """How to call `GRPOTrainer`."""
        return (
            "```python\nfrom trajmill.stages.export.rewards import ces_rewards  # or coda_rewards, action_rewards\n\n"
            "trainer = GRPOTrainer(model, reward_funcs=ces_rewards, train_dataset=rows, args=GRPOConfig(...))\n```\n\n"
            "Replies are parsed in the dialect of the family and held against the column `target`: the stored action "
            "and the box of its element."
        )


def _values(example: StepExample) -> Mapping[str, Any]:
    prompt = in_blocks(example.messages[:-1])
    return {"prompt": prompt, "target": target_json(example), **weight_values(example)}


def _rl_values(example: RLStepExample) -> Mapping[str, Any]:
    blocks = in_blocks(example.messages)
    return {"prompt": blocks[:-1], "completion": blocks[-1:], **example.comparison._asdict()}
