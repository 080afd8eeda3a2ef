"""The Hugging Face features that make `load_dataset` decode images, written into the Arrow schema's metadata."""

from __future__ import annotations

import json

import pyarrow as pa

from trajmill.schemas.tables.screen import IMAGE


def with_features(schema: pa.Schema) -> pa.Schema:
    """The schema with metadata key `huggingface`; columns of the type `schemas.tables.screen.IMAGE` are images.

    Made by hand so that exporting needs neither `datasets` nor torch; a test holds it against `datasets.Features`.

    Raises:
        NotImplementedError: a column has a type that no exporter uses.
    """
    features = {field.name: _feature(field.type) for field in schema}
    return schema.with_metadata({"huggingface": json.dumps({"info": {"features": features}})})


def _feature(kind: pa.DataType) -> object:
    if kind == IMAGE:
        return {"_type": "Image"}
    if pa.types.is_list(kind):
        # A list of one feature is read by all versions of `datasets`; the name "List" is unknown to those before 4.
        return [_feature(kind.value_type)]
    if pa.types.is_struct(kind):
        return {field.name: _feature(field.type) for field in kind}
    return {"dtype": _dtype(kind), "_type": "Value"}


def _dtype(kind: pa.DataType) -> str:
    if pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return str(kind)
    if pa.types.is_float64(kind):
        return "float64"
    raise NotImplementedError(f"no Hugging Face feature for the Arrow type {kind}")
