"""Schemas come from the annotations of records, and rows survive the way to Arrow and back."""

from __future__ import annotations

import types
from enum import StrEnum
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import pyarrow as pa
import pytest
from pydantic import BaseModel

from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import UIElement
from trajmill.schemas.record import Float32, Int64, Record, Row, table_schema
from trajmill.schemas.tables.registry import TABLES, arrow_schema, rows_from_arrow, rows_to_arrow
from trajmill.schemas.tables.verdict import StepLabel


def fields(record: type[BaseModel]) -> dict[str, Any]:
    hints = get_type_hints(record)
    return {name: hints[name] for name in record.model_fields}


def unwrapped(annotation: Any) -> tuple[Any, bool]:
    """The annotation without `| None`, and whether it had it."""
    if get_origin(annotation) in (Union, types.UnionType):
        [inner] = [part for part in get_args(annotation) if part is not type(None)]
        return inner, True
    return annotation, False


class Place(NamedTuple):
    name: str
    box: Box


class Part(Record):
    name: StepLabel
    places: tuple[Place, ...]


class Base(Row):
    late: bool | None


class Derived(Base):
    part: Part
    parts: tuple[Part, ...] | None
    count: int
    many: Int64 | None
    share: float
    chances: tuple[Float32, ...]
    where: Box | None


def test_a_schema_comes_from_annotations() -> None:
    box = pa.list_(pa.int32())
    part = pa.struct(
        [("name", pa.string()), ("places", pa.list_(pa.struct([("name", pa.string()), ("box", box)])))],
    )
    own = {
        "part": part,
        "parts": pa.list_(part),
        "count": pa.int32(),
        "many": pa.int64(),
        "share": pa.float64(),
        "chances": pa.list_(pa.float32()),
        "where": box,
        "late": pa.bool_(),
    }
    schema = table_schema(Derived)
    assert schema.names == [*own, "round", "run_id", "made_by", "code_version", "schema_version"]
    assert [schema.field(name).type for name in own] == list(own.values())
    assert [field.name for field in schema if field.nullable] == ["parts", "many", "where", "late"]


def sample(annotation: Any, filled: bool) -> Any:
    """A value of a type; `filled` decides between something and nothing where both are allowed."""
    inner, optional = unwrapped(annotation)
    if optional and not filled:
        return None
    if inner is Box:
        return Box(1, 2, 30, 40)
    if inner is UIElement:
        return UIElement("button", "Öffnen", Box(0, 0, 5, 5), ("clickable", "checked"), "v", "app.s/b")
    if get_origin(inner) is tuple:
        return tuple(sample(get_args(inner)[0], filled) for _ in range(2)) if filled else ()
    if issubclass(inner, BaseModel):
        return inner.model_validate({name: sample(hint, filled) for name, hint in fields(inner).items()})
    if issubclass(inner, StrEnum):
        return list(inner)[-1]
    return {str: "täxt\n\x00" if filled else "", int: 2**31 - 1, float: 0.5, bool: filled, bytes: b"\x89PNG\x00"}[inner]


@pytest.mark.parametrize("filled", [True, False])
@pytest.mark.parametrize("table", TABLES)
def test_rows_survive_the_way_to_arrow_and_back(table: str, filled: bool) -> None:
    row = sample(TABLES[table], filled)
    data = rows_to_arrow(table, [row, row])
    assert data.schema.equals(arrow_schema(table))
    assert rows_from_arrow(TABLES[table], data) == [row, row]
