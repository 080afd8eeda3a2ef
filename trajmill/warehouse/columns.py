"""The columns of the tables on disk: those of the records, and the time at which a row was written."""

from __future__ import annotations

import json

import pyarrow as pa

from trajmill.schemas.tables.registry import arrow_schema

WRITTEN_AT = pa.field("written_at", pa.timestamp("us", tz="UTC"))
"""When the row's file was written; null in files of an earlier trajmill.

Records have no such field, so that no time can decide an id, a seed or a policy.
"""
_HUGGING_FACE = {b"huggingface": json.dumps({"info": {"features": {"image": {"_type": "Image"}}}}).encode()}


def stored_schema(table: str) -> pa.Schema:
    """All columns of a table. Raises KeyError for an unknown table."""
    return arrow_schema(table).append(WRITTEN_AT)


def file_schema(table: str) -> pa.Schema:
    """The schema that the table's files are written with.

    For `screens` it carries the Hugging Face features, and the image is nullable: `datasets` ignores the features of
    a column whose nullability differs from its own.
    """
    schema = stored_schema(table)
    if table != "screens":
        return schema
    image = schema.get_field_index("image")
    return schema.set(image, schema.field(image).with_nullable(True)).with_metadata(_HUGGING_FACE)
