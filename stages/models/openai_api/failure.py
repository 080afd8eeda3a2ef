"""Why a request got no answer, and what the client does then."""

from __future__ import annotations

from enum import StrEnum


class FailureReason(StrEnum):
    """Why an attempt gave no answer."""

    UNREACHABLE = "unreachable"
    """No connection: the server is left alone for a while, and another one is asked at once."""
    BROKEN = "broken"
    """The connection was cut, timed out, or the server failed inside."""
    BUSY = "busy"
    """429 or 503: the server gets fewer requests at a time."""
    GARBAGE = "garbage"
    """The answer cannot be used: it is not the protocol's JSON, or holds no choice or no text."""
    REFUSED = "refused"
    """The request itself is wrong for this server (context too long, unknown model, bad key): not tried again."""


class ExchangeFailure(Exception):
    """One attempt failed. Nothing outside this package sees this error."""

    def __init__(self, reason: FailureReason, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.retry_after = retry_after
        """Seconds that the server asks to wait."""


def one_line(text: str, most: int = 200) -> str:
    """Any text of a server as one line of at most `most` characters."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text[: 4 * most]).split())
    return line if len(line) <= most else line[: most - 3] + "..."
