from enum import StrEnum
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from pydantic import BaseModel

from tests.records import record
from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.registry import TABLES, arrow_schema, rows_from_arrow, rows_to_arrow


def sample(annotation: Any) -> Any:
    inner = next((part for part in get_args(annotation) if part is not type(None)), annotation)
    if get_origin(annotation) is tuple:
        return (sample(inner), sample(inner))
    if get_origin(annotation) is not None:
        return sample(inner)
    if annotation is Box:
        return Box(1, 2, 30, 40)
    if annotation is UIElement:
        return UIElement("button", "Öffnen", Box(0, 0, 5, 5), ("clickable", "checked"), "v", "app.s/b")
    if issubclass(annotation, BaseModel):
        hints = get_type_hints(annotation)
        return annotation.model_validate({name: sample(hints[name]) for name in annotation.model_fields})
    if issubclass(annotation, StrEnum):
        return list(annotation)[-1]
    return {str: "täxt\n\x00", int: 2**31 - 1, float: 0.5, bool: True, bytes: b"\x89PNG\x00"}[annotation]


@pytest.mark.parametrize("filled", [True, False])
@pytest.mark.parametrize("table", TABLES)
def test_rows_survive_the_way_to_arrow_and_back(table: str, filled: bool) -> None:
    row = sample(TABLES[table]) if filled else record(TABLES[table])
    data = rows_to_arrow(table, [row, row])
    assert data.schema.equals(arrow_schema(table))
    assert rows_from_arrow(TABLES[table], data) == [row, row]
