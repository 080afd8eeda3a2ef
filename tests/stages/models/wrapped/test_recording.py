from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.stages.models.scripted import ScriptedModel, request
from trajmill.schemas.errors import BadInputError, ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.stages.models.base import Completion, TokenLogprob
from trajmill.stages.models.wrapped.recording import RecordingModel, ReplayedModel

ANSWERS = [
    Completion("one\ud800\x00", 7, 3, "stop", ("two",), (TokenLogprob("o", -0.5, (("o", -0.5),)),), 0.25),
    Completion("three", 7, 3, "length"),
]


def recorded(path: Path) -> Path:
    """A recording of two answers to one request, a failure, and a frame."""
    rest: list[Completion | ModelFailure] = [*ANSWERS, ModelFailure("no route")]
    model = RecordingModel(ScriptedModel(lambda _: rest.pop(0)), path)

    async def talk() -> None:
        model.frame(Size(720, 1280))
        await model.complete(request("a"))
        await model.complete(request("a"))
        with pytest.raises(ModelFailure):
            await model.complete(request("b"))
        await model.close()

    asyncio.run(talk())
    return path


def test_a_recording_repeats_answers_failures_and_frames(tmp_path: Path) -> None:
    model = ReplayedModel(recorded(tmp_path / "talk.jsonl"))
    assert model.version == "scripted-1"
    assert model.frame(Size(720, 1280)) == ScriptedModel(lambda _: "").frame(Size(720, 1280))
    assert [asyncio.run(model.complete(request("a"))) for _ in range(3)] == [ANSWERS[0], ANSWERS[1], ANSWERS[1]]
    with pytest.raises(ModelFailure, match="no route"):
        asyncio.run(model.complete(request("b")))


def test_a_request_that_was_never_made_is_named(tmp_path: Path) -> None:
    model = ReplayedModel(recorded(tmp_path / "talk.jsonl"))
    with pytest.raises(ModelFailure, match=r'talk.jsonl has no answer to critic.text request [0-9a-f]{24} \("c d"\)'):
        asyncio.run(model.complete(request("c\nd")))
    with pytest.raises(ModelFailure, match="no frame for screens of 1x2"):
        model.frame(Size(1, 2))


def test_a_line_cut_off_by_a_crash_is_left_out(tmp_path: Path) -> None:
    path = recorded(tmp_path / "talk.jsonl")
    path.write_bytes(path.read_bytes()[:-5])
    model = ReplayedModel(path)
    assert asyncio.run(model.complete(request("a"))) == ANSWERS[0]
    with pytest.raises(ModelFailure, match="has no answer"):
        asyncio.run(model.complete(request("b")))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"kind": "talk"}, "talk.jsonl:2: not a line of a recording"),
        ({"completion": "[1]"}, "talk.jsonl:2: not a line of a recording"),
        ({"model_version": "other"}, "a recording of 2 models"),
    ],
)
def test_a_file_that_is_no_recording_is_one_line(tmp_path: Path, change: dict[str, str], told: str) -> None:
    path = recorded(tmp_path / "talk.jsonl")
    lines = path.read_text().splitlines()
    lines[1] = json.dumps(json.loads(lines[1]) | change)
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(BadInputError, match=told):
        ReplayedModel(path)


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="cannot be read"):
        ReplayedModel(tmp_path / "none.jsonl")


def test_a_recording_is_never_overwritten(tmp_path: Path) -> None:
    path = recorded(tmp_path / "talk.jsonl")
    with pytest.raises(BadInputError, match="name a new file"):
        RecordingModel(ScriptedModel(lambda _: ""), path)
