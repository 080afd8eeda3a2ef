from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.stages.models.scripted import ScriptedModel, request
from trajmill.schemas.errors import BadInputError, ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import ScreenHandle
from trajmill.schemas.record import Record
from trajmill.stages.models import structured
from trajmill.stages.models.base import ChatMessage, ChatRequest, Completion, TokenLogprob
from trajmill.stages.models.wrapped import CachedModel

ANSWER = Completion("yes\ud800", 7, 3, "stop", ("no",), (TokenLogprob("y", -0.5, (("y", -0.5),)),), price=0.5)


def ask(
    folder: Path, *requests: ChatRequest, answer: Completion | ModelFailure = ANSWER
) -> tuple[int, list[Completion]]:
    """Calls that reached the model, and the answers; each time as a new process would."""
    model = ScriptedModel(lambda _: answer)

    async def talk() -> list[Completion]:
        cached = CachedModel(model, folder)
        try:
            return [await cached.complete(each) for each in requests]
        finally:
            await cached.close()
            await cached.close()

    answers = asyncio.run(talk())
    assert model.closed == 2
    return len(model.asked), answers


def test_what_was_answered_once_is_not_asked_again(tmp_path: Path) -> None:
    assert ask(tmp_path, request()) == (1, [ANSWER])
    calls, [answer] = ask(tmp_path, request())
    assert (calls, answer) == (0, ANSWER._replace(price=0.0, cached=True))


def test_another_prompt_screen_or_seed_is_another_request(tmp_path: Path) -> None:
    def show(screen: str) -> ChatRequest:
        return ChatRequest("critic", (ChatMessage("user", (ScreenHandle(screen, Size(1, 1), lambda: b""),)),))

    asked = [request(), request("And this?"), request(seed=1), request(temperature=0.5), show("a"), show("b")]
    assert ask(tmp_path, *asked)[0] == 6
    assert ask(tmp_path, *asked)[0] == 0


@pytest.mark.parametrize(("role", "calls"), [("policy", 2), ("executor", 2), ("critic.text", 1)])
def test_sampled_actions_are_never_cached(tmp_path: Path, role: str, calls: int) -> None:
    sampled = request(role=role, temperature=1.0)
    assert ask(tmp_path, sampled, sampled)[0] == calls


def test_greedy_actions_are_cached(tmp_path: Path) -> None:
    assert ask(tmp_path, request(role="policy"), request(role="policy"))[0] == 1


def test_failures_are_not_kept(tmp_path: Path) -> None:
    with pytest.raises(ModelFailure):
        ask(tmp_path, request(), answer=ModelFailure("no route"))
    assert ask(tmp_path, request())[0] == 1


def test_answers_of_another_model_are_not_its_own(tmp_path: Path) -> None:
    ask(tmp_path, request())
    other = ScriptedModel(lambda _: "no", version="scripted-2")
    assert asyncio.run(CachedModel(other, tmp_path).complete(request())).text == "no"


def test_equal_requests_that_wait_together_are_one_call(tmp_path: Path) -> None:
    model = ScriptedModel(lambda _: ANSWER)

    async def talk() -> list[Completion]:
        cached = CachedModel(model, tmp_path)
        try:
            return await asyncio.gather(*(cached.complete(request()) for _ in range(5)), cached.complete(request("b")))
        finally:
            await cached.close()

    answers = asyncio.run(talk())
    assert len(model.asked) == 2
    assert [answer.cached for answer in answers] == [False, True, True, True, True, False]
    assert sum(answer.price for answer in answers) == 1.0


class Slow(ScriptedModel):
    """Answers when it is let; knows whether it was abandoned."""

    abandoned = False

    async def complete(self, request: ChatRequest) -> Completion:
        self.asked.append(request)
        try:
            await asyncio.sleep(0.5)
        except asyncio.CancelledError:
            self.abandoned = True
            raise
        return ANSWER


