"""Reading `Retry-After`, and waits that grow within their bounds."""

from __future__ import annotations

import pytest

from trajmill.stages.models.openai_api.exchange import backoff_seconds, one_line, retry_after_seconds


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


def test_text_of_a_server_becomes_one_short_line() -> None:
    assert one_line("a\n\tb\x1b[31m  c\u2028d") == "a b [31m c d"
    assert one_line("x" * 5_000) == "x" * 197 + "..."
