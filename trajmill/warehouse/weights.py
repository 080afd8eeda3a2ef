"""Stores the weights of policy versions, sealed: `SHA256SUMS` in a folder has the hashes of its other files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.atomic import sync, write_text
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.store.base import StoredFile

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


def keep_weights(warehouse: Warehouse, fresh: Path, place: Path) -> None:
    """Seal a folder of weights and store it in its place, unless it is stored there already."""
    if not place.exists():
        move_sealed(fresh, place)
    publish_weights(warehouse, place)


def publish_weights(warehouse: Warehouse, folder: Path) -> None:
    """Store the files of a sealed folder of weights; its hashes come last."""
    store, sums = warehouse.store, warehouse.name(folder / SUMS)
    if store.is_local or store.size(sums) is not None:
        return
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SUMS):
        store.publish(warehouse.name(path))
    store.publish(sums)


def checked_weights(warehouse: Warehouse, folder: Path) -> None:
    """Bring a folder of weights to this machine, and check it.

    Raises:
        BadInputError: a file is missing or changed.
    """
    store = warehouse.store
    if store.is_local:
        check_sealed(folder)
        return
    files = store.files(warehouse.name(folder))
    if not files:
        raise BadInputError(f"{store.uri(warehouse.name(folder))}: missing; restore it from a copy")
    # A damaged copy on this machine may be one of a whole file.
    damage = _damage_of_copies(warehouse, folder, files, False) and _damage_of_copies(warehouse, folder, files, True)
    if damage is not None:
        where = store.uri(warehouse.name(damage.path))
        raise BadInputError(f"{where}: {damage.what}; restore it from a copy")


def _damage_of_copies(warehouse: Warehouse, folder: Path, files: Sequence[StoredFile], anew: bool) -> Damage | None:
    for file in files:
        warehouse.store.fetch(file.name, anew)
    return first_damage(folder)


def stored_versions(warehouse: Warehouse) -> list[str]:
    """The names of the stored policy versions, in alphabetical order."""
    return warehouse.store.folders("models")
