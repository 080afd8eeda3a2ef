"""The columns that formats share beside what their trainers read, and their Arrow types."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from trajmill.schemas.record import LOGPROBS, TOKEN_IDS
from trajmill.stages.export.columns.blocks import BLOCK
from trajmill.stages.export.columns.images import IMAGES
from trajmill.stages.export.formats.rows.lineage import Lineage
from trajmill.stages.export.formats.rows.step_example import StepExample

STRING_MESSAGES: Final = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
BLOCK_MESSAGES: Final = pa.list_(pa.struct([("role", pa.string()), ("content", pa.list_(BLOCK))]))
IMAGE_COLUMN: Final = pa.field("images", IMAGES)
LINEAGE: Final = tuple(
    pa.schema(
        [
            ("query_id", pa.string()),
            ("trajectory_id", pa.string()),
            ("step_index", pa.int64()),
            ("round", pa.int64()),
            ("instruction", pa.string()),
            ("platform", pa.string()),
            ("apps", pa.list_(pa.string())),
            ("task", pa.string()),
            ("environment", pa.string()),
            ("agent", pa.string()),
            ("policy_version", pa.string()),
            ("guided", pa.bool_()),
            ("step_label", pa.string()),
            ("judged_by", pa.string()),
            ("action", pa.string()),
            ("family", pa.string()),
            ("coordinate_space", pa.string()),
            ("image_sizes", pa.list_(pa.list_(pa.int64()))),
            ("image_tokens", pa.int64()),
            ("text_bytes", pa.int64()),
            ("tokens_at_most", pa.int64()),
            ("screen_ids", pa.list_(pa.string())),
        ]
    )
)
"""The fields of `Lineage`, in their order."""
WEIGHT: Final = tuple(pa.schema([("example_id", pa.string()), ("loss_weight", pa.float64()), ("copy", pa.int64())]))
"""How much a supervised row counts."""
COMPARISON: Final = tuple(
    pa.schema(
        [
            ("rl_step_id", pa.string()),
            ("group", pa.string()),
            ("group_size", pa.int64()),
            ("replayed", pa.bool_()),
            ("accuracy_reward", pa.float64()),
            ("format_reward", pa.float64()),
            ("reward", pa.float64()),
            ("advantage", pa.float64()),
            ("step_weight", pa.float64()),
            ("temperature", pa.float64()),
            ("response_token_ids", TOKEN_IDS),
            ("old_logprobs", LOGPROBS),
        ]
    )
)
"""The fields of `Comparison`, in their order."""


def weight_values(example: StepExample) -> dict[str, Any]:
    """The columns of `WEIGHT` in one row."""
    return {"example_id": example.example_id, "loss_weight": example.loss_weight, "copy": example.copy}


def lineage_values(lineage: Lineage) -> dict[str, Any]:
    """The values of the columns `LINEAGE` in one row."""
    return lineage._asdict()


def plain_lineage(lineage: Lineage) -> dict[str, Any]:
    """The same for JSON lines, without lists that may be empty, because readers would guess their type wrongly."""
    return lineage._asdict() | {"apps": ", ".join(lineage.apps)}
