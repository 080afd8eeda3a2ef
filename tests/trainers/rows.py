"""What the rows of a trainer must be, whichever it is."""

from __future__ import annotations

from collections.abc import Sequence

from tests.trainers.exports import Exported
from tests.trainers.loaded import LoadedRow
from trajmill.schemas.dialects.families import Family
from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.example import Message

_IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"


def assert_conversations(exported: Exported, rows: Sequence[LoadedRow]) -> None:
    assert len(rows) == len(exported.examples) > 0
    for example, row in zip(exported.examples, rows, strict=True):
        assert row.text.rstrip("\n") == _chat(example.messages).rstrip("\n")
        assert row.learned.rstrip("\n") == f"{example.messages[-1].content}<|im_end|>"
    assert_images(exported, rows)


def assert_prompts(exported: Exported, rows: Sequence[LoadedRow]) -> None:
    assert len(rows) == len(exported.examples) > 0
    for example, row in zip(exported.examples, rows, strict=True):
        assert row.text == f"{_chat(example.messages[:-1])}<|im_start|>assistant\n"
        assert "<image>" not in row.text and row.learned == ""
    assert_images(exported, rows)


def assert_images(exported: Exported, rows: Sequence[LoadedRow]) -> None:
    # Rows of action semantics show two screens.
    assert max(len(row.grids) for row in rows) == max(2, 1 + exported.family.past_screens)
    for example, row in zip(exported.examples, rows, strict=True):
        tokens = sum(_tokens(exported.family, size) for size in example.lineage.image_sizes)
        assert len(row.grids) == len(example.lineage.screen_ids) == row.text.count(_IMAGE)
        assert row.image_tokens == tokens == example.lineage.image_tokens
        assert sum(time * high * wide for time, high, wide in row.grids) == 4 * tokens


def _tokens(family: Family, size: Size) -> int:
    seen = family.budget.fit(size)
    return seen.width * seen.height // family.budget.factor**2


def _chat(messages: Sequence[Message]) -> str:
    spoken = "".join(f"<|im_start|>{message.role}\n{message.content}<|im_end|>\n" for message in messages)
    return spoken.replace("<image>", _IMAGE)
