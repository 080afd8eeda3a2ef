"""Describes the first mistake in a user's JSON, in one line."""

from __future__ import annotations

from pydantic import ValidationError


def first_mistake(error: ValidationError, whole: str) -> str:
    """The key of the first mistake, and its message.

    Args:
        error: pydantic's error.
        whole: the text in place of the key if the whole JSON is wrong.
    """
    first = error.errors(include_url=False, include_context=False)[0]
    key = ".".join(map(str, first["loc"])) or whole
    return f"{key}: {first['msg']}"
