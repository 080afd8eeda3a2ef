"""The morning view says what runs, what was reached, and what needs a person; a trajectory is shown on a terminal."""

import asyncio
import io
import json
import os
import re
import shutil
import time
from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from tests.flows.command_line import CommandLine
from tests.flows.runs import changed, small_config
from tests.flows.synthetic_run import RUN
from tests.records import record
from tests.stages.agents.errand import obedient_worker, run
from tests.warehouse.samples import at_origin, commit_rows, judgement, query, round_summary, stage_run, trajectory
from trajmill.flows.cli.app import run as trajmill
from trajmill.flows.configuration.config import Config
from trajmill.flows.new_run import begin_or_continue, config_of
from trajmill.flows.nights.log import EndedFlow, is_news, missed_night, remember, remember_server
from trajmill.flows.policies.policy import BASELINE, PROMOTE
from trajmill.flows.report.page import render_report
from trajmill.flows.stage import RoundContext, StageOutcome, run_once
from trajmill.flows.status.page import flow_runs, now_line, result_lines, status_of, watch, working_stage
from trajmill.flows.tasks.generate import GENERATE
from trajmill.flows.tasks.rollout import ROLLOUT
from trajmill.flows.terminal.show import find_trajectory, trajectory_lines
from trajmill.pipelines.reading.slots import read_slots, shown_slots
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.mobile_agent_v3.agent import MobileAgentV3Spec
from trajmill.stages.rollout.base import SlotBoard, SlotState
from trajmill.warehouse.layout import Warehouse, create_warehouse, sole_worker
from trajmill.warehouse.views import refresh_views


@pytest.mark.slow
def test_the_results_come_with_their_trend(run_warehouse: Warehouse) -> None:
    lines = result_lines(run_warehouse, RUN)
    assert lines["rounds"][0] == "2 finished, policy policy-2"
    assert "training queries 97 % (+23 points)" in lines["success"]
    assert lines["judge"] == ["precision 98 % (+0 points)", "kappa 0.95 (+0.00)"]
    assert lines["failures"] == ["1 environment"]


def config_at(root: object, **tables: object) -> Config:
    return Config.model_validate({"run": {"root": root}} | tables)


def test_a_process_is_at_work_while_it_holds_the_lock(tmp_path: Path) -> None:
    context = RoundContext.of(config_at(tmp_path))
    assert working_stage(context).process is None
    with sole_worker(context.warehouse, context.run_id):
        now = working_stage(context)
    assert (now.round, now.stage, now.process, now.done) == (1, "generate", str(os.getpid()), 0)
    assert working_stage(context).process is None


def test_after_the_last_round_nothing_is_next_until_something_of_a_further_one_has_begun(tmp_path: Path) -> None:
    config = Config.model_validate({"run": {"root": tmp_path, "rounds": 1}})
    context = RoundContext.of(config)
    for number, stages in ((0, (BASELINE,)), (1, (GENERATE, PROMOTE))):
        for stage in stages:
            run_once(context.in_round(number), stage, lambda at: StageOutcome(0, 0))
    done = "idle; all configured rounds are done; raise run.rounds for more"
    assert now_line(working_stage(context)) == done
    more = replace(context, config=Config.model_validate({"run": {"root": tmp_path, "rounds": 2}}))
    assert now_line(working_stage(more)) == "idle; round 2, rollout is next"
    run_once(context.in_round(2), ROLLOUT, lambda at: StageOutcome(0, 0))
    assert now_line(working_stage(context)) == "idle; round 2, judge is next"


@pytest.mark.slow
def test_an_import_of_another_machine_is_at_work(bucket_url: str) -> None:
    context = RoundContext.of(config_at(bucket_url))
    with sole_worker(context.warehouse, context.run_id):
        folder = context.at("import-0000").staging(context.warehouse)
        context.warehouse.store.put(context.warehouse.name(folder / "part"), b"")
        assert working_stage(context).stage == "import-0000" and not folder.exists()


