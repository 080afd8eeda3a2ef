"""Supervised rows of a release, as TRL reads them: prompt, completion and images, and our own columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, Literal

import pyarrow as pa

from trajmill.schemas.actions import action_from_json
from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.gui_owl_v3 import GuiOwlDesktop, GuiOwlMobile
from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.registry import arrow_schema
from trajmill.stages.export.exporter import Exporter
from trajmill.stages.export.images import IMAGES, with_features, without_images
from trajmill.stages.export.messages import BLOCK_MESSAGES, check_placeholders, content_blocks
from trajmill.stages.guidance.strip import quotes_guidance

SFT_FILE: Final = "trl/sft.parquet"
"""Path of the file within a release."""

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
