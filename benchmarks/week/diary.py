"""The week's diary: what was done to it and seen of it, a line each; the truth about which days are over."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

_OVER = "the day is over"


class Entry(NamedTuple):
    """One thing that happened."""

    at: str
    """UTC, ISO 8601."""
    day: str
    kind: str
    """`done` to the week by its script, `flow` for a run that ended, `over` for the end of a day."""
    text: str
    number: int = 0
    """Bytes of the warehouse at the end of a day."""


class Diary:
    """A file with an entry in each line."""

    def __init__(self, file: Path) -> None:
        """The diary of a file, which need not be there."""
        self._file = file
        self.day = ""

    def write(self, kind: str, text: str, number: int = 0) -> None:
        """Append an entry for the present day, and print it."""
        entry = Entry(datetime.now(UTC).isoformat(timespec="seconds"), self.day, kind, text, number)
        with self._file.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        print(f"{entry.at[11:19]} {self.day:<10}{kind:<6}{text}", flush=True)

    def end_day(self, disk_bytes: int) -> None:
        """The present day is not lived again."""
        self.write("over", _OVER, disk_bytes)

    def entries(self) -> list[Entry]:
        """All entries."""
        if not self._file.exists():
            return []
        return [Entry(*json.loads(line)) for line in self._file.read_text().splitlines()]

    def days_over(self) -> Iterator[str]:
        """The days that have ended."""
        return (entry.day for entry in self.entries() if entry.kind == "over")
