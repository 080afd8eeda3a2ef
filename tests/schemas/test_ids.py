"""Ids are part of the stored data: a change of any value here makes old rows unknown to new code."""

from typing import Any

from trajmill.schemas.record import content_id
from trajmill.schemas.tables.guidance import Guidance
from trajmill.schemas.tables.query import Platform, Query, Slot
from trajmill.schemas.tables.trajectory import Purpose, Trajectory

SLOTS = (Slot(name="size", value="Large", said="big", page="bites.dish"),)


def test_ids_are_what_they_have_always_been() -> None:
    assert content_id("a", 1, None, [2.5, {"b": True}]) == "5d75227c05c7333a2f849b15"
    assert Query.make_id(Platform.PHONE, "bites.order", SLOTS, "{}", "Order a big one") == "5c6d3ab1743076638da6471a"
    assert Trajectory.make_id("q", "end_to_end", "policy-1", Purpose.TRAIN, None, 7, 0) == "d82d69df5c556021ea9a5186"
    assert Guidance.make_id("q", "Press order.") == "d8059205a3c716e07b278982"


def test_ids_depend_on_every_part_and_on_nothing_else() -> None:
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
