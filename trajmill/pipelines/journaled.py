"""Finished attempts in the journals of a stage: written as they end, found by id, and given as rows."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from trajmill.schemas.episode import AttemptRows, verdict_rows
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.record import Origin, Row, content_id
from trajmill.schemas.tables.failure import Failure
from trajmill.stages.environments.tasks import first_mistake
from trajmill.stages.rollout.base import FinishedAttempt
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.staging import Journal

_ID = re.compile(rb'"trajectory_id":"([^"\\\x80-\xff]+)"')
"""The first match in a record is its trajectory: a quotation mark within a text has a backslash before it."""


def attempt_record(made: FinishedAttempt) -> bytes:
    """Serialise the rows of a finished attempt as one line of JSON."""
    failures = (*filter(None, (made.earlier_failure, made.failure)), *made.episode.failures)
    episode = made.episode.model_copy(update={"failures": failures})
    return episode.model_dump_json(exclude={"query", "guidance"}).encode()


class Journaled(NamedTuple):
    """The records of journals."""

    finished: Sequence[AttemptRows]
    unreadable: Sequence[Failure] = ()
    """A row for each record that cannot be read; it names the file of the record."""

    def rows(self) -> dict[str, list[Row]]:
        """Return the rows by table."""
        finished = self.finished
        return {
            "trajectories": [one.trajectory for one in finished],
            "steps": [step for one in finished for step in one.steps],
            "model_calls": [call for one in finished for call in one.calls],
            **verdict_rows(finished),
            "failures": [*(failure for one in finished for failure in one.failures), *self.unreadable],
        }


def read_attempts(warehouse: Warehouse, at: StageRun, origin: Origin, records: Iterable[bytes]) -> Journaled:
    """Parse the records of a stage's journals; one that cannot be read is moved to the folder of the run."""
    finished, unreadable = [], []
    for record in records:
        try:
            finished.append(AttemptRows.model_validate_json(record))
        except ValidationError as error:
            mistake = first_mistake(error, "the record")[:200]
            place = warehouse.run(at.run_id) / "unreadable" / f"{at.stage}-{content_id(record.hex())}.json"
            warehouse.store.put(warehouse.name(place), record + b"\n")
            failure = Failure(
                stage=at.stage,
                input_id=_id_in(record),
                failure_class=FailureClass.RECORD,
                message=f"an episode's record cannot be read: {mistake}; it is {place}",
                attempts=1,
                **origin.common(made_by=at.stage),
            )
            unreadable.append(failure)
    return Journaled(finished, unreadable)


def journaled_ids(journals: Sequence[Path], trajectory_ids: Collection[str]) -> set[str]:
    """Return those of some trajectories that have a record; no record is parsed."""
    wanted = set(trajectory_ids)
    return {name for path in journals for name in _spans(path, path.stat().st_size).keys() & wanted}


def journaled_records(journals: Sequence[Path], trajectory_ids: Collection[str]) -> Iterator[bytes]:
    """Read the records of some trajectories, in the order of the journals and, in a journal, of the records."""
    for path in journals:
        spans = _spans(path, path.stat().st_size)
        wanted = sorted(spans[name] for name in spans.keys() & set(trajectory_ids))
        with path.open("rb") as file:
            for start, length in wanted:
                file.seek(start)
                yield file.read(length)


@lru_cache(maxsize=64)
def _spans(path: Path, size: int) -> Mapping[str, tuple[int, int]]:
    """Find start and length in bytes of a journal's records, by trajectory id; cached until the journal grows."""
    spans: dict[str, tuple[int, int]] = {}
    start = 0
    for line in Journal(path).read():
        if name := _id_in(line):
            spans[name] = start, len(line)
        start += len(line) + 1
    return spans


def _id_in(record: bytes) -> str:
    """Find the trajectory id of a record that is not parsed; empty if it has none."""
    found = _ID.search(record)
    return found[1].decode() if found else ""
