"""Columns of a release's files in Arrow: content blocks, images, lists, and the features of `datasets`."""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trajmill.schemas.coordinates import PixelBudget
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER
from trajmill.schemas.tables.screen import IMAGE
from trajmill.stages.export.base import ImageReader

Integers = npt.NDArray[np.int64]

BLOCK = pa.struct([("type", pa.string()), ("text", pa.string())])
"""A content block of TRL and chat templates. All blocks of an Arrow column have the same keys, and TRL and the Qwen
templates read any block with a key `image`, even null, as an image; the text of an image block is empty, not null."""
STRING_MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
BLOCK_MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.list_(BLOCK))]))
IMAGES = pa.list_(IMAGE)
"""The column `images` of every image dataset."""
BOUNDED_IMAGES = pa.list_(pa.struct([*IMAGE, ("min_pixels", pa.int64()), ("max_pixels", pa.int64())]))
"""Images with the bounds by which verl resizes them."""


class HeadAndLast(NamedTuple):
    """A list column split before the last element of each row."""

    head: pa.ListArray
    last: pa.ListArray
    """Lists of one element."""


def list_array(lengths: Integers, values: pa.Array) -> pa.ListArray:
    """A list column from the length of each row and all values one after another."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def list_lengths(lists: pa.ListArray) -> Integers:
    """The length of each row of a list column without nulls."""
    lengths: Integers = pc.list_value_length(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths


def cut_last(lists: pa.ListArray) -> HeadAndLast:
    """Each row without its last element, and its last element alone. No row may be empty."""
    lengths, flat = list_lengths(lists), lists.flatten()
    last = np.cumsum(lengths) - 1
    is_head = np.ones(len(flat), bool)
    is_head[last] = False
    return HeadAndLast(
        list_array(lengths - 1, flat.filter(pa.array(is_head))),
        list_array(np.ones(len(lengths), np.int64), flat.take(pa.array(last))),
    )


def placeholders(messages: pa.ListArray) -> Integers:
    """The number of placeholders in the text of each message of all rows."""
    found = pc.count_substring(messages.flatten().field("content"), IMAGE_PLACEHOLDER)
    counts: Integers = found.to_numpy().astype(np.int64)
    return counts


def check_placeholders(
    found: Integers, messages: pa.ListArray, screen_ids: pa.ListArray, row_ids: pa.StringArray
) -> None:
    """Check that the messages of each row have as many placeholders as the row has screens.

    Args:
        found: the number of placeholders in each message of all rows.
        messages: lists of messages.
        screen_ids: lists of screens.
        row_ids: names of the rows.

    Raises:
        BadInputError: the numbers differ; the message names the first such row.
    """
    owners = np.repeat(np.arange(len(messages)), list_lengths(messages))
    wrong = np.flatnonzero(np.bincount(owners, found, len(messages)) != list_lengths(screen_ids))
    if len(wrong):
        row = int(wrong[0])
        raise BadInputError(
            f"row {row_ids[row].as_py()}: {len(screen_ids[row])} screens do not match its {IMAGE_PLACEHOLDER} "
            "placeholders; derive the round again"
        )


def image_blocks(contents: pa.ListArray) -> Integers:
    """The number of image blocks in each list of blocks."""
    is_image = pc.equal(contents.flatten().field("type"), "image").to_numpy(zero_copy_only=False)
    before = np.concatenate([[0], np.cumsum(is_image)])
    counts: Integers = np.diff(before[np.concatenate([[0], np.cumsum(list_lengths(contents))])])
    return counts


def content_blocks(texts: pa.StringArray) -> pa.ListArray:
    """Each text as a list of blocks: its placeholders become image blocks, the text between them text blocks.

    Empty text between two images gives no block; an empty text gives one empty text block.
    """
    pieces = pc.split_pattern(texts, IMAGE_PLACEHOLDER)
    per_text, flat = list_lengths(pieces), pieces.flatten()
    owner = np.repeat(np.arange(len(texts)), per_text)
    # Piece j of all, if it is in text i, comes after j - i images: each text has one image fewer than pieces.
    spots = 2 * np.arange(len(flat)) - owner
    size = 2 * len(flat) - len(texts)
    is_text = np.zeros(size, bool)
    is_text[spots] = True
    piece = np.zeros(size, np.int64)
    piece[spots] = np.arange(len(flat))
    kept = ~is_text
    kept[spots] = (pc.binary_length(flat).to_numpy(zero_copy_only=False) > 0) | (per_text[owner] == 1)
    words = pc.fill_null(flat.take(pa.array(piece, mask=~is_text).filter(pa.array(kept))), "")
    kinds = pc.if_else(pa.array(is_text[kept]), "text", "image")
    blocks = pa.StructArray.from_arrays([kinds, words], fields=list(BLOCK))
    lengths = np.bincount(np.repeat(np.arange(len(texts)), 2 * per_text - 1)[kept], minlength=len(texts))
    return list_array(lengths, blocks)


def with_distinct_images(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a batch with the images of `image_lists`, each distinct one once in memory."""
    fields = [field.with_type(_distinct(field.type)) if _is_images(field) else field for field in schema]
    return pa.schema(fields, metadata=schema.metadata)


