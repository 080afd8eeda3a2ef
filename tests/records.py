"""Records for tests: what a test does not say is empty."""

import types
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, Union, get_origin, get_type_hints

from pydantic import BaseModel

R = TypeVar("R", bound=BaseModel)


def record(kind: type[R], /, **values: Any) -> R:
    """A record with these values; a required field without one is "", 0, (), null, or the first of an enum."""
    return kind.model_validate({name: _empty(hint) for name, hint in _required(kind) if name not in values} | values)


@cache
def _required(kind: type[BaseModel]) -> list[tuple[str, Any]]:
    hints = get_type_hints(kind)
    return [(name, hints[name]) for name, field in kind.model_fields.items() if field.is_required()]


def _empty(annotation: Any) -> Any:
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        return None
    if origin is tuple:
        return ()
    if issubclass(annotation, BaseModel):
        return record(annotation)
    return next(iter(annotation)) if issubclass(annotation, StrEnum) else annotation()
