"""The reasons why a request got no answer."""

from __future__ import annotations

from enum import StrEnum


class FailureReason(StrEnum):
    """Why an attempt gave no answer; it decides what the client does next."""

    UNREACHABLE = "unreachable"
    """No connection: the server gets no requests for a while, and another one is asked at once."""
    BROKEN = "broken"
    """The connection was cut or timed out, or the server had an internal error."""
    BUSY = "busy"
    """429 or 503: the server gets fewer requests at a time."""
    GARBAGE = "garbage"
    """The answer is not usable: it is not the protocol's JSON, or has no choice or no text."""
    REFUSED = "refused"
    """The server refuses the request (context too long, unknown model, bad key): it is not sent again."""


class ExchangeFailure(Exception):
    """One attempt failed; this error does not leave the package."""

    def __init__(self, reason: FailureReason, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.retry_after = retry_after
        """Seconds that the server asks to wait."""


def one_line(text: str, most: int = 200) -> str:
    """Any text of a server as one line of at most `most` characters."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text[: 4 * most]).split())
    return line if len(line) <= most else line[: most - 3] + "..."
