"""Writes Hugging Face features into the metadata of an Arrow schema, so that `load_dataset` decodes images."""

from __future__ import annotations

import json

import pyarrow as pa

from trajmill.schemas.tables.screen import IMAGE


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
        # All versions of `datasets` read a list of one feature; versions before 4 do not know the name "List".
        return [_feature(kind.value_type)]
    if pa.types.is_struct(kind):
        return {field.name: _feature(field.type) for field in kind}
    return {"dtype": _dtype(kind), "_type": "Value"}


def _dtype(kind: pa.DataType) -> str:
    if pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return str(kind)
    if pa.types.is_floating(kind):
        return f"float{kind.bit_width}"
    raise NotImplementedError(f"no Hugging Face feature for the Arrow type {kind}")
