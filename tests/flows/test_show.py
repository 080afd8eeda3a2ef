from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tests.stages.agents.errand import obedient_worker, run
from tests.warehouse.samples import commit_rows, judgement, query, stage_run, trajectory
from trajmill.flows.terminal.show import find_trajectory, trajectory_lines
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.mobile_agent_v3.agent import MobileAgentV3Spec
from trajmill.warehouse.layout import Warehouse, create_warehouse

FIRST, SECOND = stage_run("judge", 1), stage_run("judge", 2)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    warehouse = create_warehouse(tmp_path / "root")
    late, measured = trajectory(0, FIRST, "q"), trajectory(1, FIRST, "q", purpose=Purpose.EVALUATE)
    commit_rows(warehouse, FIRST, query("q", FIRST), late, measured)
    commit_rows(warehouse, SECOND, judgement(late.trajectory_id, SECOND, correct=True))
    return warehouse


pytestmark = pytest.mark.slow


def test_a_judgement_of_a_later_round_is_shown_and_what_is_never_judged(warehouse: Warehouse) -> None:
    judged, measured = (trajectory(number, FIRST, "q").trajectory_id for number in (0, 1))
    found = find_trajectory(warehouse, judged[:8])
    assert found.judgement is not None and found.judgement.round == 2
    assert found.query.query_id == "q" and found.guidance == ""
    assert find_trajectory(warehouse, measured).judgement is None


def test_the_outputs_of_roles_are_shown_and_what_they_were_asked(warehouse: Warehouse) -> None:
    finished = run(MobileAgentV3Spec(), {"worker": obedient_worker()})
    episode = finished.episode
    commit_rows(
        warehouse, stage_run("rollout", 1, "run"), episode.query, episode.trajectory, *episode.steps, *episode.calls
    )
    name = episode.trajectory.trajectory_id
    console = Console(record=True, width=2000, file=StringIO())
    console.print(*trajectory_lines(find_trajectory(warehouse, name)), sep="\n", soft_wrap=True)
    plain = console.export_text()
    assert 'plan        Open "Mail" and do there what the user asks.' in plain and "asked" not in plain
    console.print(*trajectory_lines(find_trajectory(warehouse, name, with_calls=True)), sep="\n", soft_wrap=True)
    lines = [line.strip() for line in console.export_text().splitlines()]
    roles = [line.partition(":")[0] for line in lines if "is asked:" in line or " says:" in line]
    assert roles[:4] == ["manager is asked", "manager says", "worker is asked", "worker says"]
    assert any("[screen" in line and "### User Request ###" in line for line in lines)


@pytest.mark.parametrize(("start", "says"), [("", "several trajectories"), ("nothing", "no trajectory starts with")])
def test_a_start_that_does_not_name_one_gives_one_error_line(warehouse: Warehouse, start: str, says: str) -> None:
    with pytest.raises(BadInputError, match=says):
        find_trajectory(warehouse, start)


def test_no_field_brings_control_characters_to_the_terminal(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "hostile")
    escape = "\x1b]0;owned\x07\x9b31m\r"
    named = {"agent": escape, "model_version": escape, "failure_message": escape, "failure_class": "environment"}
    row = trajectory(0, FIRST, "q", **named)
    asked = query("q", FIRST).model_copy(update={"instruction": escape})
    rule = judgement(row.trajectory_id, FIRST, correct=True).model_copy(update={"rule": escape})
    commit_rows(warehouse, FIRST, asked, row, rule)
    console = Console(file=StringIO(), force_terminal=False, color_system=None)
    console.print(*trajectory_lines(find_trajectory(warehouse, row.trajectory_id)), sep="\n", soft_wrap=True)
    assert isinstance(console.file, StringIO)
    shown = console.file.getvalue()
    assert "owned" in shown
    assert not [letter for letter in shown if not letter.isprintable() and letter != "\n"]
