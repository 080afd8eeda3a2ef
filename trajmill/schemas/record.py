"""The base of all records and table rows: content ids, common columns, and Arrow schemas from annotations."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict

from trajmill.schemas import SCHEMA_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

Int64 = Annotated[int, "int64"]
"""A column of 64-bit whole numbers."""
Float32 = Annotated[float, "float32"]
"""A column of 32-bit floats."""
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=str)


def content_id(*parts: Any) -> str:
    """A 24-digit hexadecimal id that depends only on `parts` (JSON-serialisable values)."""
    return hashlib.blake2b(_CANONICAL.encode(parts).encode(), digest_size=12).hexdigest()


def seed_of(*parts: Any) -> int:
    """A seed of 31 bits, which every sampler takes, that depends only on `parts`."""
    return int(content_id(*parts), 16) % 2**31


class Record(BaseModel):
    """An immutable value; unknown fields are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Row(Record):
    """A record that is one row of a warehouse table; the docstrings of its fields describe the columns."""

    model_config = ConfigDict(use_attribute_docstrings=True)

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


_ARROW: dict[type, str] = {bool: "bool", int: "int32", float: "double", bytes: "binary", str: "string"}


@cache
def table_schema(record: type[Row]) -> pa.Schema:
    """Return the Arrow schema of a row's table, from its annotations: its own columns first, the common ones last.

    A column is nullable if its annotation has `| None`.
    """
    import pyarrow as pa  # Half the memory of a desktop's server, which has no tables.

    hints = get_type_hints(record, include_extras=True)
    rows = [base for base in record.__mro__ if issubclass(base, Row)]
    names = [name for base in rows for name in vars(base)["__annotations__"] if name in record.model_fields]
    return pa.schema([pa.field(name, *_type_and_nullability(hints[name])) for name in names])


def arrow_type(annotation: Any) -> pa.DataType:
    """Return the Arrow type of an annotation.

    A whole number has 32 bits and a float 64, unless `Annotated` names another type. A record is a struct, a tuple a
    list; so is a named tuple whose fields have one type (a box), any other is a struct.
    """
    import pyarrow as pa

    for extra in getattr(annotation, "__metadata__", ()):
        if isinstance(extra, str | pa.DataType):
            return pa.type_for_alias(extra) if isinstance(extra, str) else extra
    if get_origin(annotation) is tuple:
        return pa.list_(arrow_type(get_args(annotation)[0]))
    if issubclass(annotation, (BaseModel, tuple)):
        hints = get_type_hints(annotation, include_extras=True)
        fields = [pa.field(name, _type_and_nullability(hint)[0]) for name, hint in hints.items() if name[0] != "_"]
        types = {field.type for field in fields}
        return pa.list_(*types) if issubclass(annotation, tuple) and len(types) == 1 else pa.struct(fields)
    return pa.type_for_alias(next(kind for python, kind in _ARROW.items() if issubclass(annotation, python)))


def _type_and_nullability(annotation: Any) -> tuple[pa.DataType, bool]:
    if get_origin(annotation) not in (Union, UnionType):
        return arrow_type(annotation), False
    [kind] = [part for part in get_args(annotation) if part is not NoneType]
    return arrow_type(kind), True
