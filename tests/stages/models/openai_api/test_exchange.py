"""Reading answers of which not all samples are whole, and `Retry-After`; waits that grow within their bounds."""

from __future__ import annotations

import json

import pytest

from tests.stages.models.fault_server import chat_completion
from trajmill.stages.models.openai_api.exchange import (
    ExchangeFailure,
    backoff_seconds,
    completion,
    retry_after_seconds,
)


def body(*finish_reasons: str) -> bytes:
    answer = chat_completion([f"sample {at}" for at in range(len(finish_reasons))], {"model": "tiny"})
    for choice, reason in zip(answer["choices"], finish_reasons, strict=True):
        choice["finish_reason"] = reason
    return json.dumps(answer).encode()


@pytest.mark.parametrize(
    ("reasons", "others"), [(("stop", "abort", "length"), ("", "sample 2")), (("stop", "stop"), ("sample 1",))]
)
def test_an_interrupted_sample_is_empty_and_missing_ones_are_left_out(
    reasons: tuple[str, ...], others: tuple[str, ...]
) -> None:
    answer = completion(body(*reasons), 3, 0.0, 0.0)
    assert (answer.text, answer.others) == ("sample 0", others)


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


@pytest.mark.parametrize(
    ("value", "date", "seconds"),
    [
        (None, None, None),
        ("17", None, 17.0),
        ("0", None, 0.0),
        ("Wed, 21 Oct 2015 07:28:30 GMT", "Wed, 21 Oct 2015 07:28:00 GMT", 30.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2015 07:29:00 GMT", 0.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", None, 0.0),
        ("-5", None, None),
        ("soon", None, None),
        ("", None, None),
        ("Wed, 99 Oct 2015 07:28:00 GMT", None, None),
    ],
)
def test_retry_after(value: str | None, date: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(value, date) == seconds


def test_waits_double_within_their_bounds_and_differ() -> None:
    for attempt in range(1, 60):
        most = min(20.0, 0.5 * 2 ** (attempt - 1))
        waits = {backoff_seconds(attempt, 0.5, 20.0) for _ in range(50)}
        assert len(waits) > 1 and all(most / 2 <= wait <= most for wait in waits)
