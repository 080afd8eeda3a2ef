"""Keeps held-out texts out of the rows of a release: supervised rows of every kind, and RL rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.schemas.errors import TrajmillError
from trajmill.schemas.tables.query import Query
from trajmill.stages.curate.leakage import TrainingText, example_texts, leaks_in_texts, rl_step_texts
from trajmill.stages.curate.near_leaks import NearLeaks
from trajmill.stages.curate.spec import CurateSpec
from trajmill.stages.queries.split_leaks import Leak, leaks_in_queries


class CleanRows(NamedTuple):
    """Rows without those that nearly state what is held out."""

    rows: pa.Table
    left_out: Mapping[str, int]
    """Rows by reason."""
    leaking: frozenset[str]
    """Their ids."""


class LeakCheck:
    """Looks for held-out instructions and benchmark tasks in the rows of one release."""

    def __init__(self, queries: Sequence[Query], heldout_apps: Collection[str], spec: CurateSpec) -> None:
        """Prepare the check.

        Raises:
            TrajmillError: training queries have held-out goals, instructions, phrasings or apps.
            BadInputError: the file of a benchmark cannot be read.
        """
        self._queries = queries
        self._near = NearLeaks(queries, spec)
        _refuse(leaks_in_queries(queries, heldout_apps))

    def examples(self, rows: pa.Table) -> CleanRows:
        """Check rows of table `examples`, of any kind.

        Raises:
            TrajmillError: one states a whole held-out instruction, or comes from another split.
        """
        return self._clean(rows, "example_id", example_texts)

    def rl_steps(self, rows: pa.Table) -> CleanRows:
        """Check rows of table `rl_steps`.

        Raises:
            TrajmillError: one states a whole held-out instruction, or comes from another split.
        """
        return self._clean(rows, "rl_step_id", rl_step_texts)

    def _clean(
        self,
        rows: pa.Table,
        key: str,
        texts_of: Callable[[Iterable[pa.RecordBatch]], Iterator[TrainingText]],
    ) -> CleanRows:
        _refuse(leaks_in_texts(self._queries, texts_of(rows.to_batches())))
        leaks = self._near.in_texts(texts_of(rows.to_batches()))
        kept = without_rows(rows, key, frozenset(leaks))
        return CleanRows(kept, Counter(leak.reason for leak in leaks.values()), frozenset(leaks))


def without_rows(rows: pa.Table, key: str, ids: frozenset[str]) -> pa.Table:
    """A table, or a batch of one, without the rows with these ids."""
    return rows.filter(pc.invert(pc.is_in(rows[key], pa.array(sorted(ids), pa.string())))) if ids else rows


def _refuse(leaks: Sequence[Leak]) -> None:
    if leaks:
        first = leaks[0]
        raise TrajmillError(
            f"{len(leaks)} leaks of held-out data into training, the first: {first.kind} of {first.heldout} in "
            f"{first.found_in} ({first.detail}); nothing was released"
        )
