"""Stores the weights of policy versions, and brings them to this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.checks.sealed import SUMS, Damage, check_sealed, first_damage, move_sealed
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.store.base import StoredFile


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
