"""A night collects; the next one ends the round of the last; a retraining learns from all of them."""

import re
import threading
from pathlib import Path
from unittest.mock import Mock

import pytest
from prefect import flow

from tests.flows.policies.network import WaitingRun
from tests.flows.runs import changed, small_config, smallest_config
from tests.flows.synthetic_run import RUN, policy_version
from tests.warehouse.samples import commit_rows, stage_run
from tests.warehouse.test_releases import export_and_release
from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.file import load_config
from trajmill.flows.configuration.sections import ServeSection
from trajmill.flows.configuration.tables import config_as_toml
from trajmill.flows.nights.log import Ending, FlowEnd
from trajmill.flows.nights.nightly import (
    Landed,
    collect_night,
    keep_small,
    landed_in,
    nightly,
    retrain,
    retrain_if_enough,
    validation_fall,
    working_alone,
)
from trajmill.flows.policies.policy import accepted_since_training
from trajmill.flows.round import current_round, summary_of
from trajmill.flows.stage import RoundContext, finished, report_of
from trajmill.flows.tasks.release import RELEASE
from trajmill.flows.tasks.train import TRAIN, Training, measured_queries
from trajmill.schemas.tables.policy_version import PolicyVersion, SplitSuccess
from trajmill.schemas.tables.query import Split
from trajmill.warehouse.layout import RunInUseError, Warehouse, create_warehouse, sole_worker
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.releases import release_names

pytestmark = pytest.mark.slow


def served(config: Config, **changes: object) -> Config:
    return changed(config, serve=ServeSection().model_copy(update=changes))


def test_nights_collect_and_a_retraining_learns_from_all_of_them(tmp_path: Path, prefect_server: Path) -> None:
    file, base = tmp_path / "a.toml", changed(smallest_config(tmp_path / "d"), queries={"fresh": 2}, run={"seed": 8})

    def said(work: object, enough: int = 10_000) -> tuple[str, str]:
        file.write_text(config_as_toml(served(base, retrain_after_accepted=enough, when_busy="skip")))
        state = (nightly if work is nightly else retrain)(str(file), return_state=True)
        assert state.is_completed()
        return state.name or "", state.message or ""

    name, line = said(nightly)
    assert name == Ending.COLLECTED
    assert re.match(r"round 1: (\d+) of \1 attempts finished, \d+ of them guided; \d+ accepted; ", line)
    config = load_config(file)
    context = current_round(config)
    assert (context.round, report_of(context, RELEASE)) == (1, None), "it collected, and did nothing else"

    assert re.match(r"round 2: (\d+) of \1 attempts finished, \d+ of them guided; \d+ accepted; ", said(nightly)[1])
    ended = summary_of(context)
    assert not ended.trained and ended.policy_after == ended.policy_before
    assert (ended.reason or "").endswith("trajectories accepted since the last training, 10000 are enough")
    second = current_round(config)
    assert second.round == 2
    known = list(context.queries.values())
    assert [query.split for query in known if query.round == 2] == [Split.TRAIN] * 2
    assert {query.query_id for query in measured_queries(context)} <= {
        query.query_id for query in known if query.round == 1
    }

    accepted = accepted_since_training(RoundContext.of(config))
    assert said(retrain)[0] == Ending.NOT_ENOUGH
    with sole_worker(context.warehouse, context.run_id):
        name, line = said(retrain, accepted)
    assert name == Ending.SKIPPED and "is at work on it" in line and report_of(second, TRAIN) is None
    name, line = said(retrain, accepted)
    assert name == Ending.TRAINED
    assert re.match(rf"round 2, {accepted} newly accepted trajectories: (not )?promoted, ", line)
    assert (context.warehouse.run(config.run_id) / "report.html").is_file()
    new = Training.of(finished(second, TRAIN)).new_policy
    versions = {row.model_version for row in read_rows(context.warehouse, PolicyVersion)}
    assert new is not None and new.model_version in versions and len(release_names(context.warehouse)) == 2
    assert current_round(config).round == 3
    too_few = "did not train: 0 trajectories accepted since the last training, 1 are enough"
    assert said(retrain, 1) == (Ending.NOT_ENOUGH, too_few)


def test_a_flow_that_meets_another_skips_or_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trajmill.warehouse.layout._SECONDS_BETWEEN_LOOKS", 0.01)
    skips = served(Config.model_validate({"run": {"root": tmp_path}}), when_busy="skip")
    entered, leave = threading.Event(), threading.Event()

    def work_elsewhere() -> None:
        with sole_worker(create_warehouse(tmp_path), skips.run_id):
            entered.set()
            leave.wait()

    other = threading.Thread(target=work_elsewhere, daemon=True)
    other.start()
    entered.wait()
    with pytest.raises(RunInUseError), working_alone(skips):
        raise AssertionError("another works on it")
    met = collect_night(skips)
    assert met.ending is Ending.SKIPPED and "is at work on it" in met.line
    threading.Timer(0.1, leave.set).start()
    with working_alone(served(skips, when_busy="wait")):
        assert leave.is_set()
    other.join()


