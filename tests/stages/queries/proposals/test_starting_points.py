from __future__ import annotations

from pathlib import Path

import pytest

from tests.warehouse.samples import judgement, query, stage_run, trajectory
from trajmill.schemas.errors import BadInputError, FailureClass
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import FEASIBLE, INFEASIBLE, Platform, Query
from trajmill.schemas.tables.trajectory import Trajectory
from trajmill.stages.queries.proposals.propose import decide_proposal
from trajmill.stages.queries.proposals.starts import HumanTask, StartingPoint, in_turn, read_human_tasks

STARTS = [StartingPoint(Platform.PHONE, (app,)) for app in "abcde"]


@pytest.mark.parametrize("wanted", [1, 2, 3, 5])
def test_over_the_rounds_all_have_their_turn(wanted: int) -> None:
    rounds = [in_turn(STARTS, wanted, number) for number in range(1, len(STARTS) + 1)]
    assert all(len(chosen) == wanted for chosen in rounds)
    times = [sum(ground in chosen for chosen in rounds) for ground in STARTS]
    assert times == [wanted] * len(STARTS)


def test_no_more_are_chosen_than_there_are() -> None:
    assert sorted(in_turn(STARTS, 8, 2)) == STARTS
    assert in_turn([], 3, 1) == []


GOOD = '{"instruction": "Order me a pizza", "platform": "phone", "apps": ["bites"]}'


def test_one_task_a_line(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text(f'{GOOD}\n\n{GOOD[:-1]}, "start_state": {{"a": 1}}}}\r\n')
    first, second = read_human_tasks(file)
    assert first == HumanTask(instruction="Order me a pizza", platform=Platform.PHONE, apps=("bites",))
    assert second.start_state == {"a": 1}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "no example task; write one JSON object per line"),
        (b"\n \n", "no example task"),
        (f"{GOOD}\nOrder me a pizza\n".encode(), ":2: task: Invalid JSON"),
        (b"[" * 100_000, ":1: task: Invalid JSON"),
        (b'{"instruction": "x", "apps": []}', ":1: platform: Field required; write one task per line, as "),
        (b'{"instruction": "", "platform": "phone", "apps": []}', ":1: instruction: "),
        (b'{"instruction": "x", "platform": "fridge", "apps": []}', ":1: platform: "),
        (b'{"instruction": "x", "platform": "phone", "apps": [], "app": 1}', ":1: app: "),
        (b"[1]", ":1: task: "),
        (b"\xff\xfe", "not UTF-8 (byte 0)"),
    ],
)
def test_a_wrong_file_gives_one_error_line(tmp_path: Path, content: bytes, told: str) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_bytes(content)
    with pytest.raises(BadInputError) as raised:
        read_human_tasks(file)
    assert str(raised.value).startswith(str(file)) and told in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_missing_file_gives_one_error_line(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="example tasks cannot be read: No such file"):
        read_human_tasks(tmp_path / "none.jsonl")


PROPOSED = query("a", stage_run("propose", 1))
LATER = stage_run("try_proposals", 2)
ORIGIN = Origin(round=2, run_id="run-a", code_version="0")


def attempt(**changes: object) -> Trajectory:
    return trajectory(0, LATER, PROPOSED.query_id, **changes)


@pytest.mark.parametrize(("correct", "validation"), [(True, FEASIBLE), (False, INFEASIBLE)])
def test_the_judge_decides_and_the_row_belongs_to_the_round_of_the_decision(correct: bool, validation: str) -> None:
    tried = attempt()
    decided = decide_proposal(PROPOSED, tried, judgement(tried.trajectory_id, LATER, correct), ORIGIN)
    assert decided is not None
    changed = {key for key in Query.model_fields if getattr(decided.query, key) != getattr(PROPOSED, key)}
    assert {"validation", "round"} <= changed <= {"validation", "round", "code_version", "written_at"}
    assert (decided.query.validation, decided.query.round) == (validation, 2)
    assert (decided.refusal is None) is correct


@pytest.mark.parametrize("cause", [None, FailureClass.ENVIRONMENT, FailureClass.SETUP, FailureClass.MODEL])
def test_an_attempt_that_nobody_judged_says_nothing(cause: FailureClass | None) -> None:
    assert decide_proposal(PROPOSED, attempt(failure_class=cause, failure_message="it ended"), None, ORIGIN) is None


def test_a_task_that_cannot_be_started_is_refused_with_the_reason() -> None:
    malformed = attempt(failure_class=FailureClass.TASK, failure_message="there is no such list")
    decided = decide_proposal(PROPOSED, malformed, None, ORIGIN)
    assert decided is not None and decided.refusal is not None
    assert "there is no such list" in decided.refusal.message
    assert (decided.refusal.input_id, decided.refusal.failure_class) == (PROPOSED.query_id, FailureClass.TASK)
