"""Shortens errors of libraries to one line."""

from __future__ import annotations


def short_reason(error: BaseException) -> str:
    """The message of a library's error, as one short line."""
    return " ".join(str(error).split())[:300] or type(error).__name__
