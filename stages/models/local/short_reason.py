"""Errors of libraries as one short line."""

from __future__ import annotations


def short_reason(error: BaseException) -> str:
    """What an error of a library says, as one short line."""
    return " ".join(str(error).split())[:300] or type(error).__name__