@pytest.mark.slow
def test_what_needs_a_person_is_listed_as_plain_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse, config = create_warehouse(tmp_path), config_at(tmp_path)
    ends = [
        ("nightly", "EmptyNight", "round 3: 0 of 9 attempts finished\x1b[2J"),
        ("retrain", "NotEnough", "did not train: 3 accepted"),
        ("maintain", "Skipped", "another process works on it"),
    ]
    for number, (flow, state, line) in enumerate([*ends, ends[-1]], start=1):
        remember(warehouse, config.run_id, ended(flow, state, line, number))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(total=1000, used=10, free=990))
    lines = status_of(RoundContext.of(config)).lines
    assert "now       idle; round 1, generate is next" in lines
    assert "last      maintain Skipped at 2026-03-04 02:00:00: another process works on it" in lines
    assert lines[-2:] == [
        "to do     needs a person: maintain ended as Skipped twice in a row: another process works on it",
        "          needs a person: nightly ended as EmptyNight: round 3: 0 of 9 attempts finished [2J",
    ]


def ended(flow: str, state: str, line: str, day: int) -> EndedFlow:
    at = datetime(2026, 3, day, 2, tzinfo=UTC)
    return EndedFlow(flow_run_id=str(day), flow=flow, began=at, ended=at, state=state, line=line)


def test_trouble_is_news_once() -> None:
    night = [ended("nightly", *end) for end in (("EmptyNight", "round 1", 1), ("EmptyNight", "round 2", 2))]
    assert is_news(night[:1]) and not is_news(night[::-1]), "it lasts"
    skipped = [ended("nightly", "Skipped", "busy", day) for day in (3, 2, 1)]
    assert [is_news(skipped[place:]) for place in (2, 1, 0)] == [False, True, False]
    waits = [ended("retrain", "AwaitingPolicy", release, day) for release, day in (("r2", 3), ("r1", 2), ("r1", 1))]
    assert [is_news(waits[place:]) for place in (2, 1, 0)] == [True, False, True]
    failed = [each.model_copy(update={"failed": True, "state": "Failed"}) for each in skipped]
    assert all(is_news(failed[place:]) for place in range(3))


def test_a_night_that_did_not_happen_needs_a_person(tmp_path: Path) -> None:
    warehouse, config = create_warehouse(tmp_path), config_at(tmp_path)
    served, run = datetime(2026, 3, 1, 12, tzinfo=UTC), config.run_id

    def missed(day: int, hour: int) -> datetime | None:
        found = missed_night(warehouse, run, config.serve, datetime(2026, 3, day, hour, tzinfo=UTC))
        return None if found is None else found.began

    assert missed(9, 9) is None, "it was never deployed"
    remember_server(warehouse, run, "http://127.0.0.1:1/api", served)
    remember_server(warehouse, run, "http://127.0.0.1:1/api", datetime(2026, 3, 8, tzinfo=UTC))
    assert missed(1, 23) is missed(2, 2) is None
    assert missed(2, 3) == missed(5, 5) == datetime(2026, 3, 2, 2, tzinfo=UTC)
    with sole_worker(warehouse, run):
        assert missed(2, 9) is None and missed(3, 3) is not None, "it is late, until the next one is due"
    remember(warehouse, run, ended("nightly", "Collected", "", 4))
    assert missed(5, 2) is None and missed(5, 3) == datetime(2026, 3, 5, 2, tzinfo=UTC)
    lines = "\n".join(status_of(RoundContext.of(config)).lines)
    assert "the night of 2026-03-05 02:00 UTC did not happen" in lines


@pytest.mark.slow
def test_a_named_warehouse_shows_its_own_runs(tmp_path: Path, command: CommandLine) -> None:
    configs = [changed(config_at(tmp_path, queries={"curriculum": 3}), run={"name": name}) for name in "ab"]
    refused = command.refused("status", "--root", create_warehouse(tmp_path).root)
    assert refused == f"no run has begun in {tmp_path}; `trajmill evolve` begins one\n"
    for config in configs:
        begin_or_continue(config)
    shown = command.said("status", "--root", tmp_path)
    assert sorted(re.findall("^run       (.*) in", shown, re.MULTILINE)) == sorted(each.run_id for each in configs)
    assert [config_of(create_warehouse(tmp_path), each.run_id) for each in configs] == configs
    (tmp_path / f"runs/{configs[0].run_id}/config.json").write_text('{"gone": 1, "train": {"gone": 2, "epochs": 3.0}}')
    assert config_of(create_warehouse(tmp_path), configs[0].run_id).train.epochs == 3.0  # type: ignore[attr-defined]
    (tmp_path / f"runs/{configs[0].run_id}/config.json").write_text("{")
    assert "json: not a configuration; restore it, or start" in command.refused("status", "--root", tmp_path)


