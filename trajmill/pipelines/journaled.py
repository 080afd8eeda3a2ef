"""Finished attempts in the journals of a stage: written as they end, found by id, and given as rows."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Self

from pydantic import ValidationError

from trajmill.schemas.errors import FailureClass
from trajmill.schemas.record import Origin, Record, Row, content_id
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.step import Step
from trajmill.schemas.tables.trajectory import Trajectory
from trajmill.schemas.tables.verdict import Judgement, StepVerdict, TrajectoryVerdict
from trajmill.stages.environments.tasks import first_mistake
from trajmill.stages.rollout.base import AttemptVerdicts, FinishedAttempt
from trajmill.warehouse.layout import StageRun, Warehouse
from trajmill.warehouse.staging import Journal

_ID = re.compile(rb'"trajectory_id":"([^"\\\x80-\xff]+)"')
"""The first match in a record is its trajectory: a quotation mark within a text has a backslash before it."""


class JournaledAttempt(Record):
    """The rows of a finished attempt, with its verdicts if it was judged at once; its screens have another journal."""

    trajectory: Trajectory
    steps: tuple[Step, ...]
    model_calls: tuple[ModelCall, ...] = ()
    failures: tuple[Failure, ...] = ()
    step_verdicts: tuple[StepVerdict, ...] = ()
    trajectory_verdicts: tuple[TrajectoryVerdict, ...] = ()
    judgement: Judgement | None = None

    @property
    def trajectory_id(self) -> str:
        """The id of its trajectory."""
        return self.trajectory.trajectory_id

    @classmethod
    def of(cls, made: FinishedAttempt, judged: AttemptVerdicts | None = None) -> Self:
        """The record of a finished attempt."""
        own, judged = made.episode, judged or AttemptVerdicts(made.episode)
        return cls(
            trajectory=own.trajectory,
            steps=own.steps,
            model_calls=(*own.calls, *judged.calls),
            failures=(*filter(None, (made.earlier_failure, made.failure)), *judged.failures),
            step_verdicts=judged.episode.step_verdicts,
            trajectory_verdicts=judged.episode.trajectory_verdicts,
            judgement=judged.episode.judgement,
        )


class Journaled(NamedTuple):
    """The records of journals."""

    finished: Sequence[JournaledAttempt]
    unreadable: Sequence[Failure] = ()
    """A row for each record that cannot be read; it names the file of the record."""

    def rows(self) -> dict[str, list[Row]]:
        """The rows by table."""
        finished = self.finished
        return {
            "trajectories": [one.trajectory for one in finished],
            "steps": [step for one in finished for step in one.steps],
            "model_calls": [call for one in finished for call in one.model_calls],
            "step_verdicts": [verdict for one in finished for verdict in one.step_verdicts],
            "trajectory_verdicts": [verdict for one in finished for verdict in one.trajectory_verdicts],
            "judgements": [one.judgement for one in finished if one.judgement],
            "failures": [*(failure for one in finished for failure in one.failures), *self.unreadable],
        }


def read_attempts(warehouse: Warehouse, at: StageRun, origin: Origin, records: Iterable[bytes]) -> Journaled:
    """Parse the records of a stage's journals; one that cannot be read is moved to the folder of the run."""
    finished, unreadable = [], []
    for record in records:
        try:
            finished.append(JournaledAttempt.model_validate_json(record))
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
    """Those of some trajectories that have a record; no record is parsed."""
    wanted = set(trajectory_ids)
    return {name for path in journals for name in _spans(path, path.stat().st_size).keys() & wanted}


def journaled_records(journals: Sequence[Path], trajectory_ids: Collection[str]) -> Iterator[bytes]:
    """The records of some trajectories, in the order of the journals and, in a journal, of the records."""
    for path in journals:
        spans = _spans(path, path.stat().st_size)
        wanted = sorted(spans[name] for name in spans.keys() & set(trajectory_ids))
        with path.open("rb") as file:
            for start, length in wanted:
                file.seek(start)
                yield file.read(length)


@lru_cache(maxsize=64)
def _spans(path: Path, size: int) -> Mapping[str, tuple[int, int]]:
    """Start and length in bytes of a journal's records, by trajectory id; cached until the journal grows."""
    spans: dict[str, tuple[int, int]] = {}
    start = 0
    for line in Journal(path).read():
        if name := _id_in(line):
            spans[name] = start, len(line)
        start += len(line) + 1
    return spans


def _id_in(record: bytes) -> str:
    """The trajectory id of a record that is not parsed; empty if it has none."""
    found = _ID.search(record)
    return found[1].decode() if found else ""
