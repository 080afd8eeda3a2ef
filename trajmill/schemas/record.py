"""The base of all records and table rows: content ids and the common columns."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from trajmill.schemas import SCHEMA_VERSION
from trajmill.schemas.lean_imports import keep_pandas_from_arrow

# Here, because whoever makes an array knows a record.
keep_pandas_from_arrow()


def content_id(*parts: Any) -> str:
    """A 24-digit hexadecimal id that depends only on `parts` (JSON-serialisable values)."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


class Record(BaseModel):
    """An immutable value; unknown fields are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Row(Record):
    """A record that is one row of a warehouse table."""

    round: int
    """Round of the loop that made the row, from 1; 0 for rows that were made before the first round."""
    run_id: str
    """The run (one `evolve` with one configuration) that made the row."""
    made_by: str
    """Version of the maker of the row: a model, prompt, judge or writer."""
    code_version: str
    """Version of the trajmill code that made the row."""
    schema_version: int = SCHEMA_VERSION
    """Version of the record layout."""


class Origin(Record):
    """The common columns of the rows that one stage makes."""

    round: int
    run_id: str
    code_version: str

    def common(self, made_by: str) -> dict[str, Any]:
        """Keyword arguments for the common columns of a `Row` made by `made_by`."""
        return {"round": self.round, "run_id": self.run_id, "code_version": self.code_version, "made_by": made_by}


COMMON_COLUMNS: list[pa.Field] = [
    pa.field("round", pa.int32(), nullable=False),
    pa.field("run_id", pa.string(), nullable=False),
    pa.field("made_by", pa.string(), nullable=False),
    pa.field("code_version", pa.string(), nullable=False),
    pa.field("schema_version", pa.int32(), nullable=False),
]


def table_schema(*columns: pa.Field) -> pa.Schema:
    """The Arrow schema of a table: its own columns, then the common ones."""
    return pa.schema([*columns, *COMMON_COLUMNS])


def required(name: str, kind: pa.DataType) -> pa.Field:
    """A column that is never null."""
    return pa.field(name, kind, nullable=False)


def optional(name: str, kind: pa.DataType) -> pa.Field:
    """A column that may be null."""
    return pa.field(name, kind)


STRINGS = pa.list_(pa.string())
TOKEN_IDS = pa.list_(pa.int32())
LOGPROBS = pa.list_(pa.float32())
