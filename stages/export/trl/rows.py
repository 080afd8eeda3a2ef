"""Supervised rows for TRL: prompt and completion as content blocks, images as bytes, our lineage beside them.

TRL reads `prompt`, `completion` and `images`; all images belong to the prompt. The other columns are ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER
from trajmill.stages.export.base import ImageReader, row_groups
from trajmill.stages.export.columns.blocks import BLOCK, content_blocks
from trajmill.stages.export.columns.features import with_features
from trajmill.stages.export.columns.images import IMAGES, image_lists
from trajmill.stages.export.columns.lists import cut_last, list_array, list_lengths

_MESSAGE = pa.struct([("role", pa.string()), ("content", pa.list_(BLOCK))])

LINEAGE = (
    "example_id",
    "kind",
    "action",
    "coordinate_space",
    "loss_weight",
    "query_id",
    "trajectory_id",
    "step_index",
    "split",
)
"""Columns of table `examples` that go into the file as they are."""

SFT_SCHEMA = with_features(
    pa.schema(
        [
            ("prompt", pa.list_(_MESSAGE)),
            ("completion", pa.list_(_MESSAGE)),
            ("images", IMAGES),
            ("screen_ids", pa.list_(pa.string())),
            ("example_id", pa.string()),
            ("kind", pa.string()),
            ("action", pa.string()),
            ("coordinate_space", pa.string()),
            ("loss_weight", pa.float64()),
            ("query_id", pa.string()),
            ("trajectory_id", pa.string()),
            ("step_index", pa.int32()),
            ("split", pa.string()),
        ]
    )
)


def sft_batches(examples: Iterable[pa.RecordBatch], screens: ImageReader) -> Iterator[pa.RecordBatch]:
    """Rows of `trl/sft.parquet`, one per example, in order, in batches of one row group.

    Args:
        examples: in the schema of table `examples`.
        screens: where the images are.

    Raises:
        BadInputError: an example has another number of placeholders than of screens.
        KeyError: a screen is not stored.
    """
    for batch in row_groups(examples):
        yield _sft_batch(batch, screens)


def _sft_batch(batch: pa.RecordBatch, screens: ImageReader) -> pa.RecordBatch:
    messages, screen_ids = batch.column("messages"), batch.column("screens")
    check_placeholders(messages, screen_ids, batch.column("example_id"))
    parts = cut_last(_in_blocks(messages))
    columns = [parts.head, parts.last, image_lists(screen_ids, screens), screen_ids]
    return pa.record_batch([*columns, *(batch.column(name) for name in LINEAGE)], schema=SFT_SCHEMA)


def _in_blocks(messages: pa.ListArray) -> pa.ListArray:
    said = messages.flatten()
    blocks = pa.StructArray.from_arrays(
        [said.field("role"), content_blocks(said.field("content"))], fields=list(_MESSAGE)
    )
    return list_array(list_lengths(messages), blocks)


def check_placeholders(messages: pa.ListArray, screen_ids: pa.ListArray, row_ids: pa.StringArray) -> None:
    """Hold the placeholders of each row's messages against its screens.

    Raises:
        BadInputError: they differ in number; names the first such row.
    """
    found = pc.count_substring(messages.flatten().field("content"), IMAGE_PLACEHOLDER).to_numpy()
    owners = np.repeat(np.arange(len(messages)), list_lengths(messages))
    wrong = np.flatnonzero(np.bincount(owners, found, len(messages)) != list_lengths(screen_ids))
    if len(wrong):
        row = int(wrong[0])
        raise BadInputError(
            f"row {row_ids[row].as_py()}: {len(screen_ids[row])} screens do not match its {IMAGE_PLACEHOLDER} "
            "placeholders; derive the round again"
        )
