"""Ids are part of the stored data: a change of any value here makes old rows unknown to new code."""

from __future__ import annotations

import subprocess
import sys
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


def test_ids_do_not_depend_on_the_process() -> None:
    code = "from trajmill.schemas.record import content_id; print(content_id('a', 1, None, [2.5, {'b': True}]))"
    output = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONHASHSEED": "7"}, capture_output=True, text=True, check=True
    )
    assert output.stdout.strip() == content_id("a", 1, None, [2.5, {"b": True}])


def test_ids_depend_on_every_part_and_on_nothing_else() -> None:
    assert content_id({"x": 1, "y": 2}) == content_id({"y": 2, "x": 1})
    different = [content_id("a", "b"), content_id("ab"), content_id("a", ["b"]), content_id("b", "a"), content_id()]
    assert len(set(different)) == len(different)
    base = ("q", "agent", "policy-1", Purpose.TRAIN, None, 7, 0)
    changed = [
        ("p", *base[1:]),
        (base[0], "other", *base[2:]),
        (*base[:2], "policy-2", *base[3:]),
        (*base[:3], Purpose.GUIDED, *base[4:]),
        (*base[:4], "g", *base[5:]),
        (*base[:5], 8, 0),
        (*base[:6], 1),
    ]
    assert len({Trajectory.make_id(*parts) for parts in (base, *changed)}) == 8


def test_the_goal_of_a_query_does_not_depend_on_its_words_or_the_order_of_its_slots() -> None:
    two = (*SLOTS, Slot(name="dish", value="Soup", said="soup", page="bites.menu"))
    base: dict[str, Any] = {"task": "bites.order", "slots": two, "start_state": "{}"}
    key = Query.model_construct(**base, instruction="Order a big soup").goal_key()
    assert Query.model_construct(**base | {"slots": two[::-1]}, instruction="I want soup").goal_key() == key
    reworded = tuple(slot.model_copy(update={"said": "huge"}) for slot in two)
    assert Query.model_construct(**base | {"slots": reworded}).goal_key() == key
    assert Query.model_construct(**base | {"slots": SLOTS}).goal_key() != key
    assert Query.model_construct(**base | {"start_state": '{"a": 1}'}).goal_key() != key
