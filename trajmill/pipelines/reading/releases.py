"""Compares the supervised rows of two releases."""

from __future__ import annotations

from typing import NamedTuple

from trajmill.schemas.errors import BadInputError
from trajmill.stages.export.selection import has_rows_of, released_rows
from trajmill.stages.export.sft import SFT_FILE
from trajmill.warehouse.checks.unreadable import damage_as_error
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.releases import release_folder


class ReleaseDiff(NamedTuple):
    """Numbers of supervised rows."""

    both: int
    only_first: int
    only_second: int


def compare_releases(warehouse: Warehouse, first: str, second: str) -> ReleaseDiff:
    """Count the rows that two releases share, and those that only one of them has.

    Raises:
        BadInputError: there is no such release, it has no supervised rows, or a file of it is missing or damaged.
    """
    one, other = _example_ids(warehouse, first), _example_ids(warehouse, second)
    return ReleaseDiff(len(one & other), len(one - other), len(other - one))


def _example_ids(warehouse: Warehouse, name: str) -> set[str]:
    folder = release_folder(warehouse, name)
    if not has_rows_of(folder, SFT_FILE):
        raise BadInputError(f"release {name}: it has no supervised rows to compare")
    with damage_as_error(warehouse.store.uri(f"releases/{name}")):
        return set(released_rows(folder, SFT_FILE, ["example_id"])["example_id"].to_pylist())
