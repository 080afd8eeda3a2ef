"""The morning view says what runs, what was reached, and what needs a person."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.flows.synthetic_run import RUN
from trajmill.flows.configuration.config import Config
from trajmill.flows.context import RoundContext
from trajmill.flows.policies.policy import BASELINE, PROMOTE
from trajmill.flows.stage import StageOutcome, run_once
from trajmill.flows.status.flow_runs import FlowRunLine, FlowRuns, flow_runs, remember_server
from trajmill.flows.status.now import working_stage
from trajmill.flows.status.page import now_line, status_lines
from trajmill.flows.status.results import Trend, run_results
from trajmill.flows.tasks.generate import GENERATE
from trajmill.flows.tasks.rollout import ROLLOUT
from trajmill.warehouse.layout import Warehouse, create_warehouse
from trajmill.warehouse.lock import sole_worker


@pytest.mark.slow
def test_the_results_come_with_their_trend(run_warehouse: Warehouse) -> None:
    results = run_results(run_warehouse, RUN)
    assert (results.rounds, results.policy) == (2, "policy-2")
    success = {trend.name: trend for trend in results.success}
    assert success["train"] == Trend("train", 58 / 60, 44 / 60)
    assert {trend.name: round(trend.now or 0, 3) for trend in results.judge} == {"precision": 0.976, "kappa": 0.946}
    assert results.failures == (("environment", 1),)


def test_a_process_is_at_work_while_it_holds_the_lock(tmp_path: Path) -> None:
    config = Config.model_validate({"run": {"root": tmp_path}})
    context = RoundContext(config, create_warehouse(tmp_path), 1)
    assert working_stage(context).process is None
    with sole_worker(context.warehouse, context.run_id):
        now = working_stage(context)
    assert (now.round, now.stage, now.process, now.done) == (1, "generate", str(os.getpid()), 0)
    assert working_stage(context).process is None


def test_after_the_last_configured_round_nothing_is_next_until_something_of_a_further_one_has_begun(
    tmp_path: Path,
) -> None:
    config = Config.model_validate({"run": {"root": tmp_path, "rounds": 1}})
    context = RoundContext(config, create_warehouse(tmp_path), 1)
    for number, stages in ((0, (BASELINE,)), (1, (GENERATE, PROMOTE))):
        for stage in stages:
            run_once(context.in_round(number), stage, lambda at: StageOutcome(0, 0))
    done = "nobody is at work; all configured rounds are done; with a larger run.rounds `trajmill evolve` does more"
    assert now_line(working_stage(context)) == done
    more = replace(context, config=Config.model_validate({"run": {"root": tmp_path, "rounds": 2}}))
    assert now_line(working_stage(more)) == "nobody is at work; round 2, rollout is next"
    run_once(context.in_round(2), ROLLOUT, lambda at: StageOutcome(0, 0))
    assert now_line(working_stage(context)) == "nobody is at work; round 2, judge is next"


@pytest.mark.slow
def test_an_import_of_another_machine_is_at_work(bucket_url: str) -> None:
    config = Config.model_validate({"run": {"root": bucket_url}})
    context = RoundContext(config, create_warehouse(bucket_url), 1)
    with sole_worker(context.warehouse, context.run_id):
        folder = context.at("import-0000").staging(context.warehouse)
        context.warehouse.store.put(context.warehouse.name(folder / "part"), b"")
        assert working_stage(context).stage == "import-0000" and not folder.exists()


@pytest.mark.slow
def test_what_needs_a_person_is_listed_and_nothing_acts_on_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = FlowRuns(
        last=(
            FlowRunLine("nightly", "EmptyNight", "2026-11-22 02:00:00", "round 3: 0 of 9 attempts finished\x1b[2J"),
            FlowRunLine("retrain", "NotEnough", "2026-11-22 03:00:00", "did not train: 3 accepted"),
        ),
        next=(FlowRunLine("nightly", "Scheduled", "2026-11-23 02:00:00", ""),),
    )
    monkeypatch.setattr("trajmill.flows.status.page.flow_runs", lambda root: runs)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(total=1000, used=10, free=990))
    lines = status_lines(Config.model_validate({"run": {"root": tmp_path}}), create_warehouse(tmp_path))
    assert "now       nobody is at work; round 1, generate is next" in lines
    assert "next      nightly at 2026-11-23 02:00:00" in lines
    assert lines[-1] == "to do     nightly ended as EmptyNight: round 3: 0 of 9 attempts finished [2J"


def test_a_server_that_is_gone_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    create_warehouse(tmp_path)
    assert "no Prefect server is known" in flow_runs(tmp_path).problem
    remember_server(tmp_path, "http://127.0.0.1:1/api")
    assert "the Prefect server http://127.0.0.1:1/api does not answer" in flow_runs(tmp_path).problem
