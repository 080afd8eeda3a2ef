"""The messages and images of exported rows: their layouts, and row groups with images read through a temporary file."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from trajmill.schemas.coordinates import PixelBudget
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER, Message
from trajmill.schemas.tables.screen import IMAGE

STRING_MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
BLOCK = pa.struct([("type", pa.string()), ("text", pa.string())])
"""A content block. All blocks of an Arrow column have the same keys, and TRL and the Qwen templates read any block with
a key `image`, even null, as an image; the text of an image block is empty, not null."""
BLOCK_MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.list_(BLOCK))]))

_NEXT_TURN = "<|im_end|>\n<|im_start|>{role}\n"
"""The text between two turns of ChatML, the chat template of all families."""


def in_one_prompt(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Join the earlier turns into one user message between the system message, if any, and the reply.

    Trainers learn every assistant message of a row, and some refuse two in succession. The user message contains the
    separators of the chat template, so the tokens are those of the whole conversation.
    """
    system = tuple(messages[:1]) if messages[0].role == "system" else ()
    first, *later, reply = messages[len(system) :]
    turns = "".join(_NEXT_TURN.format(role=message.role) + message.content for message in later)
    return *system, Message(role="user", content=first.content + turns), reply


def in_strings(messages: Sequence[Message]) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.content} for message in messages]


def in_blocks(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [{"role": message.role, "content": content_blocks(message.content)} for message in messages]


def content_blocks(content: str) -> list[dict[str, str]]:
    """Split a text at its placeholders; an empty text gives one empty text block."""
    blocks: list[dict[str, str]] = []
    for number, text in enumerate(content.split(IMAGE_PLACEHOLDER)):
        if number:
            blocks.append({"type": "image", "text": ""})
        if text:
            blocks.append({"type": "text", "text": text})
    return blocks or [{"type": "text", "text": ""}]


def check_placeholders(row_ids: pa.Array, messages: Iterable[Sequence[dict[str, str]]], screens: pa.ListArray) -> None:
    """Raise BadInputError for the first row whose messages have not one placeholder for each screen."""
    for row_id, row, shown in zip(row_ids, messages, screens, strict=True):
        if sum(message["content"].count(IMAGE_PLACEHOLDER) for message in row) != len(shown):
            raise BadInputError(
                f"row {row_id.as_py()}: {len(shown)} screens do not match its {IMAGE_PLACEHOLDER} placeholders; "
                "derive the round again"
            )


_ROWS_AHEAD = 2048
"""Rows whose images are read from the store together."""


class ReleaseScreenReader(ScreenReader, Protocol):
    """A screen reader that reads many images, and many trees, together faster than one by one."""

    def images(self, screen_ids: Iterable[str]) -> Iterable[tuple[str, bytes]]:
        """Yield each id once with its encoded image, in the fastest order; KeyError for a screen that is not stored."""
        ...

    def trees(self, screen_ids: Sequence[str]) -> pa.ListArray:
        """Return the accessibility trees in the order of the ids, lists of `ELEMENT`."""
        ...


class _Place(NamedTuple):
    offset: int
    size: int


class ImageCache:
    """Random access to images of some thousand rows, which are copied in the order in which the store keeps them."""

    def __init__(self, file: IO[bytes], screens: ReleaseScreenReader) -> None:
        """Copy images from `screens` to `file`, which is open and empty; the caller closes it."""
        self._file = file
        self._screens = screens
        self._places: dict[str, _Place] = {}
        self._contents: dict[bytes, _Place] = {}
        self._end = 0

    def add(self, screen_ids: Iterable[str]) -> None:
        """Add the images that are missing. Screens with different trees but equal pixels share an image."""
        for screen_id, data in self._screens.images(set(screen_ids) - self._places.keys()):
            content = hashlib.sha256(data).digest()
            if content not in self._contents:
                self._file.write(data)
                self._contents[content] = _Place(self._end, len(data))
                self._end += len(data)
            self._places[screen_id] = self._contents[content]
        self._file.flush()

    def column(self, screen_ids: Sequence[str]) -> pa.DictionaryArray:
        """Return encoded images in the order of the ids; the dictionary has each image once, as Parquet requires."""
        numbers: dict[_Place, int] = {}
        indices = [numbers.setdefault(self._places[screen_id], len(numbers)) for screen_id in screen_ids]
        starts = np.zeros(len(numbers) + 1, np.int32)
        np.cumsum([place.size for place in numbers], out=starts[1:])
        data = np.empty(starts[-1], np.uint8)
        for place, start in zip(numbers, starts, strict=False):
            os.preadv(self._file.fileno(), [data.data[start : start + place.size]], place.offset)
        buffers = [None, pa.py_buffer(starts), pa.py_buffer(data)]
        distinct = pa.BinaryArray.from_buffers(pa.binary(), len(numbers), buffers)
        return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), distinct)

    def length(self, screen_id: str) -> int:
        return self._places[screen_id].size

    def screen_ids(self) -> list[str]:
        return sorted(self._places)


