"""The first mistake in JSON that a user has written, on one line."""

from __future__ import annotations

from pydantic import ValidationError


def first_mistake(error: ValidationError, whole: str) -> str:
    """The key of the first mistake, and what is wrong with it.

    Args:
        error: of pydantic.
        whole: stands in place of the key where the whole JSON is wrong.
    """
    first = error.errors(include_url=False, include_context=False)[0]
    key = ".".join(map(str, first["loc"])) or whole
    return f"{key}: {first['msg']}"
