"""Computes how long to wait before the next attempt."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after_seconds(value: str | None, date: str | None) -> float | None:
    """Seconds that a `Retry-After` header asks for (RFC 9110, 10.2.3); None without a readable header.

    Args:
        value: seconds, or an HTTP date.
        date: the `Date` header of the same answer. A date in `value` is compared with it, because clocks may differ.
    """
    if value is None:
        return None
    if value.strip().isascii() and value.strip().isdigit():
        return float(value)
    until = _moment(value)
    if until is None:
        return None
    now = _moment(date) if date else None
    return max(0.0, (until - (now or datetime.now(UTC))).total_seconds())


def backoff_seconds(attempt: int, first: float, longest: float) -> float:
    """Seconds to wait after a failed attempt (counted from 1); doubled each time, and half of the wait is random.

    The random part has no seed, because callers that were refused together must not return together.
    """
    return float(min(longest, first * 2.0 ** min(attempt - 1, 30)) * random.uniform(0.5, 1.0))


def _moment(value: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
