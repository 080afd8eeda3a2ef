"""Stores the weights of policy versions, and brings them to this machine."""

from __future__ import annotations

from pathlib import Path

from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.checks.sealed import SUMS, check_sealed, move_sealed
from trajmill.warehouse.layout import Warehouse


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
    if not store.is_local:
        files = store.files(warehouse.name(folder))
        if not files:
            raise BadInputError(f"{store.uri(warehouse.name(folder))}: missing; restore it from a copy")
        for file in files:
            store.fetch(file.name)
    check_sealed(folder)


def stored_versions(warehouse: Warehouse) -> list[str]:
    """The names of the stored policy versions, in alphabetical order."""
    return warehouse.store.folders("models")
