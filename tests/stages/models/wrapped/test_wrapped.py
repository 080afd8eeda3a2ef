import asyncio
import json
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.stages.models.scripted import ScriptedModel, replies, request
from trajmill.schemas.errors import BadInputError, ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation, ScreenHandle
from trajmill.schemas.record import Origin, Record
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.registry import rows_from_arrow, rows_to_arrow
from trajmill.stages.models.base import ChatMessage, ChatRequest, Completion, TokenLogprob
from trajmill.stages.models.prompts import ask as ask_record
from trajmill.stages.models.wrapped import AccountedModel, CachedModel, payload_hash

ANSWER = Completion("yes\ud800", 7, 3, "stop", ("no",), (TokenLogprob("y", -0.5, (("y", -0.5),)),), price=0.5)


async def ask(
    folder: Path, *requests: ChatRequest, answer: Completion | ModelFailure = ANSWER
) -> tuple[int, list[Completion]]:
    """Calls that reached the model, and the answers; each time as a new process would."""
    model = ScriptedModel(lambda _: answer)
    cached = CachedModel(model, folder)
    try:
        answers = [await cached.complete(each) for each in requests]
    finally:
        await cached.close()
        await cached.close()
    assert model.closed == 2
    return len(model.asked), answers


async def test_what_was_answered_once_is_not_asked_again(tmp_path: Path) -> None:
    assert await ask(tmp_path, request()) == (1, [ANSWER])
    assert await ask(tmp_path, request()) == (0, [ANSWER._replace(price=0.0, cached=True)])
    other = ScriptedModel(lambda _: "no", version="scripted-2")
    assert (await CachedModel(other, tmp_path).complete(request())).text == "no"


@pytest.mark.parametrize(
    ("role", "temperature", "expected"),
    [("policy", 1.0, 2), ("executor", 1.0, 2), ("worker", 1.0, 2), ("critic.text", 1.0, 1), ("policy", 0.0, 1)],
)
async def test_sampled_actions_alone_are_never_cached(
    tmp_path: Path, role: str, temperature: float, expected: int
) -> None:
    asked = request(role=role, temperature=temperature)
    assert (await ask(tmp_path, asked, asked))[0] == expected


async def test_failures_and_answers_that_are_not_valid_are_not_kept(tmp_path: Path) -> None:
    class Verdict(Record):
        correct: bool

    async def verdict_of(model: ScriptedModel) -> Verdict:
        cached = CachedModel(model, tmp_path)
        try:
            return await ask_record(cached, request(), Verdict, tries=1)
        finally:
            await cached.close()

    for bad in (ModelFailure("no route"), "no verdict"):
        with pytest.raises(ModelFailure):
            await verdict_of(replies(bad))
    well = replies('{"correct": true}')
    assert await verdict_of(well) == await verdict_of(well) == Verdict(correct=True)
    assert len(well.asked) == 1


async def test_equal_requests_that_wait_together_are_one_call(tmp_path: Path) -> None:
    model = ScriptedModel(lambda _: ANSWER)
    cached = CachedModel(model, tmp_path)
    answers = await asyncio.gather(*(cached.complete(request()) for _ in range(5)), cached.complete(request("b")))
    await cached.close()
    assert len(model.asked) == 2
    assert [answer.cached for answer in answers] == [False, True, True, True, True, False]
    assert sum(answer.price for answer in answers) == 1.0


@pytest.mark.parametrize("leavers", [1, 2])
async def test_a_cancelled_caller_does_not_cancel_the_answer_for_others(tmp_path: Path, leavers: int) -> None:
    abandoned: list[ChatRequest] = []

    class Slow(ScriptedModel):
        async def complete(self, request: ChatRequest) -> Completion:
            try:
                await asyncio.sleep(0.3)
            except asyncio.CancelledError:
                abandoned.append(request)
                raise
            return ANSWER

    cached = CachedModel(Slow(lambda _: ""), tmp_path)
    waiting = [asyncio.ensure_future(cached.complete(request())) for _ in range(2)]
    await asyncio.sleep(0.01)
    for caller in waiting[:leavers]:
        caller.cancel()
    ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert [isinstance(end, Completion) for end in ended] == [False, leavers == 1]
    await asyncio.sleep(0)
    await cached.close()
    assert len(abandoned) == leavers - 1


