"""A format of a release: the rows of one table that it takes, its columns, and the check of a row."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.schemas.actions import action_from_json
from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.gui_owl_v3 import GuiOwlDesktop, GuiOwlMobile
from trajmill.schemas.geometry import Size
from trajmill.schemas.spec import Spec
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.registry import arrow_schema
from trajmill.stages.export.images import (
    BLOCK_MESSAGES,
    IMAGES,
    STRING_MESSAGES,
    check_placeholders,
    content_blocks,
    with_features,
    without_images,
)
from trajmill.stages.guidance.strip import quotes_guidance
from trajmill.stages.parts import PartGroup

EXPORTERS: Final = PartGroup(
    "trajmill.exporters",
    "release format",
    {"trl": "trajmill.stages.export.exporter:SftExporter", "verl": "trajmill.stages.export.exporter:RLExporter"},
)


class Exporter(Spec):
    """Writes the rows of one table as one file of a release, and checks rows that were read back."""

    table: ClassVar[Literal["examples", "rl_steps"]]
    """The table whose rows it takes."""
    row_id: ClassVar[str]
    """The column that identifies a row."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the file's configuration in `load_dataset`: sft, rl."""

    @property
    @abstractmethod
    def file(self) -> str: ...

    @property
    @abstractmethod
    def row_is(self) -> str:
        """Description of one row, for the dataset card."""

    @property
    @abstractmethod
    def advice(self) -> str:
        """How to use the file, for the dataset card."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Columns of the file."""

    @abstractmethod
    def batches(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield all columns but `images` of each batch; raises BadInputError where placeholders and screens differ."""

    @abstractmethod
    def problems(self, row: Mapping[str, Any], sizes: Mapping[str, Size], guidance: str) -> Iterator[str]:
        """Yield the mistakes of a row that was read back; it must quote no line of `guidance`."""


def exporter_spec(kind: str) -> Exporter:
    """Return a release format with its defaults, or raise BadInputError that names the nearest one."""
    return EXPORTERS.default_spec(kind, Exporter)


SFT_FILE: Final = "trl/sft.parquet"

LINEAGE: Final = (
    *("example_id", "kind", "action", "coordinate_space", "loss_weight"),
    *("query_id", "trajectory_id", "step_index", "split"),
)
"""Columns of table `examples` that are copied to the file."""
_PROVENANCE: Final = ("variant", "written_by", "source_screens", "box")
"""Further columns of table `examples` that the rows of a derived kind have."""
_EXAMPLES: Final = arrow_schema("examples")

SFT_SCHEMA = with_features(
    pa.schema(
        [
            ("prompt", BLOCK_MESSAGES),
            ("completion", BLOCK_MESSAGES),
            ("images", IMAGES),
            ("screen_ids", pa.list_(pa.string())),
            *((name, _EXAMPLES.field(name).type) for name in LINEAGE),
        ]
    )
)


class SftExporter(Exporter):
    """Supervised rows as TRL reads them: the steps of judged attempts, or the examples of a derived kind."""

    table: ClassVar[Literal["examples", "rl_steps"]] = "examples"
    row_id: ClassVar[str] = "example_id"
    kind: Literal["trl"] = "trl"
    """Supervised rows for TRL."""
    derived_kind: str = ""
    """The derived kind of the rows, which then have their provenance too; empty for steps of judged attempts."""

    @property
    def name(self) -> str:
        return self.derived_kind or "sft"

    @property
    def file(self) -> str:
        return f"trl/{self.name}.parquet"

    @property
    def row_is(self) -> str:
        if self.derived_kind:
            return f"one example of the derived kind `{self.derived_kind}`, as prompt and completion"
        return "one step of a trajectory that was judged correct, as prompt and completion"

    @property
    def advice(self) -> str:
        if self.derived_kind:
            return (
                f"`{self.name}` has the columns of `sft`; `variant` is the sort of the row, `written_by` who wrote it."
            )
        return "`sft` is in TRL's conversational prompt-completion format for vision (`max_length=None`)."

    @property
    def schema(self) -> pa.Schema:
        further = [_EXAMPLES.field(name) for name in _PROVENANCE] if self.derived_kind else []
        fields = [*SFT_SCHEMA, *(pa.field(field.name, field.type) for field in further)]
        return pa.schema(fields, metadata=SFT_SCHEMA.metadata)

    def batches(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = without_images(self.schema)
        for batch in rows:
            messages, screen_ids = batch["messages"].to_pylist(), batch["screens"]
            check_placeholders(batch["example_id"], messages, screen_ids)
            blocks = [
                [{"role": message["role"], "content": content_blocks(message["content"])} for message in row]
                for row in messages
            ]
            prompts = pa.array([row[:-1] for row in blocks], BLOCK_MESSAGES)
            completions = pa.array([row[-1:] for row in blocks], BLOCK_MESSAGES)
            copied = [batch[name] for name in schema.names[3:]]
            yield pa.record_batch([prompts, completions, screen_ids, *copied], schema=schema)

    def problems(self, row: Mapping[str, Any], sizes: Mapping[str, Size], guidance: str) -> Iterator[str]:
        prompt = [block for message in row["prompt"] for block in message["content"]]
        reply = "".join(block["text"] for message in row["completion"] for block in message["content"])
        if sum(block["type"] == "image" for block in prompt) != len(row["images"]):
            yield "the placeholders do not match the images"
        if IMAGE_PLACEHOLDER in reply or any(IMAGE_PLACEHOLDER in block["text"] for block in prompt):
            yield f"{IMAGE_PLACEHOLDER} is left in a text"
        if row["split"] != Split.TRAIN:
            yield f"it is of split {row['split']}"
        asked = "".join(block["text"] for block in prompt)
        if quotes_guidance(f"{asked}\n{reply}", guidance):
            yield "it quotes the guidance that the agent was given"
        if row["action"] is not None:
            size = sizes.get(row["screen_ids"][-1]) if row["screen_ids"] else None
            parsed = [dialect.parse(reply, native_frame(size)) for dialect in (GuiOwlMobile(), GuiOwlDesktop()) if size]
            stored = action_from_json(row["action"])
            if not any(isinstance(each, Reply) and each.action == stored for each in parsed):
                yield "the completion does not say the stored action"


RL_FILE: Final = "verl/rl.parquet"

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
    *("replayed", "group_size", "branch", "policy_version", "guided"),
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
