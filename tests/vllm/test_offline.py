import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from tests.flows.serving.process_groups import is_gone, living
from tests.stages.models.transformers_local.tiny_vlm import MAX_PIXELS, build_tiny_vlm
from tests.vllm.offline_worker import REQUESTS
from tests.vllm.tiny_adapter import tiny_adapter
from tests.vllm.tiny_server import ENVIRONMENT
from trajmill.schemas.errors import ModelFailure
from trajmill.stages.models.base import Completion, TokenLogprob
from trajmill.stages.models.local.folder import TransformersSpec
from trajmill.stages.models.transformers_local.model import TransformersModel
from trajmill.stages.models.wrapped import completion_from_json

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(3600)]

REPOSITORY = Path(__file__).parents[2]


class Told(NamedTuple):
    model: Path
    adapter: Path
    answers: dict[str, Any]
    again: dict[str, Any]
    """The same requests in another event loop."""
    version: str
    adapted: dict[str, Any]
    """The answer to the request with a picture, by a second engine, which has the adapter."""


@pytest.fixture(scope="module")
def told(vllm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """A worker that has answered; in the end it is killed, and nothing may be left of its engine."""
    folder = tmp_path_factory.mktemp("offline")
    model = build_tiny_vlm(folder / "tiny")
    adapter = tiny_adapter(folder, "adapter", seed=3)
    environment = os.environ | ENVIRONMENT | {"PYTHONPATH": str(REPOSITORY)}
    command = [str(vllm_python), "-m", "tests.vllm.offline_worker", str(model), str(adapter)]
    with (folder / "log.txt").open("wb") as log:
        worker = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
    try:
        line = _last_line(worker)
        assert line is not None, (folder / "log.txt").read_text()[-3000:]
        said = json.loads(line)
        answers, again = said["rounds"]
        yield Told(model, adapter, answers, again, said["version"], said["adapted"])
        assert len(living(worker.pid)) > 1
    finally:
        worker.kill()
        worker.communicate()
    assert is_gone(worker.pid)


def _last_line(worker: subprocess.Popen[bytes]) -> bytes | None:
    # vLLM writes to standard output too.
    assert worker.stdout is not None
    return next((line for line in worker.stdout if line.startswith(b'{"version"')), None)


def completion(answer: dict[str, Any]) -> Completion:
    return completion_from_json(json.dumps(answer))


def local_spec(told: Told) -> TransformersSpec:
    return TransformersSpec(model=told.model, family="qwen2.5-vl", max_pixels=MAX_PIXELS)


def local_answers(told: Told) -> dict[str, Completion | ModelFailure]:
    """What transformers makes of the same requests and the same weights."""
    torch.set_num_threads(1)
    model = TransformersModel(local_spec(told))
    assert model.version == told.version
    answers: dict[str, Completion | ModelFailure] = {}
    for name, request in REQUESTS.items():
        try:
            answers[name] = asyncio.run(model.complete(request))
        except ModelFailure as failure:
            answers[name] = failure
    return answers


def test_it_reads_and_answers_as_transformers_does(told: Told) -> None:
    for name, expected in local_answers(told).items():
        answer = told.answers[name]
        if isinstance(expected, ModelFailure):
            assert "failure" in answer
            continue
        assert answer["input_tokens"] == expected.input_tokens
        assert not expected.logprobs or answer["text"] == expected.text
        for mine, other in zip(completion(answer).logprobs, expected.logprobs, strict=True):
            _assert_close(mine, other)


def _assert_close(mine: TokenLogprob, other: TokenLogprob) -> None:
    # Not the token's text: for a token that is part of a letter the two write different stand-ins.
    assert mine.logprob == pytest.approx(other.logprob, abs=1e-3)
    assert [value for _, value in mine.candidates] == pytest.approx([value for _, value in other.candidates], abs=1e-3)


def test_an_adapter_acts_as_it_does_in_transformers(told: Told) -> None:
    adapted = TransformersModel(local_spec(told).with_version("adapted", told.model, told.adapter))
    expected = asyncio.run(adapted.complete(REQUESTS["picture"]))
    answered = completion(told.adapted).logprobs
    assert answered[0].candidates != completion(told.answers["picture"]).logprobs[0].candidates
    for mine, other in zip(answered, expected.logprobs, strict=True):
        _assert_close(mine, other)


def test_pictures_seeds_and_schemas_decide_the_answer(told: Told) -> None:
    assert told.answers["picture"]["text"] != told.answers["other picture"]["text"]
    sampled = [told.answers[name]["text"] for name in ("sampled", "sampled again", "sampled otherwise")]
    assert sampled[0] == sampled[1] != sampled[2]
    three = completion(told.answers["three"])
    assert len({three.text, *three.others}) == 3
    assert three.output_tokens == 36
    answer = completion(told.answers["schema"])
    assert answer.finish_reason == "stop"
    assert isinstance(json.loads(answer.text)["correct"], bool)


@pytest.mark.parametrize(("name", "reason"), [("too long", "2048 tokens"), ("junk", "image does not decode")])
def test_what_it_cannot_answer_gives_one_error_line(told: Told, name: str, reason: str) -> None:
    failure = told.answers[name]["failure"]
    assert reason in failure and "\n" not in failure


def test_it_outlives_the_event_loop_of_a_caller(told: Told) -> None:
    first, again = ({name: answer.get("text") for name, answer in each.items()} for each in (told.answers, told.again))
    assert first == again
