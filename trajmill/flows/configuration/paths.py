"""Resolves the paths of a configuration file, which are relative to its folder."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from trajmill.schemas.spec import Spec

S = TypeVar("S", bound=Spec)


def with_paths_in(spec: S, folder: Path) -> S:
    """The spec with the folder put before all its paths, also in the specs that it contains."""
    changed = {name: _value_in(getattr(spec, name), folder) for name in type(spec).model_fields}
    return spec.model_copy(update=changed)


def _value_in(value: object, folder: Path) -> object:
    match value:
        case Path():
            return folder / value
        case Spec():
            return with_paths_in(value, folder)
        case tuple():
            return tuple(_value_in(item, folder) for item in value)
        case dict():
            return {name: _value_in(item, folder) for name, item in value.items()}
        case _:
            return value
