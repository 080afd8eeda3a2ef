"""Keeps held-out texts out of the rows of a release: supervised rows of every kind, and RL rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.schemas.errors import TrajmillError
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import Query
from trajmill.stages.curate.leakage import StatedTexts, TrainingText, example_texts, rl_step_texts
from trajmill.stages.curate.near_leaks import NearLeaks
from trajmill.stages.curate.spec import CurateSpec
from trajmill.stages.queries.leaks import Leak, leaks_in_queries


class CleanRows(NamedTuple):
    """Rows without those that nearly state what is held out."""

    rows: pa.Table
    left_out: Mapping[str, int]
    """Rows by reason."""
    leaking: frozenset[str]
    """Their ids."""


class RowLeak(NamedTuple):
    """Why a row must not be learned from."""

    reason: str
    """As that of `NearLeak`; the row is left out. Empty if the release is refused."""
    refusal: str = ""
    """What is wrong with the run: the row states a whole held-out instruction, or comes from another split."""


class LeakCheck:
    """Looks for held-out instructions and benchmark tasks in the rows of one release."""

    def __init__(self, queries: Sequence[Query], heldout_apps: Collection[str], spec: CurateSpec) -> None:
        """Prepare the check.

        Raises:
            TrajmillError: training queries have held-out goals, instructions, phrasings or apps.
            BadInputError: the file of a benchmark cannot be read.
        """
        self._stated = StatedTexts(queries)
        self._near = NearLeaks(queries, spec)
        _refuse([_told(leak) for leak in leaks_in_queries(queries, heldout_apps)])

    @cached_property
    def identity(self) -> str:
        """A hash of what is looked for: an equal one finds the same in rows that were checked before."""
        return content_id(sorted(self._stated.instructions.items()), self._near.identity())

    def examples(self, rows: pa.RecordBatch | pa.Table) -> dict[str, RowLeak]:
        """By id, the leaks in rows of table `examples`, of any kind; each row is looked at by itself."""
        batches = [rows] if isinstance(rows, pa.RecordBatch) else rows.to_batches()
        return self._leaks(list(example_texts(batches)))

    def rl_steps(self, rows: pa.Table) -> CleanRows:
        """Check rows of table `rl_steps`.

        Raises:
            TrajmillError: one states a whole held-out instruction, or comes from another split.
        """
        return without_leaks(rows, "rl_step_id", self._leaks(list(rl_step_texts(rows.to_batches()))))

    def _leaks(self, texts: Sequence[TrainingText]) -> dict[str, RowLeak]:
        near = self._near.in_texts(texts)
        leaks = {row_id: RowLeak(leak.reason) for row_id, leak in near.items()}
        for text in texts:
            for leak in self._stated.leaks_in(text):
                leaks[text.text_id] = RowLeak("", _told(leak))
        return leaks


def without_leaks(rows: pa.Table, key: str, leaks: Mapping[str, RowLeak]) -> CleanRows:
    """The rows that do not leak.

    Raises:
        TrajmillError: a row states a whole held-out instruction, or comes from another split.
    """
    found = {row_id: leaks[row_id] for row_id in rows[key].to_pylist() if row_id in leaks} if leaks else {}
    _refuse([leak.refusal for leak in found.values() if leak.refusal])
    kept = without_rows(rows, key, frozenset(found))
    return CleanRows(kept, Counter(leak.reason for leak in found.values()), frozenset(found))


def without_rows(rows: pa.Table, key: str, ids: frozenset[str]) -> pa.Table:
    """A table, or a batch of one, without the rows with these ids."""
    return rows.filter(pc.invert(pc.is_in(rows[key], pa.array(sorted(ids), pa.string())))) if ids else rows


def _told(leak: Leak) -> str:
    return f"{leak.kind} of {leak.heldout} in {leak.found_in} ({leak.detail})"


def _refuse(leaks: Sequence[str]) -> None:
    if leaks:
        raise TrajmillError(
            f"{len(leaks)} leaks of held-out data into training, the first: {leaks[0]}; nothing was released"
        )
