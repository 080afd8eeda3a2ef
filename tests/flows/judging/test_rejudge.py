"""Stored trajectories are judged anew beside the round's verdicts, and a round is what it would have been without."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.flows.served_judge import config_with_judges, opinion, tiny_config
from tests.flows.small_run import up_to
from tests.stages.models.fault_server import Fault, FaultReply, running_server
from trajmill.flows.cli.app import run
from trajmill.flows.configuration.file import load_config
from trajmill.flows.configuration.tables import config_as_toml
from trajmill.flows.evolve import accepted_since_training
from trajmill.flows.judging import RejudgeReport, rejudge
from trajmill.flows.stage import RoundContext
from trajmill.flows.tasks.release import DERIVE_RL
from trajmill.flows.terminal.show import find_trajectory
from trajmill.pipelines.reading.episodes import read_history
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.record import Row
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.registry import TABLES
from trajmill.schemas.tables.trajectory import Trajectory
from trajmill.schemas.tables.verdict import Judgement, StepVerdict, TrajectoryVerdict
from trajmill.warehouse import staging
from trajmill.warehouse.layout import Warehouse, open_warehouse
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.sql import run_sql

pytestmark = pytest.mark.slow

NOBODY = "http://127.0.0.1:9/v1"


def finished(root: Path) -> list[str]:
    rows = read_rows(open_warehouse(root), Trajectory)
    return sorted(row.trajectory_id for row in rows if row.status == "finished")


def own(warehouse: Warehouse, record: type[Row]) -> list[dict[str, Any]]:
    """Rows of the rounds themselves, without what is a time."""
    times = {"wall_ms", "environment_ms", "latency_ms", "stages"}
    rows = [row.model_dump(exclude=times) for row in read_rows(warehouse, record)]
    return sorted((row for row in rows if row.get("judge") is None), key=str)


def test_verdicts_are_shown_side_by_side_and_asked_for_once(root: Path) -> None:
    before = {table: own(open_warehouse(root), record) for table, record in TABLES.items() if table != "screens"}
    with running_server(models=("tiny", "other"), writes=opinion) as server:
        config = config_with_judges(root, server.url)
        assert config.run_id == tiny_config(root).run_id
        made = rejudge(config, "big")
        sent = len(server.received)
        assert made == RejudgeReport(len(finished(root)), before=0, judged=len(finished(root)), unjudged=0)
        assert rejudge(config, "big") == made._replace(before=made.judged, judged=0)
        assert len(server.received) == sent > 0
    warehouse = open_warehouse(root)
    assert {table: own(warehouse, record) for table, record in TABLES.items() if table != "screens"} == before
    anew = [row for row in read_rows(warehouse, Judgement) if row.judge == "big"]
    assert sorted(row.trajectory_id for row in anew) == finished(root)
    assert len({row.judge_id for row in anew}) == 1 and None not in {row.judge_id for row in anew}
    for record in (StepVerdict, TrajectoryVerdict, ModelCall):
        assert "big" in {row.model_dump()["judge"] for row in read_rows(warehouse, record)}
    both = run_sql(
        warehouse,
        "SELECT trajectory_id, judge, correct, reward, \"right\" FROM judgements_side_by_side WHERE purpose = 'train'",
    ).to_pylist()
    assert Counter(row["judge"] for row in both)[None] == Counter(row["judge"] for row in both)["big"] > 0
    assert all(row["right"] == (row["correct"] == (row["reward"] >= 1)) for row in both)
    latest = run_sql(warehouse, "SELECT DISTINCT judge FROM latest_judgements").to_pylist()
    assert latest == [{"judge": None}]


def test_the_next_round_is_the_same_with_and_without_it(root: Path, tmp_path: Path) -> None:
    plain, name = Path(shutil.copytree(root, tmp_path / "without")), finished(root)[0]
    config = config_with_judges(root, NOBODY, text=(), multimodal=(), channels=("text",), false_positive=0.5)
    rejudge(config, "big")
    up_to(DERIVE_RL, RoundContext.of(config, 2))
    up_to(DERIVE_RL, RoundContext.of(tiny_config(plain), 2))
    one, other = open_warehouse(root), open_warehouse(plain)
    assert {row.judge for row in read_rows(one, Judgement)} == {None, "big"}
    for table, record in TABLES.items():
        assert table == "screens" or own(one, record) == own(other, record), table
    assert read_history(one, config.run_id, 3) == read_history(other, config.run_id, 3)
    assert accepted_since_training(config) == accepted_since_training(tiny_config(plain))
    assert find_trajectory(one, name) == find_trajectory(other, name)


def test_what_was_killed_is_gone_on_with(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_with_judges(root, NOBODY)
    killed: list[str] = []

    def mark_done(warehouse: Warehouse, folder: Path, key: str, result: Any) -> None:
        if not killed:
            killed.append(folder.name)
            raise TrajmillError("killed")
        staging.mark_done(warehouse, folder, key, result)

    monkeypatch.setattr("trajmill.flows.stage.mark_done", mark_done)
    with pytest.raises(TrajmillError, match="killed"):
        rejudge(config, "plain", round_number=1)
    rejudge(config, "plain")
    rows = [row.trajectory_id for row in read_rows(open_warehouse(root), Judgement) if row.judge == "plain"]
    assert sorted(rows) == finished(root)


def test_what_a_server_did_not_answer_is_a_failure_and_no_verdict_and_is_made_good(root: Path) -> None:
    with running_server(models=("tiny", "other"), writes=opinion) as server:
        server.script.extend([FaultReply(Fault.INTERNAL)] * 12)
        config = config_with_judges(root, server.url, multimodal=(), channels=("text",))
        first = rejudge(config, "big", round_number=1)
        failures = [row for row in read_rows(open_warehouse(root), Failure) if row.stage == "judge_again:big"]
        assert 0 < first.unjudged == len(failures) and first.judged > 0
        second = rejudge(config, "big", round_number=1)
    assert second == RejudgeReport(first.trajectories, first.judged, first.unjudged, 0)


def test_the_command_says_what_came_of_it_or_what_is_wrong(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "trajmill.toml"
    file.write_text(config_as_toml(config_with_judges(root, NOBODY)))
    for arguments, message in (
        ("--judge bigg", "there is no [judges.bigg] in the configuration; did you mean big?\n"),
        ("--judge x", "there are big, plain, judge\n"),
        ("--judge plain --round 9", "has no finished trajectory in round 9; run `trajmill rollout` first\n"),
    ):
        assert run(["judge", "--again", *arguments.split(), "--config", str(file)]) == 1
        shown = capsys.readouterr().err
        assert shown.endswith(message) and shown.count("\n") == 1
    assert run(["judge", "--again", "--judge", "plain", "--config", str(file)]) == 0
    n = len(finished(root))
    assert capsys.readouterr().out.endswith(f"{n} trajectories: {n} judged, 0 judged before\n")
    assert run(["judge", "--judge", "plain", "--config", str(file)]) == 2


def test_a_judge_that_names_what_is_not_there_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "trajmill.toml"
    file.write_text('[judges.big]\ntext = ["none"]\n[judges.judge]\n')
    with pytest.raises(BadInputError) as refused:
        load_config(file)
    text, name = str(refused.value).splitlines()
    assert text == f"{file}:2: judges.big.text: there is no [endpoints.none]; there are embedded"
    assert name.startswith(f"{file}:3: judges.judge: ")
