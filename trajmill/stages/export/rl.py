"""Trajectory-level RL rows of a release: prompts as verl writes them, with stored replies, rewards and advantages.

verl's own trainers sample replies themselves. A trainer that updates on stored ones (paper 3.1.2) reads `response`, its
tokens and log probabilities, `advantage` and `step_weight`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.registry import arrow_schema
from trajmill.stages.export.exporter import Exporter
from trajmill.stages.export.images import IMAGES, with_features, without_images
from trajmill.stages.export.messages import STRING_MESSAGES, check_placeholders
from trajmill.stages.guidance.strip import quotes_guidance

RL_FILE: Final = "verl/rl.parquet"
"""Path of the file within a release."""

REWARD_MODEL: Final = pa.struct([("style", pa.string()), ("ground_truth", pa.string())])
_EXTRA_INFO: Final = pa.struct(
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
            ("reward_model", REWARD_MODEL),
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

    name: ClassVar[str] = "rl"
    file: ClassVar[str] = RL_FILE
    schema: ClassVar[pa.Schema] = RL_SCHEMA
    row_is: ClassVar[str] = "one step of one attempt, with the advantage of its trajectory"
    advice: ClassVar[str] = (
        "`rl` holds replies with their advantages, for a trainer that updates on stored replies. Its prompts are "
        "texts with `<image>`, as in verl's data, but verl samples replies itself: export prompts with targets for "
        "it (`trajmill export --format verl`)."
    )

    def batches(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        start = 0
        for batch in rows:
            count = batch.num_rows
            check_placeholders(batch["rl_step_id"], batch["prompt"].to_pylist(), batch["screens"])
            lineage = [batch[name] for name in ("group", "trajectory_id", "step_index")]
            index = pa.array(range(start, start + count), pa.int64())
            split = pa.repeat(Split.TRAIN.value, count)
            # Facts about the trajectory. The response is left out, because it may be wrong.
            accuracy, reward = (pc.cast(batch[name], pa.string()) for name in ("accuracy_reward", "reward"))
            truth = pc.binary_join_element_wise('{"accuracy": ', accuracy, ', "reward": ', reward, "}", "")
            columns = [
                pa.repeat("trajmill/end_to_end", count),
                batch["prompt"],
                pa.repeat("gui", count),
                pa.StructArray.from_arrays([pa.repeat("rule", count), truth], fields=list(REWARD_MODEL)),
                pa.StructArray.from_arrays([split, index, *lineage], fields=list(_EXTRA_INFO)),
                batch["screens"],
                *(batch[name] for name in OURS),
            ]
            yield pa.record_batch(columns, schema=without_images(RL_SCHEMA))
            start += count

    def problems(self, row: Mapping[str, Any], sizes: Mapping[str, Size], guidance: str) -> Iterator[str]:
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
