"""Decides by one judged attempt whether a proposed task is feasible."""

from __future__ import annotations

from typing import NamedTuple

from trajmill.schemas.errors import FailureClass
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.query import FEASIBLE, INFEASIBLE, Query
from trajmill.schemas.tables.trajectory import Trajectory
from trajmill.schemas.tables.verdict import Judgement

TRIAL_STAGE = "try_proposals"
"""Name of the stage on failures."""


class DecidedProposal(NamedTuple):
    """A proposed task after its trial."""

    query: Query
    """With a validation that says what was decided."""
    refusal: Failure | None
    """Why it was refused; None for a feasible task."""


def decide_proposal(
    query: Query, trajectory: Trajectory, judgement: Judgement | None, origin: Origin
) -> DecidedProposal | None:
    """Decide about a proposed task; None if the attempt says nothing about it.

    An attempt that an environment or a model ended, or that no critic could judge, says nothing.

    Args:
        query: the proposed task.
        trajectory: the attempt at it.
        judgement: the judge's decision on the attempt; None if it was not judged.
        origin: common columns of the rows; the query is stored in this round, even if an earlier one proposed it.
    """
    if judgement is None and trajectory.failure_class is not FailureClass.TASK:
        return None
    feasible = judgement is not None and judgement.correct
    columns = {"validation": FEASIBLE if feasible else INFEASIBLE, **origin.common(made_by=query.made_by)}
    decided = query.model_copy(update=columns)
    return DecidedProposal(decided, None if feasible else _refusal(decided, trajectory, origin))


def _refusal(query: Query, trajectory: Trajectory, origin: Origin) -> Failure:
    reason = trajectory.failure_message or "the attempt was judged incorrect"
    return Failure(
        stage=TRIAL_STAGE,
        input_id=query.query_id,
        failure_class=FailureClass.TASK,
        message=f"{query.source}: tried once by {trajectory.agent}: {reason}: {query.instruction}",
        attempts=1,
        **origin.common(made_by=trajectory.model_version),
    )
