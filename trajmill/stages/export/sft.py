"""Writes supervised rows for TRL: prompt and completion as content blocks, images as bytes, and our own columns.

TRL reads `prompt`, `completion` and `images`; all images belong to the prompt. The other columns are ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, Literal

import pyarrow as pa

from trajmill.schemas.actions import Action, action_from_json
from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.base import Dialect, Reply
from trajmill.schemas.dialects.gui_owl_v3 import GuiOwlDesktop, GuiOwlMobile
from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.registry import arrow_schema
from trajmill.stages.export.columns import (
    BLOCK_MESSAGES,
    IMAGES,
    check_placeholders,
    content_blocks,
    cut_last,
    image_blocks,
    list_array,
    list_lengths,
    with_features,
    without_images,
)
from trajmill.stages.export.exporter import Exporter
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
        """Name of the file's configuration."""
        return self.derived_kind or "sft"

    @property
    def file(self) -> str:
        """Path of its file within the release."""
        return f"trl/{self.name}.parquet"

    @property
    def row_is(self) -> str:
        """Description of one row."""
        if self.derived_kind:
            return f"one example of the derived kind `{self.derived_kind}`, as prompt and completion"
        return "one step of a trajectory that was judged correct, as prompt and completion"

    @property
    def advice(self) -> str:
        """How to use the file."""
        if self.derived_kind:
            return (
                f"`{self.name}` has the columns of `sft`; `variant` is the sort of the row, `written_by` who wrote it."
            )
        return "`sft` is in TRL's conversational prompt-completion format for vision (`max_length=None`)."

    @property
    def schema(self) -> pa.Schema:
        """Columns of the file."""
        further = [pa.field(name, _EXAMPLES.field(name).type) for name in self._further]
        return pa.schema([*SFT_SCHEMA, *further], metadata=SFT_SCHEMA.metadata)

    @property
    def _further(self) -> tuple[str, ...]:
        return _PROVENANCE if self.derived_kind else ()

    def batches(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one row per example, in order, without the images.

        Raises:
            BadInputError: an example has more or fewer placeholders than screens.
        """
        return map(self._batch, rows)

    def problems(self, row: Mapping[str, Any], sizes: Mapping[str, Size], guidance: str) -> Iterator[str]:
        """The mistakes of a row of the file; images are not checked here."""
        prompt = [block for message in row["prompt"] for block in message["content"]]
        said = "".join(block["text"] for message in row["completion"] for block in message["content"])
        if sum(block["type"] == "image" for block in prompt) != len(row["images"]):
            yield "the placeholders do not match the images"
        if IMAGE_PLACEHOLDER in said or any(IMAGE_PLACEHOLDER in block["text"] for block in prompt):
            yield f"{IMAGE_PLACEHOLDER} is left in a text"
        if row["split"] != Split.TRAIN:
            yield f"it is of split {row['split']}"
        asked = "".join(block["text"] for block in prompt)
        if quotes_guidance(f"{asked}\n{said}", guidance):
            yield "it quotes the guidance that the agent was given"
        size = sizes.get(row["screen_ids"][-1]) if row["screen_ids"] else None
        if row["action"] is not None and (size is None or not _says(said, action_from_json(row["action"]), size)):
            yield "the completion does not say the stored action"

    def _batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        messages, screen_ids = batch.column("messages"), batch.column("screens")
        contents = content_blocks(messages.flatten().field("content"))
        check_placeholders(image_blocks(contents), messages, screen_ids, batch.column("example_id"))
        parts = cut_last(_in_blocks(messages, contents))
        copied = [batch.column(name) for name in (*LINEAGE, *self._further)]
        return pa.record_batch([parts.head, parts.last, screen_ids, *copied], schema=without_images(self.schema))


def _in_blocks(messages: pa.ListArray, contents: pa.ListArray) -> pa.ListArray:
    said = pa.StructArray.from_arrays(
        [messages.flatten().field("role"), contents], fields=list(BLOCK_MESSAGES.value_type)
    )
    return list_array(list_lengths(messages), said)


def _says(text: str, action: Action, size: Size) -> bool:
    frame = native_frame(size)
    dialects: tuple[Dialect, ...] = (GuiOwlMobile(), GuiOwlDesktop())
    replies = (dialect.parse(text, frame) for dialect in dialects)
    return any(isinstance(reply, Reply) and reply.action == action for reply in replies)