@pytest.mark.slow
def test_what_a_damaged_warehouse_still_has_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = config_at(tmp_path)
    begin_or_continue(config)
    context = RoundContext.of(config)
    commit_rows(context.warehouse, context.at(PROMOTE), round_summary(context.at(PROMOTE)))
    refresh_views(context.warehouse)
    run_once(context, GENERATE, lambda at: StageOutcome(0, 0))
    remember_server(context.warehouse, context.run_id, "http://127.0.0.1:1/api", datetime.now(UTC))
    night = {"flow_run_id": "1", "flow": "nightly", "began": datetime.now(UTC), "ended": datetime.now(UTC)}
    remember(context.warehouse, context.run_id, EndedFlow(**night, state="Collected", line=""))
    paths = ("*/*/r0001-generate/done.json", "*/*/*.parquet", "runs/*/served.json", "runs/*/flows/*")
    [marker], [rows], [served], [end] = (list(tmp_path.glob(path)) for path in paths)
    now = "now       idle; round 1, baseline is next"
    for damaged, kept in ((marker, "rounds    1 finished"), (rows, now), (served, now), (end, now)):
        whole = damaged.read_bytes()
        damaged.write_bytes(whole[1:])
        assert trajmill(["status", "--root", str(tmp_path)]) == 1
        shown = capsys.readouterr()
        assert kept in shown.out and re.search(rf"^to do     needs a person: {damaged}.*; restore it", shown.out, re.M)
        assert shown.err == "the warehouse is damaged, see `to do`; `trajmill verify` reads all its rows\n"
        damaged.write_bytes(whole)


def test_a_server_that_is_gone_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: CommandLine) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    warehouse = create_warehouse(tmp_path)
    assert "no Prefect server is known" in flow_runs(warehouse, "run-1").problem
    remember_server(warehouse, "run-1", "http://127.0.0.1:1/api", datetime.now(UTC))
    assert "the Prefect server http://127.0.0.1:1/api does not answer" in flow_runs(warehouse, "run-1").problem
    assert "no Prefect server is known" in command.refused("status", "--server")


def shown(config: Config) -> str:
    words = io.StringIO()
    watch(RoundContext.of(config), Console(file=words, width=100))
    return words.getvalue()


async def test_the_slots_of_a_worker_are_cells_until_it_ends_or_is_killed(tmp_path: Path) -> None:
    context = RoundContext.of(small_config(tmp_path))
    folder = context.at("rollout").staging(context.warehouse)
    folder.mkdir(parents=True)
    board = SlotBoard()
    slots = [board.add() for _ in range(3)]
    slots[0].step = 12
    with slots[0].waiting(SlotState.MODEL), slots[1].waiting(SlotState.ENVIRONMENT):
        async with shown_slots(board, folder / "episodes-00000.jsonl"):
            await asyncio.sleep(0.05)
            (folder / "episodes-00009.slots").write_text('{"slots": [["model"')
            page = shown(context.config)
    assert "3 slots of 1 worker" in page
    assert "12 model" in page and "0 env" in page and "0 idle" in page
    assert "model" in page and page.count("1 now") == 3
    after = shown(context.config)
    assert "no rollout is running" in after and "round 1, generate is next" in after
    # A killed worker leaves its file.
    left = folder / "episodes-00000.slots"
    left.write_text(json.dumps({"slots": [["model", 3, 1.5]], "spent": {"model": 1.5}}))
    assert read_slots(context.warehouse, context.run_id).workers == 1
    os.utime(left, (time.time() - 60, time.time() - 60))
    assert read_slots(context.warehouse, context.run_id).workers == 0


@pytest.mark.slow
def test_malformed_replies_are_counted_by_role_in_the_status_and_the_report(tmp_path: Path) -> None:
    config = config_at(tmp_path)
    warehouse, at = create_warehouse(tmp_path), stage_run("rollout", 1, config.run_id)
    attempt = trajectory(1, at, "q", agent="ces", stop_reason="time_limit")
    told = {"trajectory_id": attempt.trajectory_id, "step_index": 0, "response": "Hm.", **at_origin(at)}
    replies = enumerate((("planner", None), ("planner", "it is no plan"), ("policy", None), ("executor", "no call")))
    calls = [record(ModelCall, call_id=str(n), role=role, malformed=why, **told) for n, (role, why) in replies]
    commit_rows(warehouse, at, query("q", at), attempt, *calls, round_summary(stage_run("evaluate", 1, config.run_id)))
    refresh_views(warehouse)
    assert [line for line in status_of(RoundContext.of(config)).lines if "replies of the" in line] == [
        "malformed 1 of 1 replies of the executor",
        "          1 of 2 replies of the planner",
    ]
    assert result_lines(warehouse, config.run_id)["failures"] == ["1 time limit"]
    page = render_report(warehouse, config.run_id)
    assert "it is no plan" in page and "no call" in page


