"""Lets a judge judge a labelled set in the layout of AgentRewardBench."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from trajmill.flows.configuration.judges import NamedJudge
from trajmill.flows.context import RoundContext
from trajmill.flows.judging.stored_votes import Evaluated
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import Row
from trajmill.schemas.tables.failure import Failure
from trajmill.stages.critics.calibration.labelled.judging import judge_labelled
from trajmill.stages.critics.calibration.labelled.trajectories import read_labels

STAGE = "calibrate"
"""Stage name on failures; the name of the judge follows it."""
_MOST_NAMED = 5


def judge_labelled_set(context: RoundContext, judge: NamedJudge, folder: Path) -> Evaluated:
    """Judge every labelled trajectory whose file exists; model calls and failures are rows to commit.

    Raises:
        BadInputError: the labels cannot be read, or no trajectory file exists.
    """
    labels = read_labels(folder)
    stage = f"{STAGE}:{judge.name}"
    made = asyncio.run(judge_labelled(folder, labels, judge.spec, judge.critics, context.origin, stage))
    present = len(labels) - made.absent - made.unsure
    if not present:
        raise BadInputError(
            f"{folder}: none of its {len(labels):,} labelled trajectories is there; they belong to "
            "cleaned/BENCHMARK/AGENT/EXPERIMENT/TASK.json, their pictures to screenshots"
        )
    wanted = present - made.void
    rows: dict[str, Sequence[Row]] = {
        "model_calls": [judge.identity.stamped(call) for call in made.calls],
        "failures": made.failures,
    }
    return Evaluated(
        made.evidence,
        "|".join(sorted(made.versions)),
        trajectories=wanted,
        unjudged=wanted - len(made.evidence),
        void=made.void,
        unlabelled=made.unsure,
        absent=made.absent,
        why_unjudged=_why_unjudged(made.failures),
        further_rows={table: found for table, found in rows.items() if found},
    )


def _why_unjudged(failures: Sequence[Failure]) -> str:
    """The trajectories that could not be read or judged, with the reason of each; the first few."""
    if not failures:
        return "all of them are void"
    named = [f"{failure.input_id}: {failure.message}" for failure in failures[:_MOST_NAMED]]
    more = len(failures) - len(named)
    return "; ".join([*named, f"and {more} more"] if more else named)
