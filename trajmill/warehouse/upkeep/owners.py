"""Keeps the processes apart that write files and that delete unused ones: files of a run at work are left in peace."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.lock import RunInUseError, sole_keeper, sole_writer

_LOG = logging.getLogger(__name__)
_ROUND = re.compile(r"\.?r\d+-")


@contextmanager
def left_in_peace(warehouse: Warehouse, names: Collection[str]) -> Iterator[frozenset[str]]:
    """Lock the runs and the tables that files belong to, as far as nobody works on them.

    Yields:
        The files that nobody writes, commits or releases within the block.
    """
    runs = warehouse.store.folders("staging")
    owners = {name: _owners(name, runs) for name in names}
    with ExitStack() as locks:
        free = set(_locked(warehouse, locks, sorted({run for each in owners.values() for run in each})))
        # Whoever joins small files of a table works on no run.
        for table in sorted({name.split("/")[1] for name in names if name.startswith("tables/")}):
            locks.enter_context(sole_writer(warehouse, table))
        yield frozenset(name for name, each in owners.items() if free.issuperset(each))


def _locked(warehouse: Warehouse, locks: ExitStack, runs: Sequence[str]) -> Iterator[str]:
    for run in runs:
        try:
            locks.enter_context(sole_keeper(warehouse, run))
        except RunInUseError as error:
            _LOG.warning("%s; its files stay until then", error)
        else:
            yield run


def _owners(name: str, runs: Sequence[str]) -> Sequence[str]:
    """The runs that may have written a file; all of them if its name does not tell."""
    top, _, rest = name.partition("/")
    part = rest.partition("/")[0]
    if top == "tables":
        part = _ROUND.sub("", rest.partition("/")[2], count=1)
    return [run for run in runs if f"{part}-".startswith(f"{run}-")] or runs
