import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.stages.models.scripted import ScriptedModel, request
from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation, ScreenHandle
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.registry import rows_from_arrow, rows_to_arrow
from trajmill.stages.models.base import ChatMessage, ChatRequest, Completion
from trajmill.stages.models.wrapped import AccountedModel, payload_hash

ORIGIN = Origin(round=2, run_id="run", code_version="test")


def show(screen_id: str, tree: bool = False) -> ChatRequest:
    handle = ScreenHandle(screen_id, Size(2, 2), lambda: b"")
    part = Observation(handle, (), "app") if tree else handle
    return ChatRequest("critic", (ChatMessage("user", ("Look", part)),))


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 0.5},
        {"seed": 1},
        {"max_tokens": 5},
        {"top_p": 0.5},
        {"n": 2},
        {"top_logprobs": 1},
        {"answer_schema": "{}"},
        {"image_scale": 0.5},
        {"messages": (ChatMessage("user", ("What is it? ",)),)},
        {"messages": (ChatMessage("user", ("What is", " it?")),)},
        {"messages": (ChatMessage("system", ("What is it?",)),)},
    ],
)
def test_what_decides_the_answer_changes_the_hash(change: dict[str, Any]) -> None:
    assert payload_hash(replace(request(), **change), "m") != payload_hash(request(), "m")


def test_the_model_and_the_screens_change_the_hash_and_what_a_call_is_made_for_does_not() -> None:
    assert payload_hash(request(), "m") != payload_hash(request(), "n")
    assert payload_hash(show("a"), "m") != payload_hash(show("b"), "m")
    assert payload_hash(show("a"), "m") == payload_hash(show("a", tree=True), "m")
    said = ChatRequest("critic", (ChatMessage("user", ("Look", '{"screen": "a"}')),))
    assert payload_hash(said, "m") != payload_hash(show("a"), "m"), "text cannot pass for a screen"
    made_for = replace(request(), trajectory_id="t", step_index=3, role="other")
    assert payload_hash(made_for, "m") == payload_hash(request(), "m")


async def account(model: ScriptedModel, *requests: ChatRequest) -> list[ModelCall]:
    rows: list[ModelCall] = []
    accounted = AccountedModel(model, ORIGIN, rows.append)
    for each in requests:
        try:
            async with asyncio.timeout(0.05):
                await accounted.complete(each)
        except (ModelFailure, TimeoutError):
            pass
    return rows


async def test_a_row_holds_the_request_the_answer_and_what_it_cost() -> None:
    answer = Completion("yes\x00\ud800", 7, 3, "stop", others=("no",), price=0.25)
    [row] = await account(ScriptedModel(lambda _: answer), replace(show("s1"), trajectory_id="t", step_index=3))
    assert (row.trajectory_id, row.step_index, row.role, row.made_by) == ("t", 3, "critic", "scripted-1")
    assert (row.round, row.run_id) == (2, "run")
    assert row.messages == '[{"role":"user","content":["Look",{"screen":"s1"}]}]'
    assert (row.response, row.other_responses) == ("yes\ufffd\ufffd", ("no",))
    assert (row.input_tokens, row.output_tokens, row.price, row.cached, row.error) == (7, 3, 0.25, False, None)
    assert row.latency_ms > 0
    assert rows_from_arrow(ModelCall, rows_to_arrow("model_calls", [row])) == [row]
    old = row.model_dump(exclude={"cached", "other_responses"})
    assert ModelCall.model_validate(old).cached is None, "rows of earlier versions can be read"


async def test_equal_calls_are_rows_of_their_own_with_ids_that_come_again() -> None:
    model = ScriptedModel(lambda _: "yes")
    asked = [request("a"), request("a"), request("b"), replace(request("a"), step_index=1)]
    ids = [row.call_id for row in await account(model, *asked)]
    assert len(set(ids)) == 4
    assert [row.call_id for row in await account(model, *asked)] == ids


async def test_failed_and_abandoned_calls_are_accounted_too() -> None:
    class Silent(ScriptedModel):
        async def complete(self, request: ChatRequest) -> Completion:
            return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    [row] = await account(ScriptedModel(lambda _: ModelFailure("no\x00 route")), request())
    assert (row.response, row.error, row.output_tokens, row.price) == (None, "no\ufffd route", 0, 0.0)
    assert [row.error for row in await account(Silent(lambda _: ""), request())] == ["the caller gave up waiting"]
