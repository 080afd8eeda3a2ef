"""What the rows that are looked for have in a column; tells values, and bounds between which such values can lie."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc


class Bounded(Protocol):
    """A condition on the values of a column."""

    @property
    def column(self) -> str:
        """Name of the column."""
        ...

    def can_lie(self, low: Any, high: Any) -> bool:
        """Whether a value for which it holds can lie between two bounds, both included."""
        ...


class Between(NamedTuple):
    """Bounds of a text column, both included."""

    column: str
    least: str
    greatest: str

    def can_lie(self, low: str, high: str) -> bool:
        """Whether some text lies between both pairs of bounds."""
        return low <= self.greatest and high >= self.least


class StartsWith(NamedTuple):
    """How the texts of a column start."""

    column: str
    start: str

    def can_lie(self, low: str, high: str) -> bool:
        """Whether a text between two bounds can start so."""
        return low[: len(self.start)] <= self.start <= high[: len(self.start)]

    def holds(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """For each text, whether it starts so."""
        return pc.starts_with(values, self.start)

    def shortened(self, letters: int) -> StartsWith:
        """What holds for the first letters of every text for which this holds."""
        return StartsWith(self.column, self.start[:letters])


@dataclass(frozen=True)
class Among:
    """Values that a column may have: texts, or whole numbers."""

    column: str
    values: Collection[str] | Collection[int]

    def can_lie(self, low: Any, high: Any) -> bool:
        """Whether one of the values lies between two bounds."""
        place = bisect_left(self._sorted, low)
        return place < len(self._sorted) and self._sorted[place] <= high

    def holds(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """For each value, whether it is one of these."""
        return pc.is_in(values, value_set=pa.array(self._sorted, values.type))

    def shortened(self, letters: int) -> Among:
        """What holds for the first letters of every text for which this holds."""
        return Among(self.column, {str(value)[:letters] for value in self.values})

    @cached_property
    def _sorted(self) -> Sequence[Any]:
        return sorted(self.values)


Condition = Among | StartsWith
"""What can be asked of single rows, too."""


def origin_conditions(rounds: Collection[int] | None, run_id: str | None) -> list[Among]:
    """The conditions for rows of some rounds and of a run; None for all."""
    of_rounds = [] if rounds is None else [Among("round", rounds)]
    return of_rounds if run_id is None else [*of_rounds, Among("run_id", [run_id])]
