import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.stages.environments.state_api.apps import StateApi, serving
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import Origin
from trajmill.stages.environments.difference import ABSENT, differences, is_same, matches
from trajmill.stages.environments.kinds import StateApiSpec
from trajmill.stages.environments.state_api.server import address_of, check_servers
from trajmill.stages.environments.state_api.task import MOST_STATE_BYTES, StateChange, StateGoal, StateStart
from trajmill.stages.parts import first_mistake

Change = Callable[[dict[str, Any]], bytes]


def other_session(answer: dict[str, Any]) -> bytes:
    return json.dumps({**answer, "sid": "mine"} if "current_state" in answer else answer).encode()


def other_state(answer: dict[str, Any]) -> bytes:
    for state in filter(None, (answer.get("initial_state"), answer.get("current_state"))):
        state["check"] = "changed"
    return json.dumps(answer).encode()


class OneForAll(StateApi):
    def api(self, path: str, sid: str) -> bytes:
        return super().api(path, "all")


def answering(change: Change) -> type[StateApi]:
    """A server whose answers are changed on their way."""

    class Changed(StateApi):
        def api(self, path: str, sid: str) -> bytes:
            return change(json.loads(super().api(path, sid)))

    return Changed


def replying(status: int, location: str = "") -> type[StateApi]:
    class Same(StateApi):
        def reply(self) -> None:
            self.answer(status=status, Location=location)

    return Same


async def test_a_server_that_is_wrong_about_sessions_is_refused_in_one_line() -> None:
    for kind, told in (
        (answering(other_session), "GET /go answers the session 'mine', asked for "),
        (answering(other_state), "answers a state that was not set: initial_state.check is 'changed', not '"),
        (OneForAll, "answers a state that was not set: initial_state.check is 'another session', not '"),
        (answering(lambda _: b"<html>Not found"), "POST /post answers no JSON: '<html>Not found'"),
        (answering(lambda _: b"[" * 100_000), "POST /post answers no JSON: '[[["),
        (answering(lambda _: b" " * 100_000_000), "POST /post answers more than 16,000,000 bytes"),
        (answering(lambda _: b'{"success": false, "error": "no room"}'), "POST /post refuses to set the state: 'no "),
        (answering(lambda _: b"{}"), "GET /go answers no object with initial_state and current_state"),
        (replying(302, "http://else.invalid/go"), "POST /post redirects to 'http://else.invalid/go'; name "),
        (replying(404), "POST /post answers HTTP 404; it has no state API there"),
    ):
        with serving(kind=kind) as wrong, serving() as right, pytest.raises(BadInputError) as refused:
            await check_servers([f"{wrong.url}/a", f"{right.url}/", f"{wrong.url}/b"])
        assert str(refused.value).startswith(f"{wrong.url} {told}") and "\n" not in str(refused.value)


async def test_tasks_of_a_wrong_server_are_refused_before_anything_runs(tmp_path: Any) -> None:
    with serving(kind=replying(404)) as wrong:
        line = {"instruction": "Do it.", "start_state": {"url": wrong.url}, "goal": {}}
        (tmp_path / "tasks.jsonl").write_text(json.dumps(line))
        with pytest.raises(BadInputError, match="it has no state API there"):
            await StateApiSpec(tasks=tmp_path / "tasks.jsonl").own_queries(
                0, Origin(round=1, run_id="r", code_version="t")
            )


def test_the_session_replaces_another_one_in_an_address() -> None:
    assert address_of("http://h/p?sid=old&q=a%20b&e=#top", "new") == "http://h/p?q=a+b&e=&sid=new#top"


MILK, BREAD = {"id": "t1", "title": "Milk", "done": False}, {"id": "t2", "title": "Bread", "done": False}
HI = {"userId": "u", "messageId": "m1", "text": "Hi"}
BEFORE = {
    **{"tasks": [MILK, BREAD], "view": {"tab": "all"}, "cart": {}, "tags": ["a"], "count": 1},
    **{"chat": [HI], "rows": [{"a": 1}]},
}