@pytest.mark.parametrize("leavers", [1, 2])
def test_a_cancelled_caller_does_not_cancel_the_answer_for_others(tmp_path: Path, leavers: int) -> None:
    model = Slow(lambda _: "")

    async def talk() -> None:
        cached = CachedModel(model, tmp_path)
        waiting = [asyncio.ensure_future(cached.complete(request())) for _ in range(2)]
        await asyncio.sleep(0.01)
        for caller in waiting[:leavers]:
            caller.cancel()
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        assert [isinstance(end, Completion) for end in ended] == [False, leavers == 1]
        await asyncio.sleep(0)
        await cached.close()

    asyncio.run(talk())
    assert model.abandoned == (leavers == 2)


def corrupt_value(folder: Path, value: object) -> None:
    with sqlite3.connect(folder / "cache.db") as database:
        database.execute("UPDATE Cache SET value = ?", (value,))


def as_pickle(folder: Path) -> None:
    # An entry that would make the file `folder/run` if it were unpickled.
    code = f"cposix\nsystem\n(S'touch {folder}/run'\ntR.".encode()
    with sqlite3.connect(folder / "cache.db") as database:
        database.execute("UPDATE Cache SET value = ?, mode = 4", (code,))


@pytest.mark.parametrize(
    "corrupt",
    [
        lambda folder: corrupt_value(folder, b"\x00\x01"),
        lambda folder: corrupt_value(folder, "text"),
        lambda folder: corrupt_value(folder, None),
        lambda folder: corrupt_value(folder, zlib.compress(json.dumps(["yes", 10**30, 3, "stop"]).encode())),
        lambda folder: corrupt_value(folder, b"x\x9c\x01\x00\x00\xff\xff"),
        as_pickle,
    ],
)
def test_a_broken_entry_is_a_miss_and_is_mended(tmp_path: Path, corrupt: Callable[[Path], None]) -> None:
    ask(tmp_path, request())
    corrupt(tmp_path)
    assert ask(tmp_path, request()) == (1, [ANSWER])
    assert ask(tmp_path, request())[0] == 0
    assert not (tmp_path / "run").exists()


def test_a_long_answer_whose_file_is_gone_is_a_miss(tmp_path: Path) -> None:
    noise = Completion("".join(str(number**3) for number in range(20_000)), 1, 1, "stop")
    ask(tmp_path, request(), answer=noise)
    [value] = tmp_path.rglob("*.val")
    assert ask(tmp_path, request(), answer=noise)[0] == 0
    value.unlink()
    assert ask(tmp_path, request(), answer=noise)[0] == 1


def test_a_folder_that_holds_something_else_gives_one_error_line(tmp_path: Path) -> None:
    (tmp_path / "cache.db").write_bytes(b"no database" * 1000)
    with pytest.raises(BadInputError, match="no request cache") as error:
        CachedModel(ScriptedModel(lambda _: ""), tmp_path)
    assert "\n" not in str(error.value)
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(BadInputError, match="no request cache"):
        CachedModel(ScriptedModel(lambda _: ""), file)


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
def test_processes_share_it_and_a_killed_one_leaves_its_answers(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PROCESS, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for told in range(20):
            assert int(process.stdout.readline()) == told
            # This process reads and writes the same cache meanwhile.
            assert ask(tmp_path, request(str(told)), request(f"here {told}"))[0] == 1
    finally:
        process.kill()
        process.communicate()
    calls, answers = ask(tmp_path, *(request(str(number)) for number in range(20)))
    assert calls == 0
    assert {answer.text for answer in answers} == {"yes"}


def test_an_answer_that_is_not_valid_is_not_kept(tmp_path: Path) -> None:
    class Verdict(Record):
        correct: bool

    def verdict_of(model: ScriptedModel) -> Verdict:
        async def talk() -> Verdict:
            cached = CachedModel(model, tmp_path)
            try:
                return await structured.ask(cached, request(), Verdict, tries=1)
            finally:
                await cached.close()

        return asyncio.run(talk())

    with pytest.raises(ModelFailure):
        verdict_of(ScriptedModel(lambda _: "no verdict"))
    well = ScriptedModel(lambda _: '{"correct": true}')
    assert verdict_of(well) == verdict_of(well) == Verdict(correct=True)
    assert len(well.asked) == 1
