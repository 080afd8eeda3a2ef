"""Checks that a warehouse has what its tables, releases and policy versions name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from trajmill.flows.doctor.base import Finding
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.registry import TABLES
from trajmill.warehouse.checks.unreadable import damage_as_error
from trajmill.warehouse.checks.weights import checked_weights, stored_versions
from trajmill.warehouse.delta_log import committed_files
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.releases import release_names, verify_release

_MEND = "restore it from a copy; what a killed process left is no damage"


def check_consistency(warehouse: Warehouse) -> Iterator[Finding]:
    """Every table's log and files, every release, and every policy version."""
    yield from _checked("tables", {table: partial(_check_table, warehouse, table) for table in TABLES})
    releases = {name: partial(verify_release, warehouse, name) for name in release_names(warehouse)}
    yield from _checked("releases", releases)
    versions = stored_versions(warehouse)
    models = {version: partial(checked_weights, warehouse, warehouse.model(version)) for version in versions}
    yield from _checked("policy versions", models)


def _checked(what: str, checks: Mapping[str, Callable[[], object]]) -> Iterator[Finding]:
    damaged = 0
    for name, check in checks.items():
        try:
            check()
        except BadInputError as error:
            damaged += 1
            yield Finding(f"{what}, {name}", str(error), _MEND)
    yield Finding(what, f"{len(checks) - damaged} of {len(checks)} are whole")


def _check_table(warehouse: Warehouse, table: str) -> None:
    for path in committed_files(warehouse, table):
        _check_file(warehouse, path)


def _check_file(warehouse: Warehouse, path: Path) -> None:
    system, before = warehouse.store.arrow_files()
    with damage_as_error(path):
        pq.read_metadata(before + warehouse.name(path), filesystem=system)