def state(**changes: Any) -> dict[str, Any]:
    return {**BEFORE, **changes}


def new(number: int, title: str = "Eggs") -> dict[str, Any]:
    return {"id": f"n{number}", "title": title, "done": False, "at": number}


def test_the_deepest_values_that_differ_are_found_by_path() -> None:
    for after, found in (
        (state(), []),
        (state(count=1.0), []),
        (state(count=True), ["count"]),
        (state(tasks=[{**MILK, "done": True}, BREAD]), ["tasks.t1.done"]),
        (state(tasks=[BREAD]), ["tasks.t1"]),
        (state(tasks=[new(1), MILK, BREAD]), ["tasks.n1"]),
        (state(tasks=[BREAD, MILK]), ["tasks.order"]),
        (state(tags=["a", "b"], cart={"egg": {"n": 2}}), ["cart.egg", "tags.1"]),
        (state(view=None), ["view"]),
        (state(chat=[HI, {**HI, "messageId": "m2"}], rows=[{"a": 2}]), ["chat.m2", "rows.0.a"]),
        (None, [""]),
    ):
        assert [".".join(each.path) for each in differences(BEFORE, after)] == found


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
        ([EGGS], state(tasks=[MILK, BREAD, new(1, "Egg")]), False, ("tasks.n1",)),
        ([EGGS, {"path": "tasks.*", "added": {"title": "Eggs", "at": 1}}], state(tasks=[MILK, BREAD, new(1), new(2)]),
         True, ()),
        ([{"path": "tasks.t1.done", "to": True}], state(tasks=[{**MILK, "done": True}, BREAD]), True, ()),
        ([{"path": "tasks.t1.done", "to": True}], state(tasks=[MILK]), False, ("tasks.t2",)),
        ([{"path": "tasks.t1.done", "to": False}], state(), False, ()),
        ([{"path": "tasks.t1", "removed": True}], state(tasks=[BREAD], count=2), True, ("count",)),
        ([{"path": "tasks.*.title", "contains": "Brown"}], state(tasks=[MILK, {**BREAD, "title": "Brown"}]), True, ()),
        ([{"path": "cart.egg", "to": 1}], state(cart={"egg": 1}, view={"tab": "cart"}), True, ()),
        ([{"path": ["cart", "a.b"], "to": None}], state(cart={"a.b": None}), True, ()),
        ([{"path": "tasks", "to": [BREAD, MILK]}], state(tasks=[BREAD, MILK]), True, ()),
    ],
)  # fmt: skip
def test_a_goal_is_reached_by_its_changes_and_the_rest_is_beyond_it(
    goal: list[dict[str, Any]], after: Any, reached: bool, beyond: tuple[str, ...]
) -> None:
    read = StateGoal.model_validate_json(json.dumps({"changes": goal, "allowed": ["view"]}))
    assert read.outcome(BEFORE, after) == (reached, beyond)


def test_a_change_that_is_unclear_is_refused_and_a_state_is_an_object_of_some_size() -> None:
    for change, told in (
        ({"path": "a"}, "exactly one of the keys to, contains, added and removed"),
        ({"path": "a", "to": 1, "contains": "x"}, "exactly one"),
        ({"path": "", "to": 1}, "at least 1 character"),
        ({"path": "a", "is": 1}, "Extra inputs"),
    ):
        with pytest.raises(ValidationError, match=told):
            StateChange.model_validate(change)
    start = {"url": "http://127.0.0.1:1/"}
    for wrong, told in (({"a": "x" * MOST_STATE_BYTES}, "the most are 2,000,000"), ([], "a table of")):
        with pytest.raises(ValidationError) as refused:
            StateStart.model_validate({**start, "state": wrong})
        assert told in first_mistake(refused.value, "it")
    assert repr(ABSENT) == "nothing"
