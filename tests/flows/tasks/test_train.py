"""What a round does when its policy is trained, when the training fails, and when somebody else has to train it."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import pytest

from tests.flows.runs import changed, first_waiting, trained_config
from trajmill.flows.policies.policy import BASELINE, PROMOTE, Policy, policy_before, policy_in_force
from trajmill.flows.round import summary_of
from trajmill.flows.stage import RoundContext, finished, report_of
from trajmill.flows.tasks.release import RELEASE, derived_so_far, release_again
from trajmill.flows.tasks.train import TRAIN, Training, awaited_policy
from trajmill.schemas.errors import BadInputError, FailureClass, TrainingFailedError
from trajmill.schemas.spec import OPERATIONAL
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.policy_version import PolicyVersion
from trajmill.stages.curate.spec import CurateSpec
from trajmill.stages.training.child import LOG_FILE
from trajmill.stages.training.command import CommandSpec
from trajmill.stages.training.embedded.spec import EmbeddedSftSpec
from trajmill.stages.training.spec import ParentPolicy, Progress, RecipeSpec, TrainingReport
from trajmill.warehouse.layout import create_warehouse
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.releases import drop_release, read_release, release_names, verify_release
from trajmill.warehouse.staging import mark_done, progress_of, stage_key
from trajmill.warehouse.upkeep import vacuum

if TYPE_CHECKING:
    from tests.flows.policies.network import WaitingRun

pytestmark = pytest.mark.slow


class FailingRecipe(RecipeSpec):
    """A recipe of another package, which fails; it logs what others see of its progress."""

    kind: Literal["failing"] = "failing"
    out_of_memory: Annotated[bool, OPERATIONAL] = True
    trains_this: Annotated[bool, OPERATIONAL] = True

    def trains(self, folder: Path) -> bool:
        return self.trains_this

    def train(
        self, parent: ParentPolicy, release: Path, seed: int, folder: Path, progress: Progress | None = None
    ) -> TrainingReport:
        assert progress is not None
        seen = []
        for done in (0, 1, 3):
            progress(done, 20)
            seen.append(tuple(progress_of(folder.parent)))
        folder.mkdir(parents=True)
        (folder / "half.safetensors").touch()
        if self.out_of_memory:
            (folder / LOG_FILE).write_text(f"others saw {seen}\nKilled\n")
            raise TrainingFailedError("memory ran out in update 3 of 20")
        raise BadInputError("the folder holds a model of another family")


class NetworkCommand(CommandSpec):
    """A command that trains the network."""

    kind: Literal["network-command"] = "network-command"  # type: ignore[assignment]

    def trains(self, folder: Path) -> bool:
        return True


TRAINER = """
import pathlib, shutil, sys
from safetensors.numpy import load_file, save_file
model, out, spoil = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
shutil.copy(model / "config.json", out)
weights = {name: value + value.dtype.type(1e-3) for name, value in load_file(model / "model.safetensors").items()}
if spoil == "nan":
    next(iter(weights.values())).flat[0] = float("nan")
