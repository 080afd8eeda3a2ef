import io
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from tests.flows.runs import changed, small_config
from tests.flows.status.test_status import config_at
from tests.records import record
from tests.warehouse.samples import at_origin
from trajmill.flows.configuration.config import Config
from trajmill.flows.new_run import NewRunError, begin_or_continue
from trajmill.flows.progress import ConsoleWatcher, StageCounter, watched_by, watched_work
from trajmill.flows.stage import RoundContext, StageOutcome, finished, run_once
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.warehouse.layout import StageRun, create_warehouse
from trajmill.warehouse.shards import write_tables
from trajmill.warehouse.staging import Progress, ShardProgress, plan_items


def test_a_stage_costs_what_its_model_calls_cost(tmp_path: Path) -> None:
    context = RoundContext.of(small_config(tmp_path))
    done: list[StageRun] = []

    def work(at: StageRun) -> StageOutcome:
        done.append(at)
        calls = [record(ModelCall, call_id=str(price), price=price, **at_origin(at)) for price in (0.25, 0.5)]
        return StageOutcome(2, 2, write_tables(context.warehouse, at, {"model_calls": calls}))

    assert run_once(context, "judge", work).count.cost == 0.75
    assert run_once(context, "judge", work).count.cost == 0.75
    assert finished(context, "judge").count.cost == 0.75
    assert len(done) == 1


def test_without_a_terminal_a_stage_is_one_line() -> None:
    words = io.StringIO()
    with ConsoleWatcher(Console(file=words, width=100)).stage(2, "judge") as update:
        update(Progress(1000, 1500))
        update(Progress(1500, 1500))
    assert words.getvalue().split()[:5] == ["round", "2", "judge", "1,500", "rows"]
    assert words.getvalue().count("\n") == 1


def test_a_total_that_becomes_known_is_shown_and_all_is_done_when_the_files_go(tmp_path: Path) -> None:
    words = io.StringIO()
    warehouse, at = create_warehouse(tmp_path), StageRun("run", 3, "judge")
    folder = at.staging(warehouse)
    counter = StageCounter(warehouse, at)
    with (
        watched_by(ConsoleWatcher(Console(file=words, width=100, force_terminal=True))),
        watched_work(warehouse, at, "judge"),
    ):
        plan_items(folder, 12)
        ShardProgress(folder, "00000").fill(11)
        assert counter.progress() == Progress(11, 12)
    # The last one is counted, and the files are removed, between two looks.
    shutil.rmtree(folder)
    assert "11/12" in words.getvalue()
    assert counter.progress() == Progress(12, 12)


def test_a_changed_configuration_is_named_and_begins_a_run_only_if_it_may(tmp_path: Path) -> None:
    first = config_at(tmp_path)
    begin_or_continue(first)
    begin_or_continue(changed(first, run={"rounds": 20}))
    another = config_at(tmp_path, queries={"train": 50}, judge={"channels": ("text",)})
    with pytest.raises(NewRunError, match=r"\A[^\n]+\Z") as refused:
        begin_or_continue(another)
    assert f"starts a new run {another.run_id} instead of continuing {first.run_id}" in str(refused.value)
    assert "(judge.channels, queries.train changed since then): pass --new-run" in str(refused.value)
    begin_or_continue(another, new_run=True)
    for each in (another, first):
        begin_or_continue(each)


def test_a_run_of_another_name_and_an_older_warehouse_are_no_surprise(tmp_path: Path) -> None:
    first = config_at(tmp_path)
    begin_or_continue(first)
    begin_or_continue(Config.model_validate({"run": {"root": tmp_path, "name": "other", "seed": 3}}))
    for file in tmp_path.rglob("identity.json"):
        file.unlink()
    with pytest.raises(NewRunError, match="its configuration was another"):
        begin_or_continue(
            Config.model_validate({"run": {"root": tmp_path / ".", "seed": 9}, "rollout": {"group_size": 3}})
        )
