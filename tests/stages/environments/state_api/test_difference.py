import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from trajmill.stages.environments.difference import ABSENT, differences, is_same, matches
from trajmill.stages.environments.state_api.task import MOST_STATE_BYTES, StateChange, StateGoal, StateStart
from trajmill.stages.environments.tasks import first_mistake

MILK, BREAD = {"id": "t1", "title": "Milk", "done": False}, {"id": "t2", "title": "Bread", "done": False}
BEFORE = {"tasks": [MILK, BREAD], "view": {"tab": "all"}, "cart": {}, "tags": ["a"], "count": 1}


def state(**changes: Any) -> dict[str, Any]:
    return {**BEFORE, **changes}


def new(number: int, title: str = "Eggs") -> dict[str, Any]:
    return {"id": f"n{number}", "title": title, "done": False, "at": number}


def paths(before: Any, after: Any) -> list[str]:
    return [".".join(each.path) for each in differences(before, after)]


@pytest.mark.parametrize(
    ("after", "found"),
    [
        (state(), []),
        (state(count=1.0), []),
        (state(count=True), ["count"]),
        (state(tasks=[{**MILK, "done": True}, BREAD]), ["tasks.t1.done"]),
        (state(tasks=[BREAD]), ["tasks.t1"]),
        (state(tasks=[new(1), MILK, BREAD]), ["tasks.n1"]),
        (state(tasks=[BREAD, MILK]), ["tasks.order"]),
        (state(tags=["a", "b"], cart={"egg": {"n": 2}}), ["cart.egg", "tags.1"]),
        (state(view=None), ["view"]),
        (None, [""]),
    ],
)
def test_the_deepest_values_that_differ_are_found_by_path(after: Any, found: list[str]) -> None:
    assert paths(BEFORE, after) == found


def test_items_go_by_the_field_that_tells_them_apart() -> None:
    one = [{"userId": "u", "messageId": "m1", "text": "Hi"}]
    two = [*one, {"userId": "u", "messageId": "m2", "text": "Ho"}]
    assert paths(one, two) == ["m2"], "the user is the same"
    assert paths([{"a": 1}], [{"a": 2}]) == ["0.a"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(("id", "a", "b")), inner, max_size=3),
    max_leaves=12,
)


@given(JSON, JSON)
def test_states_differ_exactly_if_their_json_does_and_every_difference_is_at_its_path(one: Any, other: Any) -> None:
    assert is_same(one, other) == (json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True))
    for each in differences(one, other):
        if each.path[-1:] != ("order",):
            assert (each.path, each.before, each.after) in [tuple(m) for m in matches(each.path, one, other)]


EGGS = {"path": "tasks.*", "added": {"title": "Eggs"}}


@pytest.mark.parametrize(
    ("goal", "after", "reached", "beyond"),
    [
        ([EGGS], state(tasks=[MILK, BREAD, new(1)]), True, ()),
        ([EGGS], state(tasks=[MILK, BREAD, new(1), new(2)]), True, ("tasks.n2",)),
        ([EGGS, EGGS], state(tasks=[MILK, BREAD, new(1), new(2)]), True, ()),
        ([EGGS, EGGS], state(tasks=[MILK, BREAD, new(1)]), False, ()),
        ([EGGS], state(tasks=[MILK, BREAD, new(1, "Egg")]), False, ("tasks.n1",)),
        (
            [EGGS, {"path": "tasks.*", "added": {"title": "Eggs", "at": 1}}],
            state(tasks=[MILK, BREAD, new(1), new(2)]),
            True,
            (),
        ),
        ([{"path": "tasks.t1.done", "to": True}], state(tasks=[{**MILK, "done": True}, BREAD]), True, ()),
        ([{"path": "tasks.t1.done", "to": True}], state(tasks=[MILK]), False, ("tasks.t2",)),
        ([{"path": "tasks.t1.done", "to": False}], state(), False, ()),
        ([{"path": "tasks.t1", "removed": True}], state(tasks=[BREAD], count=2), True, ("count",)),
        ([{"path": "tasks.t9", "removed": True}], state(), False, ()),
        ([{"path": "tasks.*.title", "contains": "Brown"}], state(tasks=[MILK, {**BREAD, "title": "Brown"}]), True, ()),
        ([{"path": "cart.egg", "to": 1}], state(cart={"egg": 1}, view={"tab": "cart"}), True, ()),
        ([{"path": "cart.egg", "to": 1}], state(cart={"egg": 2}), False, ()),
        ([{"path": ["cart", "a.b"], "to": None}], state(cart={"a.b": None}), True, ()),
        ([{"path": "tags", "to": ["a", "b"]}], state(tags=["a", "b"]), True, ()),
        ([{"path": "tasks", "to": [BREAD, MILK]}], state(tasks=[BREAD, MILK]), True, ()),
    ],
)  # fmt: skip
def test_a_goal_is_reached_by_its_changes_and_the_rest_is_beyond_it(
    goal: list[dict[str, Any]], after: Any, reached: bool, beyond: tuple[str, ...]
) -> None:
    read = StateGoal.model_validate_json(json.dumps({"changes": goal, "allowed": ["view"]}))
    assert read.outcome(BEFORE, after) == (reached, beyond)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"path": "a"}, "exactly one of the keys to, contains, added and removed"),
        ({"path": "a", "to": 1, "contains": "x"}, "exactly one"),
        ({"path": "a", "removed": False}, "exactly one"),
        ({"path": "", "to": 1}, "at least 1 character"),
        ({"path": [], "to": 1}, "at least 1 item"),
        ({"path": "a", "is": 1}, "Extra inputs"),
    ],
)
def test_a_change_that_is_unclear_is_refused(change: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as refused:
        StateChange.model_validate(change)
    assert told in str(refused.value)


def test_a_state_of_a_task_is_an_object_of_some_size() -> None:
    start = {"url": "http://127.0.0.1:1/"}
    for wrong, told in (({"a": "x" * MOST_STATE_BYTES}, "the most are 2,000,000"), ([], "valid dictionary")):
        with pytest.raises(ValidationError) as refused:
            StateStart.model_validate({**start, "state": wrong})
        assert told in first_mistake(refused.value, "it")
    assert repr(ABSENT) == "nothing"