save_file(weights, out / "model.safetensors")
"""


def test_a_round_whose_accepted_trajectories_are_all_left_out_says_what_they_are_left_out_for(
    waiting_run: WaitingRun, tmp_path: Path
) -> None:
    context = waiting_run.trained_by(EmbeddedSftSpec())
    tasks = tmp_path / "tasks.txt"
    tasks.write_text("".join(f"{query.instruction}\n" for query in context.queries.values()))
    context = replace(context, config=changed(context.config, curate=CurateSpec(benchmarks={"known": tasks})))
    drop_release(context.warehouse, release_names(context.warehouse)[0])
    shutil.rmtree(context.at(RELEASE).staging(context.warehouse))
    assert first_waiting(context) is None
    accepted, reason = sum(each.count.rows_out for each in derived_so_far(context)), summary_of(context).reason or ""
    assert accepted and reason.startswith(f"the release leaves out every step of {accepted} accepted trajectories: ")
    assert " benchmark_known" in reason


def test_a_training_that_fails_changes_nothing_marks_the_round_and_the_next_one_runs(waiting_run: WaitingRun) -> None:
    warehouse = create_warehouse(waiting_run.config.run.root)
    log = warehouse.run(waiting_run.config.run_id) / "training-r0001.log"
    reasons = {
        1: f"memory ran out in update 3 of 20; all that the trainer printed is in {log}",
        2: "the folder holds a model of another family",
    }
    for number, reason in reasons.items():
        context = waiting_run.trained_by(FailingRecipe(out_of_memory=number == 1)).in_round(number)
        assert first_waiting(context) is None
        summary = summary_of(context)
        assert not summary.trained
        assert summary.policy_after == summary.policy_before
        promoted = report_of(context, PROMOTE)
        assert promoted is not None and promoted.result["reason"] == f"training failed: {reason}"
        assert not list(context.at(TRAIN).staging(context.warehouse).rglob("*.safetensors"))
    assert log.read_text() == "others saw [(0, 20), (1, 20), (3, 20)]\nKilled\n", "from the beginning of the training"
    failures = [row for row in read_rows(context.warehouse, Failure) if row.stage == TRAIN]
    assert [(row.round, row.failure_class, row.message) for row in failures] == [
        (number, FailureClass.TRAINING, reason) for number, reason in reasons.items()
    ]
    assert [row.round for row in read_rows(context.warehouse, PolicyVersion)] == [0]


@pytest.mark.parametrize(("spoil", "reason"), [("nan", "has values that are NaN or infinite"), ("none", "")])
def test_broken_weights_of_a_command_become_no_version(waiting_run: WaitingRun, spoil: str, reason: str) -> None:
    command = (sys.executable, "-c", TRAINER, "{model}", "{out}", spoil)
    context = waiting_run.trained_by(NetworkCommand(command=command))
    assert first_waiting(context) is None
    summary, trained = summary_of(context), finished(context, TRAIN).result
    assert trained["trained"] is (not reason) and reason in trained["reason"]
    versions = [row.round for row in read_rows(context.warehouse, PolicyVersion)]
    assert versions == ([0] if reason else [0, 1])
    if reason:
        assert summary.policy_after == summary.policy_before
        assert not list(context.at(TRAIN).staging(context.warehouse).rglob("*.safetensors"))
    assert sum(row.stage == TRAIN for row in read_rows(context.warehouse, Failure)) == bool(reason)


def test_a_release_that_was_dropped_before_its_training_is_made_again(waiting_run: WaitingRun) -> None:
    context = waiting_run.trained_by(EmbeddedSftSpec(min_updates=2, max_updates=4))
    [name] = release_names(context.warehouse)
    before = read_release(context.warehouse, name)
    drop_release(context.warehouse, name)
    vacuum(context.warehouse, older_than_days=0, now=time.time() + 10)
    assert first_waiting(context) is None
    trained = report_of(context, TRAIN)
    assert trained is not None and trained.result["trained"]
    made = verify_release(context.warehouse, name)
    assert [(file.path, file.rows) for file in made.shards] == [(file.path, file.rows) for file in before.shards]
    assert {path.name for path in context.at(RELEASE).staging(context.warehouse).iterdir()} == {"done.json"}


def test_another_release_of_a_round_has_a_name_of_its_own_whatever_was_dropped(waiting_run: WaitingRun) -> None:
    warehouse = create_warehouse(waiting_run.config.run.root)
    [first] = release_names(warehouse)
    made = []
    for dropped in (None, first):
        if dropped is not None:
            drop_release(warehouse, dropped)
        made.append(release_again(waiting_run.config))
    assert made == [f"{first}-1", f"{first}-2"]
    drop_release(warehouse, made[-1])
    verify_release(warehouse, release_again(waiting_run.config))


def test_the_embedded_policy_is_waited_for_with_another_line(tmp_path: Path) -> None:
    context = RoundContext.of(changed(trained_config(tmp_path), train=FailingRecipe(trains_this=False)))
    line = awaited_policy(context, Policy(model_version="embedded-1", kind="embedded"))
    assert "policy add" not in line and "; map models.policy to an [endpoints.NAME]" in line


def test_folders_in_the_warehouse_stay_valid_when_it_is_moved(tmp_path: Path) -> None:
    here, there = create_warehouse(tmp_path / "here"), create_warehouse(tmp_path / "there")
    policy = Policy.stored_in(here, "v2", "openai_api", Path("/weights/owl"), here.model("v2"))
    assert policy.adapter == "models/v2"
    assert policy.paths(here) == (Path("/weights/owl"), here.model("v2"))
    assert policy.paths(there) == (Path("/weights/owl"), there.model("v2"))


def test_a_run_that_an_earlier_version_began_goes_on(tmp_path: Path) -> None:
    context = RoundContext.of(trained_config(tmp_path))
    row = {"model_version": "v0", "kind": "openai_api", "folder": "models/v0", "adapter": None}
    success = [{"split": "validation", "queries": 4, "successes": 1}]
    measured = {"success": success, "validation": [{"query_id": "q", "success": True}]}
    report = {"rows": 8, "skipped": 0, "updates": 5, "loss": 0.5, "version": "v1"}
    named = {"judge_precision": "enough", "parent": "v0", "release": "r", "recipe": "{}"}
    trained = {"trained": True, "reason": "", **named}
    for at, stage, result in (
        (context.in_round(0), BASELINE, {"policy_row": row, "updates": 0, **measured}),
        (context, TRAIN, {**trained, "policy_row": {**row, "model_version": "v1"}, "metrics": "{}", **report}),
    ):
        marked = {"rows_in": 1, "rows_out": 1, "seconds": 1.0, "cost": 0.0, "result": result}
        folder = at.at(stage).staging(at.warehouse)
        mark_done(at.warehouse, folder, stage_key(stage, at.run_id, at.round), marked)
    assert policy_before(context) == Policy(model_version="v0", kind="openai_api", folder="models/v0")
    assert [split.successes for split in policy_in_force(context).success] == [1]
    training = Training.of(finished(context, TRAIN))
    assert training.new_policy is not None and training.new_policy.model_version == "v1" and training.updates == 5
