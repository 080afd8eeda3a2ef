"""How training data is curated: `[curate]`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, NonNegativeInt

from trajmill.schemas.spec import Fraction, Spec


class CurateSpec(Spec):
    """Which trajectories and steps become training rows, beside the judge's decision (see curation.md)."""

    least_step_score: Annotated[float, Field(gt=0.0, le=1.0)] = 0.5
    """Least score of a step that is learned from (tau of paper 2.2.3): GOOD is 1, NEUTRAL 0.5, HARMFUL 0. Above 0.5
    only GOOD steps are learned from."""
    consistent_thoughts: bool = True
    """Whether steps are left out whose thought is about another kind of action, or another element, than the action
    itself."""
    grounded_answers: bool = True
    """Whether trajectories are left out whose answer was on no screen. Answers are checked only if screens have
    accessibility trees."""
    near_heldout: Fraction = 0.8
    """Share of a held-out instruction's three-word runs that excludes a row with them in one line. Half of the runs
    that no training instruction has must be among them. 0 checks for whole instructions only."""
    benchmarks: dict[str, Path] = {}
    """Files with the tasks of benchmarks by NAME; rows that have one of them, or most of one, are left out. One task in
    each line, or JSON (`.json`, `.jsonl`) with keys such as `instruction`, `goal` or `task`."""
    near_queries: Fraction = 0.0
    """Jaccard similarity of instructions (three-letter runs) from which queries count as one, and together give no
    more trajectories than one. 0 disables this: the built-in apps have many queries that differ in one value."""
    near_screens: NonNegativeInt = 0
    """Rows with the same reply on a similar screen are left out: number of bits of 64 in which the perceptual
    hashes may differ. 0 disables this."""
