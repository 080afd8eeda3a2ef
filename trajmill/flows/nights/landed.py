"""Counts what a night has landed."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from trajmill.flows.context import RoundContext
from trajmill.pipelines.reading.verdicts import read_verdicts
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.warehouse.read import read_table

_COLLECTED = (Purpose.TRAIN, Purpose.GUIDED)


class Landed(NamedTuple):
    """What a night has landed; two of them add up."""

    rounds: tuple[int, ...] = ()
    attempts: int = 0
    finished: int = 0
    accepted: int = 0
    """Finished attempts that were judged correct."""
    guided: int = 0
    """Attempts with guidance, among all attempts."""
    failures: Counter[str] = Counter()
    """Rows of table `failures`, by class."""

    def __add__(self, other: object) -> Landed:
        """The sum of both."""
        if not isinstance(other, Landed):
            return NotImplemented
        return Landed(
            self.rounds + other.rounds,
            self.attempts + other.attempts,
            self.finished + other.finished,
            self.accepted + other.accepted,
            self.guided + other.guided,
            self.failures + other.failures,
        )

    def line(self) -> str:
        """What landed, in one line."""
        rounds = ", ".join(map(str, self.rounds))
        failed = "".join(f", {name} failures: {count}" for name, count in self.failures.most_common())
        return (
            f"round {rounds}: {self.finished} of {self.attempts} attempts finished, {self.guided} of them guided; "
            f"{self.accepted} accepted{failed}"
        )

    def markdown(self, accepted_since_training: int) -> str:
        """What landed, as a table."""
        rows = {
            "rounds": ", ".join(map(str, self.rounds)),
            "attempts": self.attempts,
            "finished": self.finished,
            "guided": self.guided,
            "accepted": self.accepted,
            "accepted since the last training": accepted_since_training,
            **{f"failures: {name}": count for name, count in self.failures.most_common()},
        }
        return "\n".join(["| what landed | |", "|---|---|", *(f"| {name} | {count} |" for name, count in rows.items())])


def landed_in(context: RoundContext) -> Landed:
    """What has landed in a round."""
    warehouse, run_id, rounds = context.warehouse, context.run_id, [context.round]
    columns = ["trajectory_id", "purpose", "status"]
    rows = read_table(warehouse, "trajectories", columns, rounds=rounds, run_id=run_id).to_pylist()
    attempts = [row for row in rows if row["purpose"] in _COLLECTED]
    judged = read_verdicts(warehouse, "judgements", ["trajectory_id", "correct"], rounds=rounds, run_id=run_id)
    correct = {row["trajectory_id"] for row in judged.to_pylist() if row["correct"]}
    failures = read_table(warehouse, "failures", ["failure_class"], rounds=rounds, run_id=run_id)
    return Landed(
        (context.round,),
        len(attempts),
        sum(row["status"] == "finished" for row in attempts),
        sum(row["trajectory_id"] in correct for row in attempts),
        sum(row["purpose"] == Purpose.GUIDED for row in attempts),
        Counter(failures.column(0).to_pylist()),
    )
