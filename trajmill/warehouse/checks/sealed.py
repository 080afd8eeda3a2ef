"""Seals folders of weights: the file `SHA256SUMS` has the hashes of the others, as `sha256sum --check` reads them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.atomic import sync, write_text

SUMS = "SHA256SUMS"


class Damage(NamedTuple):
    """A file that is not what its folder's hashes say."""

    path: Path
    what: str
    """In words."""


def file_hash(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal_folder(folder: Path) -> None:
    """Write the hashes of all files of a folder into it; the files and their names are then on the disk."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SUMS)
    for path in paths:
        sync(path)
    lines = (f"{file_hash(path)}  {path.relative_to(folder).as_posix()}\n" for path in paths)
    write_text(folder / SUMS, "".join(lines))
    sync(folder)


def move_sealed(folder: Path, place: Path) -> None:
    """Seal a folder and move it to its place on the same disk."""
    seal_folder(folder)
    folder.rename(place)
    sync(place.parent)


def check_sealed(folder: Path) -> None:
    """Check the files of a folder against its hashes; one that was never sealed passes.

    Raises:
        BadInputError: a file is missing or changed, or the hashes are damaged.
    """
    damage = first_damage(folder)
    if damage is not None:
        raise BadInputError(f"{damage.path}: {damage.what}; restore it from a copy")


def first_damage(folder: Path) -> Damage | None:
    """The first file of a folder that is not what its hashes say; None for one that was never sealed."""
    if not (folder / SUMS).is_file():
        return None
    lines = (folder / SUMS).read_text(encoding="utf-8", errors="replace").splitlines()
    if not lines:
        return Damage(folder / SUMS, "empty")
    for line in lines:
        digest, _, name = line.partition("  ")
        path = folder / name
        if not name or not path.is_file():
            return Damage(path, f"missing, though {SUMS} names it")
        if file_hash(path) != digest:
            return Damage(path, "changed since it was stored")
    return None