FIRST, SECOND = stage_run("judge", 1), stage_run("judge", 2)


@pytest.fixture
def judged_late(tmp_path: Path) -> Warehouse:
    warehouse = create_warehouse(tmp_path / "root")
    late, measured = trajectory(0, FIRST, "q"), trajectory(1, FIRST, "q", purpose=Purpose.EVALUATE)
    commit_rows(warehouse, FIRST, query("q", FIRST), late, measured)
    commit_rows(warehouse, SECOND, judgement(late.trajectory_id, SECOND, correct=True))
    return warehouse


def test_a_judgement_of_a_later_round_is_shown_and_what_is_never_judged(judged_late: Warehouse) -> None:
    judged, measured = (trajectory(number, FIRST, "q").trajectory_id for number in (0, 1))
    found = find_trajectory(judged_late, judged[:8])
    assert found.judgement is not None and found.judgement.round == 2
    assert found.query.query_id == "q" and found.guidance == ""
    assert find_trajectory(judged_late, measured).judgement is None


def test_the_outputs_of_roles_are_shown_and_what_they_were_asked(judged_late: Warehouse) -> None:
    finished = run(MobileAgentV3Spec(), {"worker": obedient_worker()})
    episode = finished.episode
    commit_rows(
        judged_late, stage_run("rollout", 1, "run"), episode.query, episode.trajectory, *episode.steps, *episode.calls
    )
    name = episode.trajectory.trajectory_id
    console = Console(record=True, width=2000, file=StringIO())
    console.print(*trajectory_lines(find_trajectory(judged_late, name)), sep="\n", soft_wrap=True)
    plain = console.export_text()
    assert 'plan        Open "Mail" and do the part of the task that belongs there.' in plain and "asked" not in plain
    console.print(*trajectory_lines(find_trajectory(judged_late, name, with_calls=True)), sep="\n", soft_wrap=True)
    lines = [line.strip() for line in console.export_text().splitlines()]
    roles = [line.partition(":")[0] for line in lines if "is asked:" in line or " says:" in line]
    assert roles[:4] == ["manager is asked", "manager says", "worker is asked", "worker says"]
    assert any("[screen" in line and "### User Request ###" in line for line in lines)


def test_what_does_not_name_a_trajectory_gives_one_error_line(judged_late: Warehouse) -> None:
    alone = trajectory(2, FIRST, "another")
    commit_rows(judged_late, stage_run("alone", 1), alone)
    for start, says in (
        ("", "several trajectories"),
        ("nothing", "no trajectory starts with"),
        (alone.trajectory_id, f"the query of trajectory {alone.trajectory_id} is missing"),
    ):
        with pytest.raises(BadInputError, match=says):
            find_trajectory(judged_late, start)


def test_no_field_brings_control_characters_to_the_terminal(tmp_path: Path) -> None:
    warehouse = create_warehouse(tmp_path / "hostile")
    escape = "\x1b]0;owned\x07\x9b31m\r"
    named = dict.fromkeys(("agent", "model_version", "failure_message"), escape)
    row = trajectory(0, FIRST, "q", failure_class="environment", **named)
    asked = query("q", FIRST).model_copy(update={"instruction": escape})
    rule = judgement(row.trajectory_id, FIRST, correct=True).model_copy(update={"rule": escape})
    commit_rows(warehouse, FIRST, asked, row, rule)
    console = Console(file=StringIO(), force_terminal=False, color_system=None)
    console.print(*trajectory_lines(find_trajectory(warehouse, row.trajectory_id)), sep="\n", soft_wrap=True)
    assert isinstance(console.file, StringIO)
    shown = console.file.getvalue()
    assert "owned" in shown
    assert not [letter for letter in shown if not letter.isprintable() and letter != "\n"]
