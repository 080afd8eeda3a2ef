"""Ids are part of the stored data: a change of any value here makes old rows unknown to new code."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
from pydantic import BaseModel

from tests.records import record
from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import UIElement
from trajmill.schemas.record import content_id
from trajmill.schemas.spec import OPERATIONAL, Spec, content_of
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.query import Platform, Query, Slot
from trajmill.schemas.tables.registry import TABLES, arrow_schema, rows_from_arrow, rows_to_arrow
from trajmill.schemas.tables.trajectory import Purpose, Trajectory

SLOTS = (Slot(name="size", value="Large", said="big", page="bites.dish"),)


def test_ids_are_what_they_have_always_been_and_depend_on_every_part_alone() -> None:
    assert content_id("a", 1, None, [2.5, {"b": True}]) == "5d75227c05c7333a2f849b15"
    assert Query.make_id(Platform.PHONE, "bites.order", SLOTS, "{}", "Order a big one") == "5c6d3ab1743076638da6471a"
    assert Trajectory.make_id("q", "end_to_end", "policy-1", Purpose.TRAIN, None, 7, 0) == "d82d69df5c556021ea9a5186"
    assert Guidance.make_id("q", "Press order.") == "d8059205a3c716e07b278982"
    assert content_id({"x": 1, "y": 2}) == content_id({"y": 2, "x": 1})
    different = [content_id("a", "b"), content_id("ab"), content_id("a", ["b"]), content_id("b", "a"), content_id()]
    assert len(set(different)) == len(different)
    one: list[Any] = ["q", "agent", "policy-1", Purpose.TRAIN, None, 7, 0]
    other = ["p", "other", "policy-2", Purpose.GUIDED, "g", 8, 1]
    changed = [[*one[:place], each, *one[place + 1 :]] for place, each in enumerate(other)]
    assert len({Trajectory.make_id(*parts) for parts in (one, *changed)}) == 8


def test_the_goal_of_a_query_does_not_depend_on_its_words_or_the_order_of_its_slots() -> None:
    two = (*SLOTS, Slot(name="dish", value="Soup", said="soup", page="bites.menu"))
    base: dict[str, Any] = {"task": "bites.order", "slots": two, "start_state": "{}"}
    key = Query.model_construct(**base, instruction="Order a big soup").goal_key()
    assert Query.model_construct(**base | {"slots": two[::-1]}, instruction="I want soup").goal_key() == key
    reworded = tuple(slot.model_copy(update={"said": "huge"}) for slot in two)
    assert Query.model_construct(**base | {"slots": reworded}).goal_key() == key
    assert Query.model_construct(**base | {"slots": SLOTS}).goal_key() != key
    assert Query.model_construct(**base | {"start_state": '{"a": 1}'}).goal_key() != key


class Inner(Spec):
    votes: int = 1
    workers: Annotated[int, OPERATIONAL] = 1


class Outer(Spec):
    inner: Inner = Inner()
    file: Path | None = None
    folder: Path | None = None
    by_name: dict[str, Inner] = {}
    url: Annotated[str, OPERATIONAL] = ""


def test_operational_fields_are_not_part_of_the_identity() -> None:
    moved = Outer(inner=Inner(workers=8), url="http://other", by_name={"a": Inner(workers=3)})
    assert moved.identity() == Outer(by_name={"a": Inner()}).identity()
    assert Outer(inner=Inner(votes=2)).identity() != Outer().identity()
    assert Outer(by_name={"a": Inner(votes=2)}).identity() != Outer(by_name={"a": Inner()}).identity()


def test_files_and_folders_count_by_their_contents(tmp_path: Path) -> None:
    one, same, other = (tmp_path / name for name in ("one.yaml", "same.yaml", "other.yaml"))
    one.write_text("a: 1")
    same.write_text("a: 1")
    other.write_text("a: 2")
    assert Outer(file=one).identity() == Outer(file=same).identity()
    assert Outer(file=one).identity() != Outer(file=other).identity()
    before = Outer(file=one).identity()
    one.write_text("a: 3")
    assert Outer(file=one).identity() != before
    for folder in ("a", "b"):
        (tmp_path / folder / "deep").mkdir(parents=True)
        (tmp_path / folder / "deep" / "task.json").write_text("{}")
    assert Outer(folder=tmp_path / "a").identity() == Outer(folder=tmp_path / "b").identity()
    (tmp_path / "b" / "deep" / "task.json").rename(tmp_path / "b" / "deep" / "other.json")
    assert Outer(folder=tmp_path / "a").identity() != Outer(folder=tmp_path / "b").identity()


def test_a_large_file_counts_by_its_size_and_by_blocks_of_it(tmp_path: Path) -> None:
    weights = tmp_path / "model.safetensors"
    with weights.open("wb") as file:
        file.truncate(65 << 20)
    before = content_of(weights)
    with weights.open("r+b") as file:
        file.seek((65 << 20) - 10)
        file.write(b"tuned")
    tuned = content_of(weights)
    with weights.open("r+b") as file:
        file.truncate(66 << 20)
    assert len({before, tuned, content_of(weights)}) == 3


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
