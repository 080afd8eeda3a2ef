"""How hard a query is and how many steps it may take (NaturalGAIA 3.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trajmill.schemas.tables.query import PathStep

HARDEST = 3
EASY_PAGES = 2
MEDIUM_PAGES = 4
"""Most atomic tasks of levels 1 and 2; each page on which something is done counts as one."""
MEDIUM_APPS = 3
"""A task over three apps or more is not of level 1."""
SPARE_STEPS = 4
STEP_CAP = 40


def difficulty(path: Sequence[PathStep], apps: int) -> int:
    """Level 1 to 3, by the number of pages on which something is done and the number of apps."""
    pages = len({step.page for step in path if step.operation in ("tap", "type")})
    if pages > MEDIUM_PAGES:
        return 3
    return 2 if pages > EASY_PAGES or apps >= MEDIUM_APPS else 1


def level_within_reach(success: Mapping[int, float], enough: float) -> int:
    """The first level at which success is below `enough`, or that was never tried; the hardest one if there is none.

    Args:
        success: by level, the share of attempts that succeed now.
        enough: the share from which the next level is asked for.
    """
    return next((level for level in range(1, HARDEST) if success.get(level, 0.0) < enough), HARDEST)


def step_limit(path: Sequence[PathStep]) -> int:
    """Twice the actions of the reference path plus `SPARE_STEPS`, at most `STEP_CAP`."""
    return min(2 * sum(map(_actions, path)) + SPARE_STEPS, STEP_CAP)


def _actions(step: PathStep) -> int:
    # Typing takes three: focus the input, type, close the keyboard.
    return 3 if step.operation == "type" else 1
