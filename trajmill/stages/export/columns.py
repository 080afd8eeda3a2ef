"""Arrow schemas of exported files: lists of images, and the features that `datasets` reads."""

from __future__ import annotations

import json

import pyarrow as pa

from trajmill.schemas.tables.screen import IMAGE

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
    """Return a list type with dictionary-encoded images, which becomes the dictionary of a Parquet row group."""
    encoded = pa.field("bytes", pa.dictionary(pa.int32(), pa.binary()))
    return pa.list_(pa.struct([encoded, *list(images.value_type)[1:]]))


def with_features(schema: pa.Schema) -> pa.Schema:
    """Add the metadata key `huggingface`; columns of type `schemas.tables.screen.IMAGE` are images.

    Made without `datasets`: exporting needs neither it nor torch. A test compares the result with `datasets.Features`.

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
    if pa.types.is_floating(kind):
        return {"dtype": f"float{kind.bit_width}", "_type": "Value"}
    if pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_binary(kind):
        return {"dtype": str(kind), "_type": "Value"}
    raise NotImplementedError(f"no Hugging Face feature for the Arrow type {kind}")
