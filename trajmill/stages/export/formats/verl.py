"""Writes prompts with targets for verl's `RLHFDataset`: `<image>` in prompts, the target as ground truth.

It also writes the release's RL steps. verl samples its own replies and cannot use them; other trainers can.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from trajmill.schemas.tables.query import Split
from trajmill.stages.export.base import BulkScreenReader
from trajmill.stages.export.formats.base import RLStepWriter, TrainerSettings
from trajmill.stages.export.formats.rows.columns import COMPARISON, STRING_MESSAGES, WEIGHT, weight_values
from trajmill.stages.export.formats.rows.parquet import ParquetWriter
from trajmill.stages.export.formats.rows.rl_step_example import RLStepExample
from trajmill.stages.export.formats.rows.step_example import StepExample, target_json
from trajmill.stages.export.formats.rows.turns import in_strings
from trajmill.stages.export.formats.rows.written import DATA_FOLDER, RL_FOLDER, WrittenRows

REWARD_FILE: Final = "reward.py"
_REWARD = '''\
"""What verl loads as its reward function; trajmill must be installed where verl runs."""

from trajmill.stages.export.rewards import compute_score

__all__ = ["compute_score"]
'''
_COLUMNS = (
    pa.field("data_source", pa.string()),
    pa.field("prompt", STRING_MESSAGES),
    pa.field("ability", pa.string()),
    pa.field("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.string())])),
    pa.field(
        "extra_info",
        pa.struct(
            [
                ("split", pa.string()),
                ("index", pa.int64()),
                ("query_id", pa.string()),
                ("trajectory_id", pa.string()),
                ("step_index", pa.int64()),
            ]
        ),
    ),
    *WEIGHT,
)
_RL_COLUMNS = (pa.field("prompt", STRING_MESSAGES), pa.field("response", pa.string()), *COMPARISON)


@dataclass(frozen=True)
class VerlFormat:
    """For verl's RL trainers."""

    shard_bytes: int
    kind: str = "verl"
    weights_as_rows: bool = True

    @property
    def rl_steps(self) -> RLStepWriter:
        """Writes the RL steps of the release."""
        return ParquetWriter(_RL_COLUMNS, _rl_values, self.shard_bytes, RL_FOLDER)

    def write(self, folder: Path, examples: Iterable[StepExample], screens: BulkScreenReader) -> WrittenRows:
        """Write all rows with their images."""
        numbers = _Numbered()
        return ParquetWriter(_COLUMNS, numbers.values, self.shard_bytes, DATA_FOLDER).write(folder, examples, screens)

    def finish(self, folder: Path, settings: TrainerSettings) -> None:
        """Write the file that verl loads the reward function from."""
        (folder / REWARD_FILE).write_text(_REWARD, encoding="utf-8")

    def advice(self, settings: TrainerSettings) -> str:
        """How to call the trainer."""
        return (
            f"`data.max_prompt_length={settings.max_length} data.image_key=images "
            f"reward.custom_reward_function.path=FOLDER/{REWARD_FILE} "
            "reward.custom_reward_function.name=compute_score "
            "+reward.custom_reward_function.reward_kwargs.rule=ces` (or `coda`, `action`). verl drops longer prompts "
            "without an error: with its default of 1,024 all of them."
        )


class _Numbered:
    """Numbers the rows; verl tells them apart by this number."""

    def __init__(self) -> None:
        self._rows = 0

    def values(self, example: StepExample) -> Mapping[str, Any]:
        """The columns of one row."""
        lineage = example.lineage
        extra = {
            "split": Split.TRAIN.value,
            "index": self._rows,
            "query_id": lineage.query_id,
            "trajectory_id": lineage.trajectory_id,
            "step_index": lineage.step_index,
        }
        self._rows += 1
        return {
            "data_source": f"trajmill/{lineage.environment}",
            "prompt": in_strings(example.messages[:-1]),
            "ability": "gui",
            "reward_model": {"style": "rule", "ground_truth": target_json(example)},
            "extra_info": extra,
            **weight_values(example),
        }


def _rl_values(example: RLStepExample) -> Mapping[str, Any]:
    said = in_strings(example.messages)
    return {"prompt": said[:-1], "response": said[-1]["content"], **example.comparison._asdict()}