def corrupt(folder: Path, value: object, mode: str = "mode") -> None:
    with sqlite3.connect(folder / "cache.db") as database:
        database.execute(f"UPDATE Cache SET value = ?, mode = {mode}", (value,))


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder: corrupt(folder, b"\x00\x01"),
        lambda folder: corrupt(folder, None),
        lambda folder: corrupt(folder, zlib.compress(json.dumps(["yes", 10**30, 3, "stop"]).encode())),
        lambda folder: corrupt(folder, b"x\x9c\x01\x00\x00\xff\xff"),
        # An entry that would make the file `folder/run` if it were unpickled.
        lambda folder: corrupt(folder, f"cposix\nsystem\n(S'touch {folder}/run'\ntR.".encode(), "4"),
    ],
)
async def test_a_broken_entry_is_a_miss_and_is_mended(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    await ask(tmp_path, request())
    harm(tmp_path)
    assert await ask(tmp_path, request()) == (1, [ANSWER])
    assert (await ask(tmp_path, request()))[0] == 0
    assert not (tmp_path / "run").exists()


def test_a_folder_that_holds_something_else_gives_one_error_line(tmp_path: Path) -> None:
    (tmp_path / "cache.db").write_bytes(b"no database" * 1000)
    (tmp_path / "file").touch()
    for folder in (tmp_path, tmp_path / "file"):
        with pytest.raises(BadInputError, match=r"^[^\n]*no request cache[^\n]*$"):
            CachedModel(ScriptedModel(lambda _: ""), folder)


_PROCESS = """
import asyncio, sys
from pathlib import Path
from trajmill.stages.models.wrapped import CachedModel
from tests.stages.models.scripted import ScriptedModel, request

async def talk():
    cached = CachedModel(ScriptedModel(lambda asked: "yes"), Path(sys.argv[1]))
    for number in range(10_000):
        await cached.complete(request(str(number)))
        print(number, flush=True)

asyncio.run(talk())
"""


@pytest.mark.slow
async def test_processes_share_it_and_a_killed_one_leaves_its_answers(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PROCESS, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for told in range(20):
            assert int(process.stdout.readline()) == told
            assert (await ask(tmp_path, request(str(told)), request(f"here {told}")))[0] == 1
    finally:
        process.kill()
        process.communicate()
    asked, answers = await ask(tmp_path, *(request(str(number)) for number in range(20)))
    assert (asked, {answer.text for answer in answers}) == (0, {"yes"})


ORIGIN = Origin(round=2, run_id="run", code_version="test")


def show(screen_id: str, tree: bool = False) -> ChatRequest:
    handle = ScreenHandle(screen_id, Size(2, 2), lambda: b"")
    part = Observation(handle, (), "app") if tree else handle
    return ChatRequest("critic", (ChatMessage("user", ("Look", part)),))


_SAMPLING = {"temperature": 0.5, "seed": 1, "max_tokens": 5, "top_p": 0.5, "n": 2, "top_logprobs": 1}
_OTHERS = (("user", ("What is it? ",)), ("user", ("What is", " it?")), ("system", ("What is it?",)))


@pytest.mark.parametrize(
    "change",
    [{key: value} for key, value in (_SAMPLING | {"answer_schema": "{}", "image_scale": 0.5}).items()]
    + [{"messages": (ChatMessage(*each),)} for each in _OTHERS],
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


async def test_each_call_is_a_row_of_its_own_with_request_answer_and_cost_failed_and_abandoned_ones_too() -> None:
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
    model = ScriptedModel(lambda _: "yes")
    asked = [request("a"), request("a"), request("b"), replace(request("a"), step_index=1)]
    ids = [row.call_id for row in await account(model, *asked)]
    assert len(set(ids)) == 4
    assert [row.call_id for row in await account(model, *asked)] == ids

    class Silent(ScriptedModel):
        async def complete(self, request: ChatRequest) -> Completion:
            return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    [row] = await account(ScriptedModel(lambda _: ModelFailure("no\x00 route")), request())
    assert (row.response, row.error, row.output_tokens, row.price) == (None, "no\ufffd route", 0, 0.0)
    assert [row.error for row in await account(Silent(lambda _: ""), request())] == ["the caller gave up waiting"]
