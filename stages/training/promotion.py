"""Whether a round trains a new policy, and whether that policy replaces the old one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from trajmill.schemas.tables.policy_version import SplitSuccess
from trajmill.schemas.tables.query import Split
from trajmill.stages.critics.calibration.precision import Precision

_DECIDING = (Split.HELDOUT_SLOTS, Split.HELDOUT_PHRASINGS)


class Promotion(NamedTuple):
    """Whether a policy is promoted, and why."""

    promoted: bool
    reason: str


def compare(old: Iterable[SplitSuccess], new: Iterable[SplitSuccess], tolerance: float) -> Promotion:
    """Compare the success of two policies on new slot combinations and new phrasings.

    Held-out apps are measured and reported, but do not decide: their success depends much on luck.

    Args:
        old: success of the policy in force, by split.
        new: success of the new policy.
        tolerance: the new policy is promoted if it is at most this much worse.
    """
    before, after = _heldout_rate(old), _heldout_rate(new)
    promoted = after >= before - tolerance
    return Promotion(
        promoted, f"held-out success {after:.1%} {'replaces' if promoted else 'does not replace'} {before:.1%}"
    )


def reason_not_to_train(rows: int, learns_from: str, precision: Precision, waits_for_last_round: bool) -> str:
    """Why a round trains no policy; empty if it trains one.

    Args:
        rows: number of rows that the release has for the recipe.
        learns_from: the table of these rows.
        precision: how the judge's precision compares with its floor; an unknown precision does not stop the training.
        waits_for_last_round: whether this is an early round of a control run, which trains once at its end.
    """
    if rows == 0:
        return "no group has rewards that differ" if learns_from == "rl_steps" else "no trajectory was accepted"
    if precision is Precision.TOO_LOW:
        return "the judge's precision is under its floor"
    if waits_for_last_round:
        return "a frozen explorer is trained once, at the end"
    return ""


def _heldout_rate(success: Iterable[SplitSuccess]) -> float:
    held_out = [split for split in success if split.split in _DECIDING]
    queries = sum(split.queries for split in held_out)
    return sum(split.successes for split in held_out) / queries if queries else 0.0
