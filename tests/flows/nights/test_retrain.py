"""What the deployment `retrain` does when enough trajectories have landed, and that one process works on a run."""

from __future__ import annotations

import multiprocessing
import re
from pathlib import Path

import pytest

from tests.flows.nights.lock_holder import hold
from tests.flows.policies.network import WaitingRun
from tests.flows.small_run import small_config
from tests.flows.synthetic_run import policy_version
from tests.warehouse.samples import commit_rows, stage_run
from trajmill.flows.configuration.config import Config
from trajmill.flows.evolve import accepted_since_training
from trajmill.flows.nights.log import Ending
from trajmill.flows.nights.retrain import retrain, retrain_if_enough, validation_fall
from trajmill.flows.policies.policy import PROMOTE
from trajmill.flows.round import STAGES, current_round, do_stage, run_stage
from trajmill.flows.stage import RoundContext, report_of
from trajmill.flows.tasks.judge import JUDGE
from trajmill.flows.tasks.train import TRAIN, Training
from trajmill.schemas.tables.policy_version import PolicyVersion, SplitSuccess
from trajmill.warehouse.layout import create_warehouse
from trajmill.warehouse.lock import RunInUseError, sole_worker
from trajmill.warehouse.read import read_rows

pytestmark = pytest.mark.slow

FILE = """
[run]
name = "retrained"
[queries]
train = 24
heldout_slots = 4
heldout_phrasings = 0
heldout_apps = 0
validation = 4
[rollout]
episodes_per_round = 160
concurrency = 16
[judge]
precision_floor = 0.0
[train]
min_updates = 2
max_updates = 3
[evaluate]
episodes = 4
train_sample = 0
[serve]
retrain_after_accepted = 1
when_busy = "skip"
"""


def judged_but_not_trained(config: Config) -> RoundContext:
    context = RoundContext.of(config)
    for stage in STAGES:
        do_stage(stage, context)
        if stage.name == JUDGE:
            break
    return context


def test_what_was_rolled_out_and_judged_is_trained_on(tmp_path: Path, prefect_server: None) -> None:
    from trajmill.flows.configuration.file import load_config

    file = tmp_path / "trajmill.toml"
    file.write_text(FILE)
    config = load_config(file)
    context = judged_but_not_trained(config)
    landed = accepted_since_training(config)
    assert landed >= config.serve.retrain_after_accepted

    with sole_worker(context.warehouse, context.run_id):
        skipped = retrain(str(file), return_state=True)
    assert (skipped.name, skipped.is_completed()) == (Ending.SKIPPED, True)
    assert "is at work on it" in (skipped.message or "")
    assert report_of(context, TRAIN) is None, "another process was at work: it was left to train"

    done = retrain(str(file), return_state=True)
    assert done.name == Ending.TRAINED
    assert re.match(rf"round 1, {landed} newly accepted trajectories: (not )?promoted, ", done.message or "")
    assert (context.warehouse.run(config.run_id) / "report.html").is_file()
    trained = report_of(context, TRAIN)
    assert trained is not None
    assert report_of(context, PROMOTE) is not None
    versions = {row.model_version for row in read_rows(context.warehouse, PolicyVersion)}
    new = Training.of(trained).new_policy
    assert new is not None and new.model_version in versions
    assert current_round(config).round == 2
    assert accepted_since_training(config) == 0
    again = retrain(str(file), return_state=True)
    assert again.name == Ending.NOT_ENOUGH
    assert again.message == "did not train: 0 trajectories accepted since the last training, 1 are enough"


def test_retraining_says_what_a_policy_waits_for(waiting_run: WaitingRun, tmp_path: Path, prefect_server: None) -> None:
    enough = waiting_run.config.serve.model_copy(update={"retrain_after_accepted": 0})
    config = waiting_run.config.model_copy(update={"serve": enough})
    waiting = retrain_if_enough(config)
    assert waiting.ending is Ending.AWAITING_POLICY
    assert waiting.line.startswith("did not train: awaiting a policy: [train] kind 'failing' does not train")
    begun = config.model_copy(update={"run": config.run.model_copy(update={"root": tmp_path / "new"})})
    early = retrain_if_enough(begun)
    assert early.ending is Ending.NOT_ENOUGH
    assert early.line == "did not train: round 1 is not judged yet; it trains on what has landed at its end"


@pytest.mark.parametrize(
    ("successes", "line"),
    [
        ([40, 38, 37, 36], "validation fell at each of the last 3 promotions: 80, 76, 74, 72 %"),
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


def test_a_second_process_is_refused_until_the_first_is_gone_however_it_goes(tmp_path: Path) -> None:
    config = small_config(tmp_path)
    mine, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=hold, args=(tmp_path, config.run_id, theirs))
    process.start()
    owner = mine.recv()
    with pytest.raises(RunInUseError, match=rf"\Arun small-\w+ in [^\n]+: process {owner} is at work on it[^\n]+\Z"):
        run_stage("rollout", config)
    with sole_worker(create_warehouse(tmp_path), "another-run"):
        pass
    process.kill()
    process.join()
    with sole_worker(create_warehouse(tmp_path), config.run_id):
        pass
