"""Finds finished attempts in the journals of a stage by id, without reading the others whole."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from trajmill.warehouse.staging import Journal

_ID = re.compile(rb'"trajectory_id":"([^"\\\x80-\xff]+)"')
"""The first of a record is that of its trajectory; a quotation mark within a text has a backslash before it."""


class _Span(NamedTuple):
    """Where a record is, in bytes."""

    start: int
    length: int


def journaled_ids(journals: Sequence[Path], trajectory_ids: Collection[str]) -> set[str]:
    """Those of some trajectories that have a record; no record is parsed."""
    wanted = set(trajectory_ids)
    return {name for path in journals for name in _spans(path, path.stat().st_size).keys() & wanted}


def journaled_records(journals: Sequence[Path], trajectory_ids: Collection[str]) -> Iterator[bytes]:
    """The records of some trajectories, in the order of the journals and, in a journal, of the records."""
    for path in journals:
        spans = _spans(path, path.stat().st_size)
        wanted = sorted(spans[name] for name in spans.keys() & set(trajectory_ids))
        with path.open("rb") as file:
            for span in wanted:
                file.seek(span.start)
                yield file.read(span.length)


def journaled_id(record: bytes) -> str:
    """The trajectory id of a record that is not parsed; empty if it has none."""
    found = _ID.search(record)
    return found[1].decode() if found else ""


@lru_cache(maxsize=64)
def _spans(path: Path, size: int) -> Mapping[str, _Span]:
    """The places of a journal's records by trajectory id; a journal of another size is looked through again."""
    spans: dict[str, _Span] = {}
    start = 0
    for line in Journal(path).read():
        if name := journaled_id(line):
            spans[name] = _Span(start, len(line))
        start += len(line) + 1
    return spans
