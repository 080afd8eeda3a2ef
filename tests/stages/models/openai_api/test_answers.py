"""Answers with several samples of which not all are whole."""

from __future__ import annotations

import json

import pytest

from tests.stages.models.fault_server import chat_completion
from trajmill.stages.models.openai_api.exchange import ExchangeFailure, completion


def body(*finish_reasons: str) -> bytes:
    answer = chat_completion([f"sample {at}" for at in range(len(finish_reasons))], {"model": "tiny"})
    for choice, reason in zip(answer["choices"], finish_reasons, strict=True):
        choice["finish_reason"] = reason
    return json.dumps(answer).encode()


def test_an_interrupted_sample_is_empty_and_keeps_its_place() -> None:
    answer = completion(body("stop", "abort", "length"), 3, 0.0, 0.0)
    assert (answer.text, answer.others) == ("sample 0", ("", "sample 2"))


def test_fewer_samples_than_asked_for_are_those_there_are() -> None:
    answer = completion(body("stop", "stop"), 3, 0.0, 0.0)
    assert (answer.text, answer.others) == ("sample 0", ("sample 1",))


@pytest.mark.parametrize("reasons", [(), ("abort", "abort"), ("stop", "stop", "stop")])
def test_missing_incomplete_or_extra_choices_are_invalid(reasons: tuple[str, ...]) -> None:
    with pytest.raises(ExchangeFailure):
        completion(body(*reasons), 2, 0.0, 0.0)


@pytest.mark.parametrize("usage", [{"prompt_tokens": 10**30}, {"completion_tokens": -1}, {"completion_tokens": 2**31}])
def test_an_absurd_number_of_tokens_is_no_answer(usage: dict[str, int]) -> None:
    answer = json.loads(body("stop"))
    answer["usage"] |= usage
    with pytest.raises(ExchangeFailure, match="usage"):
        completion(json.dumps(answer).encode(), 1, 0.0, 0.0)
