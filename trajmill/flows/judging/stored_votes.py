"""Collects the votes of a judge on stored trajectories whose outcome is known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from trajmill.flows.configuration.judges import NamedJudge
from trajmill.flows.context import RoundContext
from trajmill.flows.judging.judge_stored import RejudgeReport, StoredTrajectory, finished_trajectories, judge_stored
from trajmill.pipelines.reading.verdicts import read_verdicts
from trajmill.schemas.record import Row
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.base import Vote
from trajmill.stages.critics.calibration.agreement import PASSED
from trajmill.stages.critics.calibration.ingredients import CallCost, LabelledVotes, draws_of
from trajmill.warehouse.read import read_table

_PURPOSES = (Purpose.TRAIN, Purpose.GUIDED, Purpose.EVALUATE)
"""Purposes of trajectories that measure a judge; walks along an annotated path are left out."""


_COST_COLUMNS = ("role", "payload_hash", "image_scale", "input_tokens", "output_tokens", "latency_ms", "cached")


class Evaluated(NamedTuple):
    """The votes of a judge on labelled trajectories, and the counts of trajectories without votes."""

    evidence: Sequence[LabelledVotes]
    made_by: str
    """Version of the judge; empty if it judged nothing."""
    trajectories: int
    """Trajectories with a label that were to be judged."""
    unjudged: int
    void: int
    """Trajectories that did not finish and are not judged."""
    unlabelled: int
    """Trajectories without a label, or with an unsure one."""
    absent: int = 0
    """Labelled trajectories of a set that were not downloaded."""
    why_unjudged: str = 'why: trajmill sql "SELECT * FROM failures_by_class"'
    """Why trajectories could not be judged, or the query that shows it."""
    further_rows: Mapping[str, Sequence[Row]] = {}
    """Further rows to commit, by table."""


def stored_evidence(context: RoundContext, judge: NamedJudge) -> Evaluated:
    """Let the judge judge each stored trajectory that has a programmatic reward, and return its votes."""
    rewards = rewards_of(context)
    stored = [one for one in finished_trajectories(context) if one.trajectory_id in rewards]
    report = judge_stored(context, judge, stored)
    evidence: list[LabelledVotes] = []
    versions: dict[str, None] = {}
    for number in sorted({one.round for one in stored}):
        found = _StoredVotes(context, judge, number)
        evidence += found.evidence([one for one in stored if one.round == number], rewards)
        versions |= dict.fromkeys(found.versions.values())
    return _with_counts(context, report, evidence, versions)


def _with_counts(
    context: RoundContext, report: RejudgeReport, evidence: Sequence[LabelledVotes], versions: Mapping[str, None]
) -> Evaluated:
    columns = ["status", "purpose", "reward"]
    rows = read_table(context.warehouse, "trajectories", columns, run_id=context.run_id).to_pylist()
    attempts = [row for row in rows if row["purpose"] in _PURPOSES]
    void = sum(row["status"] != "finished" for row in attempts)
    return Evaluated(
        evidence,
        "|".join(versions),
        report.trajectories,
        report.unjudged,
        void,
        unlabelled=len(attempts) - void - report.trajectories,
    )


def rewards_of(context: RoundContext) -> dict[str, bool]:
    """By trajectory id, whether the programmatic check passed; only finished trajectories that have a reward."""
    columns = ["trajectory_id", "reward", "status", "purpose"]
    rows = read_table(context.warehouse, "trajectories", columns, run_id=context.run_id)
    found = zip(*(column.to_pylist() for column in rows.columns), strict=True)
    return {
        trajectory_id: reward >= PASSED
        for trajectory_id, reward, status, purpose in found
        if reward is not None and status == "finished" and purpose in _PURPOSES
    }


class _StoredVotes:
    """The stored votes of a judge on the trajectories of a round."""

    def __init__(self, context: RoundContext, judge: NamedJudge, number: int) -> None:
        self._context, self._judge_id, self._round = context, judge.identity.judge_id, number
        self.versions: dict[str, str] = {row["trajectory_id"]: row["made_by"] for row in self._rows("judgements", [])}

    def evidence(self, stored: Sequence[StoredTrajectory], rewards: Mapping[str, bool]) -> Iterator[LabelledVotes]:
        """The evidence of the trajectories that were judged."""
        votes: dict[str, list[Vote]] = defaultdict(list)
        for row in self._rows("trajectory_verdicts", ["channel", "resolution", "vote", "correct"]):
            vote = Vote(Channel(row["channel"]), row["resolution"], row["made_by"], row["correct"], number=row["vote"])
            votes[row["trajectory_id"]].append(vote)
        calls: dict[str, list[CallCost]] = defaultdict(list)
        for row in self._rows("model_calls", [*_COST_COLUMNS, "draw", "draws"]):
            draws = draws_of(row["draw"], row["draws"])
            calls[row["trajectory_id"]].append(CallCost(**{name: row[name] for name in _COST_COLUMNS}, draws=draws))
        for one in stored:
            name = one.trajectory_id
            if name in self.versions:
                yield LabelledVotes(rewards[name], votes[name], calls[name])

    def _rows(self, table: str, columns: Sequence[str]) -> list[dict[str, Any]]:
        found = read_verdicts(
            self._context.warehouse,
            table,
            ["trajectory_id", "made_by", *columns],
            run_id=self._context.run_id,
            rounds=[self._round],
            judge_id=self._judge_id,
        )
        return list(found.to_pylist())
