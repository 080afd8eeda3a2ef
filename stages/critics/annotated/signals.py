"""The two signals beside correctness: which steps were redundant, and where the first error is (CODA 3.4)."""

from __future__ import annotations

from collections.abc import Sequence

from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.critics.base import StepResult, Vote


def vote(problems: Sequence[str], praise: str, steps: Sequence[StepResult]) -> Vote:
    """A vote: Correct with `praise` as its reason if there are no problems.

    Where a trajectory is correct, all its steps that did not help are redundant. Where it is not, the harmful steps are
    errors, and the last step is the error when none was harmful: it ended what was not done.
    """
    harmful = [step.index for step in steps if step.label is StepLabel.HARMFUL]
    idle = [step.index for step in steps if step.label is StepLabel.NEUTRAL]
    if not problems:
        return Vote(True, praise, tuple(sorted(harmful + idle)), None)
    last = steps[-1].index if steps else None
    return Vote(False, "; ".join(problems), tuple(idle), harmful[0] if harmful else last)
