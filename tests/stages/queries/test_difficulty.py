from __future__ import annotations

import pytest

from trajmill.schemas.tables.query import PathStep
from trajmill.stages.queries.base import STEP_CAP, difficulty, level_within_reach, step_limit


def _path(*pages: str, operation: str = "tap") -> tuple[PathStep, ...]:
    opened = PathStep(page="", operation="open", target="Bites")
    finish = PathStep(page=pages[-1], operation="finish", target="")
    return (opened, *(PathStep(page=page, operation=operation, target=f"{page}/x") for page in pages), finish)


@pytest.mark.parametrize(
    ("pages", "apps", "level"),
    [("ab", 1, 1), ("aabb", 1, 1), ("abc", 1, 2), ("abcd", 2, 2), ("abcde", 1, 3), ("ab", 3, 2), ("abcdef", 3, 3)],
)
def test_levels_follow_pages_and_apps(pages: str, apps: int, level: int) -> None:
    assert difficulty(_path(*pages), apps) == level


def test_the_step_limit_counts_the_actions_of_typing_and_is_capped() -> None:
    assert step_limit(_path("a", "b")) == 2 * 4 + 4
    assert step_limit(_path("a", "b", operation="type")) == 2 * 8 + 4
    assert step_limit(_path(*"abcdefghijklmnopqrstuvwxyz")) == STEP_CAP


@pytest.mark.parametrize(
    ("success", "level"),
    [({}, 1), ({1: 0.6, 2: 0.9}, 1), ({1: 0.7}, 2), ({1: 0.9, 2: 0.8}, 3), ({1: 1.0, 2: 1.0, 3: 1.0}, 3)],
)
def test_the_next_level_is_asked_for_where_the_easier_ones_succeed(success: dict[int, float], level: int) -> None:
    assert level_within_reach(success, enough=0.7) == level
