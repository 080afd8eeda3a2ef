"""Makes Arrow columns of stored screens' images; the encoded bytes are copied, not decoded."""

from __future__ import annotations

import pyarrow as pa

from trajmill.schemas.tables.screen import IMAGE
from trajmill.stages.export.base import ImageReader
from trajmill.stages.export.columns.lists import list_array, list_lengths

IMAGES = pa.list_(IMAGE)
"""The column `images` of every image dataset that we write."""

_DISTINCT = pa.struct([("bytes", pa.dictionary(pa.int32(), pa.binary())), ("path", pa.string())])
"""As `IMAGE`, with an image that repeats in memory only once; it becomes the dictionary of a Parquet row group."""


def with_distinct_images(schema: pa.Schema) -> pa.Schema:
    """The schema of a batch whose columns of the type `IMAGES` come from `image_lists`."""
    fields = [field.with_type(pa.list_(_DISTINCT)) if field.type == IMAGES else field for field in schema]
    return pa.schema(fields, metadata=schema.metadata)


def without_images(schema: pa.Schema) -> pa.Schema:
    """The schema of a batch whose columns of the type `IMAGES` are still to come."""
    return pa.schema([field for field in schema if field.type != IMAGES], metadata=schema.metadata)


def with_images(rows: pa.RecordBatch, schema: pa.Schema, screens: ImageReader) -> pa.RecordBatch:
    """The rows with their images; `screen_ids` says which.

    Args:
        rows: in the schema `without_images`.
        schema: with one column of the type `IMAGES`.
        screens: where the images are.

    Raises:
        KeyError: a screen is not stored.
    """
    images = image_lists(rows.column("screen_ids"), screens)
    columns = [images if field.type == IMAGES else rows.column(field.name) for field in schema]
    return pa.record_batch(columns, schema=with_distinct_images(schema))


def image_lists(screen_ids: pa.ListArray, screens: ImageReader) -> pa.ListArray:
    """The images of each row's screens, in the order of the ids; a repeated screen is read once.

    Raises:
        KeyError: a screen is not stored.
    """
    flat = screen_ids.flatten()
    encoded = flat.dictionary_encode()
    distinct = screens.column(encoded.dictionary.to_pylist())
    references = pa.DictionaryArray.from_arrays(distinct.indices.take(encoded.indices), distinct.dictionary)
    images = pa.StructArray.from_arrays([references, pa.nulls(len(flat), pa.string())], fields=list(_DISTINCT))
    return list_array(list_lengths(screen_ids), images)