class GroupLimits(NamedTuple):
    """Limits of a row group. A row with larger images is a group by itself."""

    rows: int
    distinct: int
    """Most bytes of its distinct images, which are stored once."""
    repeated: int
    """Most bytes of its images with repetitions, all of which a trainer holds when it reads the group."""


class RowGroup(NamedTuple):
    rows: pa.RecordBatch
    bytes: int
    """Bytes of its distinct images."""


def row_groups(batches: Iterable[pa.RecordBatch], cache: ImageCache, limits: GroupLimits) -> Iterator[RowGroup]:
    """Divide rows into row groups; their images enter the cache some thousand rows ahead."""
    parts: list[pa.RecordBatch] = []
    seen: set[str] = set()
    rows = distinct = repeated = 0
    for batch in _cached_ahead(batches, cache):
        start = 0
        for row, shown in enumerate(batch["screen_ids"].to_pylist()):
            own = sum(map(cache.length, shown))
            new = sum(map(cache.length, set(shown) - seen))
            if rows and (rows == limits.rows or distinct + new > limits.distinct or repeated + own > limits.repeated):
                yield RowGroup(pa.concat_batches([*parts, batch.slice(start, row - start)]), distinct)
                parts, seen, start = [], set(), row
                rows = distinct = repeated = 0
                new = sum(map(cache.length, set(shown)))
            rows, distinct, repeated = rows + 1, distinct + new, repeated + own
            seen.update(shown)
        parts.append(batch.slice(start))
    if rows:
        yield RowGroup(pa.concat_batches(parts), distinct)


def _cached_ahead(batches: Iterable[pa.RecordBatch], cache: ImageCache) -> Iterator[pa.RecordBatch]:
    window: list[pa.RecordBatch] = []
    for batch in batches:
        window.append(batch)
        # Release it before the next one is read.
        del batch
        if sum(waiting.num_rows for waiting in window) >= _ROWS_AHEAD:
            cache.add(screen for waiting in window for screen in waiting["screen_ids"].flatten().unique().to_pylist())
            yield from window
            window = []
    cache.add(screen for waiting in window for screen in waiting["screen_ids"].flatten().unique().to_pylist())
    yield from window


def with_images(
    rows: pa.RecordBatch, schema: pa.Schema, cache: ImageCache, bounds: PixelBudget | None = None
) -> pa.RecordBatch:
    """Add the images of the screens in `screen_ids` to rows in the schema `without_images`."""
    screen_ids = rows["screen_ids"]
    flat = screen_ids.flatten()
    values = [cache.column(flat.to_pylist()), pa.nulls(len(flat), pa.string())]
    if bounds is not None:
        values += [pa.repeat(pa.scalar(each, pa.int64()), len(flat)) for each in (bounds.min_pixels, bounds.max_pixels)]
    offsets = np.cumsum([0, *map(len, screen_ids)], dtype=np.int32)

    def images(kind: pa.DataType) -> pa.ListArray:
        structs = pa.StructArray.from_arrays(values, fields=list(distinct_images(kind).value_type))
        return pa.ListArray.from_arrays(pa.array(offsets), structs)

    columns = [images(field.type) if is_images(field) else rows[field.name] for field in schema]
    return pa.record_batch(columns, schema=with_distinct_images(schema))


IMAGES = pa.list_(IMAGE)
"""The column `images` of every image dataset."""
BOUNDED_IMAGES = pa.list_(pa.struct([*IMAGE, ("min_pixels", pa.int64()), ("max_pixels", pa.int64())]))
"""Images with the bounds by which verl resizes them."""


def is_images(field: pa.Field) -> bool:
    return field.type in (IMAGES, BOUNDED_IMAGES)


def without_images(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field for field in schema if not is_images(field)], metadata=schema.metadata)


def with_distinct_images(schema: pa.Schema) -> pa.Schema:
    fields = [field.with_type(distinct_images(field.type)) if is_images(field) else field for field in schema]
    return pa.schema(fields, metadata=schema.metadata)


def distinct_images(images: pa.DataType) -> pa.DataType:
    encoded = pa.field("bytes", pa.dictionary(pa.int32(), pa.binary()))
    return pa.list_(pa.struct([encoded, *list(images.value_type)[1:]]))


def with_features(schema: pa.Schema) -> pa.Schema:
    features = {field.name: _feature(field.type) for field in schema}
    return schema.with_metadata({"huggingface": json.dumps({"info": {"features": features}})})


def _feature(kind: pa.DataType) -> object:
    if kind == IMAGE:
        return {"_type": "Image"}
    if pa.types.is_list(kind):
        # All versions of `datasets` read a list of one feature; versions before 4 lack the name "List".
        return [_feature(kind.value_type)]
    if pa.types.is_struct(kind):
        return {field.name: _feature(field.type) for field in kind}
    if pa.types.is_floating(kind):
        return {"dtype": f"float{kind.bit_width}", "_type": "Value"}
    if pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_binary(kind):
        return {"dtype": str(kind), "_type": "Value"}
    raise NotImplementedError(f"no Hugging Face feature for the Arrow type {kind}")