def without_images(schema: pa.Schema) -> pa.Schema:
    """Return the schema without its column of images."""
    return pa.schema([field for field in schema if not _is_images(field)], metadata=schema.metadata)


def with_images(
    rows: pa.RecordBatch, schema: pa.Schema, screens: ImageReader, bounds: PixelBudget | None = None
) -> pa.RecordBatch:
    """Return the rows with the images of the screens in column `screen_ids`.

    Args:
        rows: in the schema `without_images`.
        schema: with one column of images.
        screens: reads the images.
        bounds: the values of the bounds of `BOUNDED_IMAGES`.

    Raises:
        KeyError: a screen is not stored.
    """
    screen_ids = rows.column("screen_ids")
    columns = [
        image_lists(screen_ids, screens, field.type, bounds) if _is_images(field) else rows.column(field.name)
        for field in schema
    ]
    return pa.record_batch(columns, schema=with_distinct_images(schema))


def image_lists(
    screen_ids: pa.ListArray, screens: ImageReader, kind: pa.DataType = IMAGES, bounds: PixelBudget | None = None
) -> pa.ListArray:
    """Return the images of each row's screens, in the order of the ids; a repeated screen is read once.

    Raises:
        KeyError: a screen is not stored.
    """
    flat = screen_ids.flatten()
    encoded = flat.dictionary_encode()
    distinct = screens.column(encoded.dictionary.to_pylist())
    references = pa.DictionaryArray.from_arrays(distinct.indices.take(encoded.indices), distinct.dictionary)
    columns = [references, pa.nulls(len(flat), pa.string())]
    if bounds is not None:
        columns += [
            pa.repeat(pa.scalar(each, pa.int64()), len(flat)) for each in (bounds.min_pixels, bounds.max_pixels)
        ]
    images = pa.StructArray.from_arrays(columns, fields=list(_distinct(kind).value_type))
    return list_array(list_lengths(screen_ids), images)


def _is_images(field: pa.Field) -> bool:
    return field.type in (IMAGES, BOUNDED_IMAGES)


def _distinct(images: pa.DataType) -> pa.DataType:
    """A list of images, each distinct one once in memory; it becomes the dictionary of a Parquet row group."""
    encoded = pa.field("bytes", pa.dictionary(pa.int32(), pa.binary()))
    return pa.list_(pa.struct([encoded, *list(images.value_type)[1:]]))


def with_features(schema: pa.Schema) -> pa.Schema:
    """The schema with metadata key `huggingface`; columns of the type `schemas.tables.screen.IMAGE` are images.

    Made without `datasets`, so that exporting needs neither it nor torch; a test compares it with `datasets.Features`.

    Raises:
        NotImplementedError: a column has a type that no exporter uses.
    """
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
    return {"dtype": _dtype(kind), "_type": "Value"}


def _dtype(kind: pa.DataType) -> str:
    if any(
        is_kind(kind) for is_kind in (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_binary)
    ):
        return str(kind)
    if pa.types.is_floating(kind):
        return f"float{kind.bit_width}"
    raise NotImplementedError(f"no Hugging Face feature for the Arrow type {kind}")
