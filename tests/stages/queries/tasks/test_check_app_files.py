"""Mistakes that `trajmill apps check` finds beyond those of reading the files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stages.environments.simulated.worlds import garden
from trajmill.stages.environments.simulated.app_files.check import builtin_files
from trajmill.stages.queries.tasks.source import check_app_files

GOAL = "    goal: {waterings"
WANTED = 'feed: $feed, memo: ""}'


def mistakes(folder: Path, text: str) -> list[str]:
    path = folder / "garden.yaml"
    path.write_text(text, encoding="utf-8")
    return [str(mistake).removeprefix(f"{path}:") for mistake in check_app_files([path])]


def test_a_right_file_has_no_mistakes(tmp_path: Path) -> None:
    assert mistakes(tmp_path, garden()) == []


@pytest.mark.slow
def test_built_in_tasks_have_no_mistakes() -> None:
    assert [str(mistake) for mistake in check_app_files(builtin_files())] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong", "says"),
    [
        (WANTED, 'fed: $feed, memo: ""}', "does not meet the goal check (`garden.waterings` is ["),
        (WANTED, 'feed: $feed, memo: "soon"}', '"memo": "soon"'),
        (GOAL, "    goal: {holiday: true, waterings", "`garden.holiday` is false, not true"),
        (f"amount: $amount, {WANTED}", f"amount: 2, {WANTED}", "amount = 3"),
    ],
)
def test_a_goal_that_no_walk_reaches_is_named(tmp_path: Path, right: str, wrong: str, says: str) -> None:
    text = garden().replace(right, wrong)
    found = [each for each in mistakes(tmp_path, text) if "the goal check" in each]
    assert len(found) == 1 and says in found[0], found
    assert int(found[0].partition(":")[0]) == 1 + text[: text.index("    goal:")].count("\n")


@pytest.mark.slow
def test_a_goal_that_holds_at_the_start_and_slots_without_a_part_in_it_are_named(tmp_path: Path) -> None:
    before, _, after = garden().partition("    goal:")
    found = mistakes(tmp_path, f"{before}    goal: {{holiday: false}}\n{after.partition(chr(10))[2]}")
    assert [each.partition(": ")[2].partition(";")[0] for each in found] == [
        *(f"the goal never uses the slot `{name}`, so that any value would do" for name in ("plant", "amount", "feed")),
        "the goal holds before anything is done",
    ]


def test_letters_that_no_font_has_are_named_at_their_line(tmp_path: Path) -> None:
    text = garden().replace("text: Holiday mode", "text: Отпуск 雨")
    (found,) = mistakes(tmp_path, text)
    line = 1 + text[: text.index("Отпуск")].count("\n")
    assert found == f"{line}: `雨` cannot be drawn on a screen; write it in other letters"
