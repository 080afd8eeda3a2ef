"""Stores the weights of policy versions, sealed: `SHA256SUMS` in a folder has the hashes of its other files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.atomic import sync, write_bytes
from trajmill.warehouse.layout import Warehouse

SUMS = "SHA256SUMS"


def file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal_folder(folder: Path) -> None:
    """Write the hashes of all files of a folder into it; the files and their names are then on the disk."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SUMS)
    for path in paths:
        sync(path)
    lines = (f"{file_hash(path)}  {path.relative_to(folder).as_posix()}\n" for path in paths)
    write_bytes(folder / SUMS, "".join(lines).encode())
    sync(folder)


def _damage(warehouse: Warehouse, folder: Path) -> BadInputError | None:
    """The first file of a folder that is not what its hashes say; None for a folder that was never sealed."""
    if not (folder / SUMS).is_file():
        return None
    lines = (folder / SUMS).read_text(encoding="utf-8", errors="replace").splitlines()
    place, what = SUMS, "" if lines else "empty"
    for line in lines:
        digest, _, place = line.partition("  ")
        if not place or not (folder / place).is_file():
            what = f"missing, though {SUMS} names it"
        elif file_hash(folder / place) != digest:
            what = "changed since it was stored"
        if what:
            break
    where = f"{warehouse.store.uri(warehouse.name(folder))}/{place}"
    return BadInputError(f"{where}: {what}; restore it from a copy") if what else None


def keep_weights(warehouse: Warehouse, fresh: Path, place: Path) -> None:
    """Seal a folder of weights and store it in its place, unless it is stored there already."""
    if not place.exists():
        seal_folder(fresh)
        fresh.rename(place)
        sync(place.parent)
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
    """Bring a folder of weights to this machine, and check it. Raises BadInputError if a file is missing or changed."""
    store = warehouse.store
    files = store.files(warehouse.name(folder))
    if not files and not store.is_local:
        raise BadInputError(f"{store.uri(warehouse.name(folder))}: missing; restore it from a copy")
    # A damaged copy on this machine may be one of a whole file.
    for anew in (False, True):
        for file in files:
            store.fetch(file.name, anew)
        damage = _damage(warehouse, folder)
        if damage is None:
            return
        if anew:
            raise damage
