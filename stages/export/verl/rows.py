"""Trajectory-level RL rows for verl: string prompts with `<image>`, images as bytes, rewards and advantages beside.

verl reads `prompt`, `images`, `data_source`, `ability`, `reward_model` and `extra_info`; a trainer that updates on
stored responses (paper 3.1.2) reads `response`, `advantage` and `step_weight` too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.schemas.tables.query import Split
from trajmill.stages.export.base import ImageReader, row_groups
from trajmill.stages.export.columns.features import with_features
from trajmill.stages.export.columns.images import IMAGES, image_lists
from trajmill.stages.export.trl.rows import check_placeholders

DATA_SOURCE = "trajmill/end_to_end"
ABILITY = "gui"

_REWARD_MODEL = pa.struct([("style", pa.string()), ("ground_truth", pa.string())])
_EXTRA_INFO = pa.struct(
    [
        ("split", pa.string()),
        ("index", pa.int64()),
        ("query_id", pa.string()),
        ("trajectory_id", pa.string()),
        ("step_index", pa.int32()),
    ]
)

OURS = (
    "rl_step_id",
    "group",
    "trajectory_id",
    "step_index",
    "response",
    "accuracy_reward",
    "format_reward",
    "reward",
    "advantage",
    "step_weight",
    "replayed",
)
"""Columns of table `rl_steps` that go into the file as they are."""

RL_SCHEMA = with_features(
    pa.schema(
        [
            ("data_source", pa.string()),
            ("prompt", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
            ("images", IMAGES),
            ("ability", pa.string()),
            ("reward_model", _REWARD_MODEL),
            ("extra_info", _EXTRA_INFO),
            ("screen_ids", pa.list_(pa.string())),
            ("rl_step_id", pa.string()),
            ("group", pa.string()),
            ("trajectory_id", pa.string()),
            ("step_index", pa.int32()),
            ("response", pa.string()),
            ("accuracy_reward", pa.float64()),
            ("format_reward", pa.float64()),
            ("reward", pa.float64()),
            ("advantage", pa.float64()),
            ("step_weight", pa.float64()),
            ("replayed", pa.bool_()),
        ]
    )
)


def rl_batches(rl_steps: Iterable[pa.RecordBatch], screens: ImageReader) -> Iterator[pa.RecordBatch]:
    """Rows of `verl/rl.parquet`, one per step instance, in order, in batches of one row group.

    Args:
        rl_steps: in the schema of table `rl_steps`, all from queries of split `train`.
        screens: where the images are.

    Raises:
        BadInputError: a row has another number of placeholders than of screens.
        KeyError: a screen is not stored.
    """
    start = 0
    for batch in row_groups(rl_steps):
        yield _rl_batch(batch, screens, start)
        start += batch.num_rows


def _rl_batch(batch: pa.RecordBatch, screens: ImageReader, start: int) -> pa.RecordBatch:
    rows, screen_ids = batch.num_rows, batch.column("screens")
    check_placeholders(batch.column("prompt"), screen_ids, batch.column("rl_step_id"))
    lineage = [batch.column(name) for name in ("group", "trajectory_id", "step_index")]
    index = pa.array(np.arange(start, start + rows, dtype=np.int64))
    extra = pa.StructArray.from_arrays([_same(Split.TRAIN.value, rows), index, *lineage], fields=list(_EXTRA_INFO))
    reward = pa.StructArray.from_arrays([_same("rule", rows), _ground_truth(batch)], fields=list(_REWARD_MODEL))
    columns = [
        _same(DATA_SOURCE, rows),
        batch.column("prompt"),
        image_lists(screen_ids, screens),
        _same(ABILITY, rows),
        reward,
        extra,
        screen_ids,
    ]
    return pa.record_batch([*columns, *(batch.column(name) for name in OURS)], schema=RL_SCHEMA)


def _same(text: str, rows: int) -> pa.StringArray:
    return pa.repeat(text, rows)


def _ground_truth(batch: pa.RecordBatch) -> pa.StringArray:
    """What is known of the trajectory, as JSON: its own response may be wrong, so it is never the truth to copy."""
    accuracy = pc.cast(batch.column("accuracy_reward"), pa.string())
    reward = pc.cast(batch.column("reward"), pa.string())
    return pc.binary_join_element_wise('{"accuracy": ', accuracy, ', "reward": ', reward, "}", "")
