"""What is known of the columns of each file of a table, without reading the files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from trajmill.warehouse.bounds.conditions import Among, Bounded, StartsWith

LETTERS: Final = 5
"""So many first letters of ids are kept; five hexadecimal digits tell a million ids apart."""


class FileBounds(NamedTuple):
    """The files of a table's version with the least and the greatest value of their columns."""

    log: pa.Table
    """Column `path`; `min.NAME` and `max.NAME` for columns; and `starts.NAME` for some, with the first letters of the
    texts of each file, null for large files."""

    def names(self, conditions: Iterable[Bounded]) -> list[str]:
        """Names of the files that can have rows for which all conditions hold, sorted."""
        places: Sequence[int] = range(self.log.num_rows)
        for condition in conditions:
            places = self._starting(condition, self._between(condition, places))
        names = self.log["path"]
        return sorted(names[place].as_py() for place in places)

    def _between(self, condition: Bounded, places: Sequence[int]) -> Sequence[int]:
        """Of the places of files, those that can have a value by their bounds; without bounds it can be any."""
        names = (f"min.{condition.column}", f"max.{condition.column}")
        if not set(names) <= set(self.log.column_names):
            return places
        lows, highs = (self.log[name].to_pylist() for name in names)
        return [
            place
            for place in places
            if lows[place] is None or highs[place] is None or condition.can_lie(lows[place], highs[place])
        ]

    def _starting(self, condition: Bounded, places: Sequence[int]) -> Sequence[int]:
        """Of the places of files, those that can have a text by the first letters; without these it can be any."""
        name = f"starts.{condition.column}"
        if name not in self.log.column_names or not isinstance(condition, Among | StartsWith):
            return places
        starts = self.log[name].combine_chunks()
        holds = condition.shortened(LETTERS).holds(starts.flatten())
        found = set(starts.value_parent_indices().filter(holds).to_pylist())
        return [place for place in places if place in found or not starts[place].is_valid]
