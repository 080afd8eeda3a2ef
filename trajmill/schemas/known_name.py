"""Fields that name one of several known things: a kind, a format, a family of models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from trajmill.schemas.errors import BadInputError

UNKNOWN_KIND: Final = "unknown_kind"
"""The pydantic error type of an unknown name; its message proposes the nearest name."""


def known_by(look_up: Callable[[str], object]) -> AfterValidator:
    """A pydantic annotation of a text field, or a tuple of texts: only names that `look_up` finds are valid.

    Args:
        look_up: raises `BadInputError` for an unknown name.
    """

    def known(names: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for name in (names,) if isinstance(names, str) else names:
            try:
                look_up(name)
            except BadInputError as error:
                raise PydanticCustomError(UNKNOWN_KIND, "{message}", {"message": str(error)}) from None
        return names

    return AfterValidator(known)
