"""Paths of a configuration file are relative to its folder."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from trajmill.schemas.spec import Spec

S = TypeVar("S", bound=Spec)


def anchored(spec: S, folder: Path) -> S:
    """The spec with all paths in it, and in the specs that it holds, relative to the folder instead."""
    moved = {name: _moved(getattr(spec, name), folder) for name in type(spec).model_fields}
    return spec.model_copy(update=moved)


def _moved(value: object, folder: Path) -> object:
    match value:
        case Path():
            return folder / value
        case Spec():
            return anchored(value, folder)
        case tuple():
            return tuple(_moved(item, folder) for item in value)
        case dict():
            return {name: _moved(item, folder) for name, item in value.items()}
        case _:
            return value
