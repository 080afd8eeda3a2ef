"""Fields that name one of several known things: a kind, a format, a family of models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from trajmill.schemas.errors import BadInputError

UNKNOWN_KIND: Final = "unknown_kind"
"""The pydantic error type of a name that is not known; its message says which name was meant."""


def known_by(look_up: Callable[[str], object]) -> AfterValidator:
    """A pydantic mark for a text field, or for a tuple of texts, that takes only names which `look_up` finds.

    Args:
        look_up: raises `BadInputError` for a name that is not known.
    """

    def known(names: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for name in (names,) if isinstance(names, str) else names:
            try:
                look_up(name)
            except BadInputError as error:
                raise PydanticCustomError(UNKNOWN_KIND, "{message}", {"message": str(error)}) from None
        return names

    return AfterValidator(known)
