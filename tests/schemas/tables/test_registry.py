"""Each record's Arrow schema agrees with its fields, and rows survive the way to Arrow and back."""

from __future__ import annotations

import types
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Union, get_args, get_origin, get_type_hints

import pyarrow as pa
import pytest
from pydantic import BaseModel

from trajmill.schemas import SCHEMA_VERSION
from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import UIElement
from trajmill.schemas.record import COMMON_COLUMNS, Row
from trajmill.schemas.tables.registry import TABLES, arrow_schema, rows_from_arrow, rows_to_arrow
from trajmill.schemas.tables.screen import ELEMENT, IMAGE

COMMON = {field.name for field in COMMON_COLUMNS}


def arrow_types(annotation: Any) -> tuple[pa.DataType, ...]:
    """The Arrow types that may hold a Python type."""
    if annotation is Box:
        return (pa.list_(pa.int32()),)
    if annotation is UIElement:
        return (ELEMENT,)
    if get_origin(annotation) is tuple:
        return tuple(pa.list_(item) for item in arrow_types(get_args(annotation)[0]))
    if issubclass(annotation, BaseModel):
        return tuple(struct_types(annotation))
    if issubclass(annotation, bool):
        return (pa.bool_(),)
    if issubclass(annotation, str):
        return (pa.string(),)
    return {int: (pa.int32(), pa.int64()), float: (pa.float64(), pa.float32()), bytes: (IMAGE,)}[annotation]


def struct_types(record: type[BaseModel]) -> Iterator[pa.DataType]:
    for whole in (pa.int32(), pa.int64()):
        yield pa.struct(
            [
                (name, whole if whole in arrow_types(hint) else arrow_types(hint)[0])
                for name, hint in fields(record).items()
            ]
        )


def fields(record: type[BaseModel]) -> dict[str, Any]:
    hints = get_type_hints(record)
    return {name: hints[name] for name in record.model_fields}


def unwrapped(annotation: Any) -> tuple[Any, bool]:
    """The annotation without `| None`, and whether it had it."""
    if get_origin(annotation) in (Union, types.UnionType):
        [inner] = [part for part in get_args(annotation) if part is not type(None)]
        return inner, True
    return annotation, False


@pytest.mark.parametrize("table", TABLES)
def test_columns_are_the_fields_with_the_common_ones_last(table: str) -> None:
    names = arrow_schema(table).names
    own, common = names[: -len(COMMON_COLUMNS)], names[-len(COMMON_COLUMNS) :]
    assert common == [field.name for field in COMMON_COLUMNS]
    assert sorted(own) == sorted(name for name in fields(TABLES[table]) if name not in COMMON)


@pytest.mark.parametrize(
    ("table", "name"), [(table, name) for table, record in TABLES.items() for name in fields(record)]
)
def test_a_column_has_the_type_and_nullability_of_its_field(table: str, name: str) -> None:
    inner, optional = unwrapped(fields(TABLES[table])[name])
    column = arrow_schema(table).field(name)
    assert column.nullable == optional
    assert column.type in arrow_types(inner)


def test_elements_are_stored_field_by_field() -> None:
    stored = {field.name: field.type for field in ELEMENT}
    assert stored == {name: arrow_types(hint)[0] for name, hint in get_type_hints(UIElement).items()}


@pytest.mark.parametrize("record", TABLES.values(), ids=list(TABLES))
def test_records_are_versioned_closed_and_immutable(record: type[Row]) -> None:
    assert record.model_fields["schema_version"].default == SCHEMA_VERSION
    assert record.model_config["extra"] == "forbid" and record.model_config["frozen"]


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
    assert rows_from_arrow(table, data) == [row, row]


@pytest.mark.parametrize("table", TABLES)
def test_no_rows_are_a_table_too(table: str) -> None:
    assert rows_to_arrow(table, []).schema.equals(arrow_schema(table))
    assert rows_from_arrow(table, arrow_schema(table).empty_table()) == []
