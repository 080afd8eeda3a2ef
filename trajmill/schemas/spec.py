"""The base class of specs: a frozen record that is a section of the configuration and opens a part.

A spec is the one description of an environment, an agent, a critic, a model, an exporter or a recipe. The user writes
it in the configuration, workers get it, and it opens the part. Its fields have their defaults, and the mark
`OPERATIONAL` if they decide no row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]

_READ_WHOLE = 64 << 20
_BLOCKS = 64
_BLOCK_BYTES = 64 << 10


OPERATIONAL = object()
"""Marks a field that decides how work is done but no row, as in `Annotated[int, OPERATIONAL]`: an address, a time
limit, the number of workers. The field is not part of a run's identity."""

LATER = object()
"""Marks a field that is newer than some runs: at its default it is not part of a run's identity, as in those."""


class With(NamedTuple):
    """Marks a field that decides rows only while another one is set, as in `Annotated[int, With("key")]`."""

    field: str


class Spec(BaseModel):
    """A table of the configuration; an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    def identity(self) -> dict[str, Any]:
        """All fields that decide rows, as JSON values; files count by their contents."""
        fields = type(self).model_fields
        unset = {name for name, info in fields.items() if getattr(self, name) == info.default}

        def decides(name: str) -> bool:
            marks = fields[name].metadata
            needed = {mark.field for mark in marks if isinstance(mark, With)}
            return not (needed & unset or (LATER in marks and name in unset))

        return {name: identity_of(getattr(self, name)) for name in decisive_fields(type(self)) if decides(name)}


def decisive_fields(spec: type[Spec]) -> tuple[str, ...]:
    """The fields of a spec that are not `OPERATIONAL`."""
    return tuple(name for name, info in spec.model_fields.items() if OPERATIONAL not in info.metadata)


def identity_of(value: object) -> Any:
    """The identity of a field's value: specs and containers by their parts, files by their contents."""
    match value:
        case Spec():
            return value.identity()
        case Path():
            return content_of(value)
        case Mapping():
            return {str(key): identity_of(each) for key, each in value.items()}
        case tuple() | list():
            return [identity_of(each) for each in value]
        case frozenset() | set():
            return sorted(str(each) for each in value)
        case _:
            return value


def content_of(path: Path) -> str:
    """A hash of a file's bytes, or of the names and bytes of all files in a folder; the path's own name is not in it.

    Of a file over 64 MiB, such as a model's weights, only the size and evenly spread blocks are hashed. For a missing
    file the path itself counts; the code that opens it raises the error.
    """
    if path.is_file():
        return _file_hash(path)
    if not path.is_dir():
        return str(path)
    digest = hashlib.blake2b(digest_size=12)
    for part in sorted(each for each in path.rglob("*") if each.is_file()):
        digest.update(f"{part.relative_to(path).as_posix()} {_file_hash(part)}\n".encode())
    return digest.hexdigest()


def _file_hash(path: Path) -> str:
    size = path.stat().st_size
    with path.open("rb") as opened:
        if size <= _READ_WHOLE:
            return hashlib.file_digest(opened, lambda: hashlib.blake2b(digest_size=12)).hexdigest()
        digest = hashlib.blake2b(str(size).encode(), digest_size=12)
        for block in range(_BLOCKS):
            opened.seek(block * (size - _BLOCK_BYTES) // (_BLOCKS - 1))
            digest.update(opened.read(_BLOCK_BYTES))
    return digest.hexdigest()