@pytest.mark.parametrize(
    ("landed", "trained", "expected"),
    [
        ((3, 1, 0), Ending.TRAINED, Ending.COLLECTED),
        ((3, 1, 0), Ending.NOT_TRAINED, Ending.NOT_TRAINED),
        ((3, 1, 0), Ending.VALIDATION_FELL, Ending.VALIDATION_FELL),
        ((0, 0, 0), Ending.BELOW_JUDGE_FLOOR, Ending.EMPTY_NIGHT),
        ((3, 0, 0), Ending.NOT_TRAINED, Ending.NOTHING_ACCEPTED),
        ((10, 1, 3), None, Ending.JUDGE_FAILS),
        ((10, 1, 2), None, Ending.COLLECTED),
    ],
)
def test_a_night_that_trains_ends_as_its_training_does_where_that_needs_a_person(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    landed: tuple[int, int, int],
    trained: Ending | None,
    expected: Ending,
) -> None:
    finished, accepted, unjudged = landed
    end = FlowEnd(trained or Ending.TRAINED, "the line of the training")
    replaced = {"landed_in": Landed([1], finished, finished, accepted, unjudged), "train_round": end}
    for name in ("collect", "landed_in", "train_round", "announce_landed", "create_markdown_artifact"):
        monkeypatch.setattr(f"trajmill.flows.nights.nightly.{name}", Mock(return_value=replaced.get(name)))
    night = collect_night(
        served(Config.model_validate({"run": {"root": tmp_path}}), nightly_trains=trained is not None)
    )
    assert night.ending is expected and (end.line in night.line) == bool(trained)


def test_who_finds_a_policy_that_nobody_has_trained_says_so(waiting_run: WaitingRun, prefect_server: Path) -> None:
    for work, trains in ((collect_night, True), (collect_night, False), (retrain_if_enough, False)):
        config = served(waiting_run.config, nightly_trains=trains, retrain_after_accepted=0)
        end = flow(validate_parameters=False)(work)(config)
        assert end.ending is Ending.AWAITING_POLICY
        assert end.line.startswith("did not train: awaiting a policy: [train] kind 'failing' does not train")
        assert current_round(config).round == 1, "nothing is collected on top of a round that waits"


def test_a_round_that_is_not_judged_is_not_trained_on(tmp_path: Path) -> None:
    early = retrain_if_enough(served(small_config(tmp_path), retrain_after_accepted=0))
    assert early.ending is Ending.NOT_ENOUGH
    assert early.line == "did not train: round 1 is not judged yet; it trains on what has landed at its end"


def test_what_one_round_or_several_have_landed_is_counted(run_warehouse: Warehouse) -> None:
    context = RoundContext(Config(), run_warehouse, 1, RUN)
    line = "round 1: 4 of 4 attempts finished, 1 of them guided; 2 accepted, environment failures: 1"
    assert landed_in(context, [1]).line() == line
    both = landed_in(context, [1, 2])
    assert (both.rounds, both.attempts, both.accepted, both.guided) == ([1, 2], 8, 6, 2)
    assert both.failures == {"environment": 2} and landed_in(context, [9]).finished == 0
    assert "| accepted since the last training | 4 |" in both.markdown(accepted_since_training=4)


@pytest.mark.parametrize(
    ("successes", "line"),
    [
        ([30, 40, 38, 37, 36], "validation fell at each of the last 3 promotions: 80, 76, 74, 72 %"),
        ([40, 38, 38, 36], ""),
        ([40, 38, 37], ""),
    ],
)
def test_a_fall_of_validation_over_three_promotions_is_named(tmp_path: Path, successes: list[int], line: str) -> None:
    context = RoundContext.of(Config.model_validate({"run": {"root": tmp_path}}), 9)
    for number, count in enumerate(successes, start=3):
        at = stage_run("promote", number, context.run_id)
        measured = (SplitSuccess(split="validation", queries=50, successes=count),)
        row = policy_version(at, 9).model_copy(update={"success": measured, "promoted": True})
        refused = row.model_copy(update={"promoted": False, "model_version": f"refused-{number}"})
        commit_rows(context.warehouse, at, row, refused)
    assert validation_fall(context) == line


def test_old_releases_of_the_run_alone_are_dropped_when_nobody_works_on_it(tmp_path: Path) -> None:
    config = Config.model_validate({"run": {"root": tmp_path}, "retention": {"releases": 1, "unused_days": 0}})
    warehouse, ours = create_warehouse(tmp_path), config.run_id
    (left_over := warehouse.table("steps") / "killed.parquet").parent.mkdir(parents=True, exist_ok=True)
    left_over.write_bytes(b"half a shard")
    for run in (ours, "run-b"):
        for number in (1, 2):
            export_and_release(warehouse, f"{run}-r{number}", round=number, run_id=run)
    with sole_worker(warehouse, ours):
        line = keep_small(config).line
    assert line.startswith(f"0 releases dropped (not of {ours}, which another process works on), ")
    assert len(release_names(warehouse)) == 4
    done = keep_small(config)
    assert done.ending is Ending.MAINTAINED and done.line.startswith("1 releases dropped, 0 tables compacted, ")
    assert not left_over.exists()
    assert release_names(warehouse) == [f"{ours}-r2", "run-b-r1", "run-b-r2"]
