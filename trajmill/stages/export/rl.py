"""Writes trajectory-level RL rows for verl: string prompts with `<image>`, images as bytes, rewards and advantages.

verl's own trainers sample replies themselves. A trainer that updates on stored ones (paper 3.1.2) reads `response`, its
tokens and log probabilities, `advantage` and `step_weight`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.registry import arrow_schema
from trajmill.stages.export.columns import (
    IMAGES,
    STRING_MESSAGES,
    check_placeholders,
    placeholders,
    with_features,
    without_images,
)
from trajmill.stages.export.exporter import Exporter
from trajmill.stages.guidance.strip import quotes_guidance

RL_FILE: Final = "verl/rl.parquet"
"""Path of the file within a release."""

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

OURS: Final = (
    *("rl_step_id", "group", "trajectory_id", "step_index", "response"),
    *("accuracy_reward", "format_reward", "reward", "advantage", "step_weight"),
    *("replayed", "group_size", "policy_version", "guided"),
    *("response_token_ids", "old_logprobs", "temperature"),
)
"""Columns of table `rl_steps` that are copied to the file."""

RL_SCHEMA = with_features(
    pa.schema(
        [
            ("data_source", pa.string()),
            ("prompt", STRING_MESSAGES),
            ("images", IMAGES),
            ("ability", pa.string()),
            ("reward_model", _REWARD_MODEL),
            ("extra_info", _EXTRA_INFO),
            ("screen_ids", pa.list_(pa.string())),
            *((name, arrow_schema("rl_steps").field(name).type) for name in OURS),
        ]
    )
)


class RLExporter(Exporter):
    """Trajectory-level RL rows as verl reads them, one per step instance, all from queries of split `train`."""

    table: ClassVar[Literal["examples", "rl_steps"]] = "rl_steps"
    row_id: ClassVar[str] = "rl_step_id"
    kind: Literal["verl"] = "verl"
    """RL rows for verl."""

    @property
    def name(self) -> str:
        """Name of the file's configuration."""
        return "rl"

    @property
    def file(self) -> str:
        """Path of its file within the release."""
        return RL_FILE

    @property
    def row_is(self) -> str:
        """Description of one row."""
        return "one step of one attempt, with the advantage of its trajectory"

    @property
    def advice(self) -> str:
        """How to use the file."""
        return (
            "`rl` holds replies with their advantages, for a trainer that updates on stored replies. Its prompts are "
            "texts with `<image>`, as in verl's data, but verl samples replies itself: export prompts with targets for "
            "it (`trajmill export --format verl`)."
        )

    @property
    def schema(self) -> pa.Schema:
        """Columns of the file."""
        return RL_SCHEMA

    def batches(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row per step instance, in order, without the images.

        Raises:
            BadInputError: a row has more or fewer placeholders than screens.
        """
        start = 0
        for batch in rows:
            yield _rl_batch(batch, start)
            start += batch.num_rows

    def problems(self, row: Mapping[str, Any], sizes: Mapping[str, Size], guidance: str) -> Iterator[str]:
        """The mistakes of a row of the file; images are not checked here."""
        text = "".join(message["content"] for message in row["prompt"])
        if text.count(IMAGE_PLACEHOLDER) != len(row["images"]):
            yield "the placeholders do not match the images"
        if row["extra_info"]["split"] != Split.TRAIN:
            yield f"it is of split {row['extra_info']['split']}"
        if quotes_guidance(f"{text}\n{row['response']}", guidance):
            yield "it quotes the guidance that the agent was given"
        if not math.isfinite(row["advantage"]) or not 0 < row["step_weight"] <= 1:
            yield f"advantage {row['advantage']}, step weight {row['step_weight']}"
        tokens, logprobs = row["response_token_ids"] or (), row["old_logprobs"] or ()
        if len(tokens) != len(logprobs):
            yield f"{len(logprobs)} log probabilities for {len(tokens)} tokens"


def _rl_batch(batch: pa.RecordBatch, start: int) -> pa.RecordBatch:
    rows, screen_ids = batch.num_rows, batch.column("screens")
    prompts = batch.column("prompt")
    check_placeholders(placeholders(prompts), prompts, screen_ids, batch.column("rl_step_id"))
    lineage = [batch.column(name) for name in ("group", "trajectory_id", "step_index")]
    index = pa.array(np.arange(start, start + rows, dtype=np.int64))
    extra = pa.StructArray.from_arrays([_same(Split.TRAIN.value, rows), index, *lineage], fields=list(_EXTRA_INFO))
    reward = pa.StructArray.from_arrays([_same("rule", rows), _ground_truth(batch)], fields=list(_REWARD_MODEL))
    columns = [
        _same(DATA_SOURCE, rows),
        prompts,
        _same(ABILITY, rows),
        reward,
        extra,
        screen_ids,
    ]
    return pa.record_batch([*columns, *(batch.column(name) for name in OURS)], schema=without_images(RL_SCHEMA))


def _same(text: str, rows: int) -> pa.StringArray:
    return pa.repeat(text, rows)


def _ground_truth(batch: pa.RecordBatch) -> pa.StringArray:
    """Facts about the trajectory as JSON. The response is left out, because it may be wrong."""
    accuracy = pc.cast(batch.column("accuracy_reward"), pa.string())
    reward = pc.cast(batch.column("reward"), pa.string())
    return pc.binary_join_element_wise('{"accuracy": ', accuracy, ', "reward": ', reward, "}", "")
