"""With `run.asynchronous`, the next round's attempts are made beside the stages that learn; all else stays in order."""

import multiprocessing
import os
import re
import signal
import threading
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from tests.flows.runs import assert_same, changed, do, run_stages, small_config, smallest_config, tiny_config
from trajmill.flows.configuration.config import Config
from trajmill.flows.policies.policy import BASELINE, PROMOTE, Policy, PolicyInForce, acting_round, stale_versions
from trajmill.flows.round import concurrently, do_stage, do_stages, rolled_out_ahead, stages_of
from trajmill.flows.stage import RoundContext, Stage, StageOutcome, StageReport, finished, report_of, run_once
from trajmill.flows.status.page import ahead_line
from trajmill.flows.tasks.generate import PROPOSE
from trajmill.flows.tasks.judge import CALIBRATE, JUDGE_GUIDED
from trajmill.flows.tasks.rollout import ROLLOUT
from trajmill.flows.tasks.train import EVALUATE, TRAIN
from trajmill.schemas.episode import AttemptRows
from trajmill.schemas.tables.registry import TABLES
from trajmill.schemas.tables.trajectory import Purpose, Trajectory
from trajmill.warehouse.layout import Warehouse, open_warehouse
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.releases import release_names, verify_release
from trajmill.warehouse.staging import Journal

SECONDS = 60.0
"""Time limit for threads that meet."""
PROCESSES = multiprocessing.get_context("forkserver")
"""A fork of this process would have to do without its threads."""

Event = tuple[str, str, int]


class Script:
    """Records when stages begin and end; the training and the rollout of round 2 wait for each other."""

    def __init__(self, awaited: str = "") -> None:
        self.events: list[Event] = []
        self._awaited = awaited
        self._meeting = threading.Barrier(2)

    def __call__(self, stage: Stage, context: RoundContext) -> StageReport:
        self.events.append(("begin", stage.name, context.round))
        if (stage.name, context.round) in ((TRAIN, 1), (ROLLOUT, 2)):
            self._meeting.wait(SECONDS)
        self.events.append(("end", stage.name, context.round))
        return StageReport.without_work(stage.name, self._awaited if stage.name == TRAIN else "")

    def position(self, *event: str | int) -> int:
        return self.events.index(event)  # type: ignore[arg-type]


def test_the_next_attempts_are_made_while_the_policy_trains_and_end_before_its_evaluation(tmp_path: Path) -> None:
    script, context = Script(), RoundContext.of(small_config(tmp_path))
    assert do_stages(context, script, context.in_round(2)) == ""
    assert script.position("end", JUDGE_GUIDED, 1) < script.position("begin", ROLLOUT, 2)
    assert script.position("begin", ROLLOUT, 2) < script.position("end", TRAIN, 1)
    assert script.position("end", JUDGE_GUIDED, 2) < script.position("begin", EVALUATE, 1)
    own = [name for what, name, number in script.events if what == "end" and number == 1]
    assert own == [stage.name for stage in stages_of(context.config)]


def test_tasks_for_the_next_round_are_proposed_before_this_one_is_derived(tmp_path: Path) -> None:
    script, context = Script(), RoundContext.of(changed(small_config(tmp_path), queries={"curriculum": 2}))
    do_stages(context, script, context.in_round(2))
    assert script.position("end", PROPOSE, 2) < script.position("begin", CALIBRATE, 1)


def test_a_round_that_awaits_a_policy_ends_when_the_next_attempts_are_made(tmp_path: Path) -> None:
    script, context = Script("awaiting a policy"), RoundContext.of(small_config(tmp_path))
    assert do_stages(context, script, context.in_round(2)) == "awaiting a policy"
    assert script.events[-1][0] == "end"
    assert [name for what, name, number in script.events if (what, number) == ("end", 2)][-1] == JUDGE_GUIDED
    assert EVALUATE not in {name for _, name, _ in script.events}


def test_no_round_beyond_the_last_one_is_begun_and_the_run_stays_the_same(tmp_path: Path) -> None:
    config = changed(small_config(tmp_path, rounds=2), run={"asynchronous": True})
    assert config.run_id == small_config(tmp_path).run_id
    assert rolled_out_ahead(RoundContext.of(config)) == RoundContext.of(config).in_round(2)
    assert rolled_out_ahead(RoundContext.of(config).in_round(2)) is None
    begun = RoundContext.of(small_config(tmp_path, rounds=2))
    begun.at(ROLLOUT).staging(begun.warehouse).mkdir(parents=True)
    assert rolled_out_ahead(begun.in_round(0)) == begun, "what has begun is ended, whatever the key says by now"


def test_an_error_of_the_block_comes_before_one_of_the_work_and_both_end() -> None:
    ended = threading.Event()

    def work() -> None:
        ended.set()
        raise ValueError("the work")

    with pytest.raises(KeyError, match="the block"), concurrently(work):
        raise KeyError("the block")
    assert ended.is_set()
    with pytest.raises(ValueError, match="the work"), concurrently(work):
        pass


def test_after_ctrl_c_nothing_is_waited_for() -> None:
    go_on = threading.Event()
    with pytest.raises(KeyboardInterrupt), concurrently(lambda: go_on.wait(SECONDS)):
        raise KeyboardInterrupt
    go_on.set()


def decide(context: RoundContext, stage: str, version: str) -> None:
    """Let a stage of the round put a version in force."""
    decided = PolicyInForce(policy_row=Policy(model_version=version, kind="embedded"), updates=0, success=())
    run_once(context, stage, lambda at: StageOutcome(1, 1, result=decided.as_json()))


def test_versions_count_as_stale_by_the_changes_of_the_policy_since_they_acted(tmp_path: Path) -> None:
    context = RoundContext.of(small_config(tmp_path))
    decide(context.in_round(0), BASELINE, "v0")
    assert acting_round(context).round == 1
    assert acting_round(context.in_round(2)).round == 1, "round 1 still trains"
    for number, version in enumerate(("v1", "v1", "v2", "v3"), start=1):
        decide(context.in_round(number), PROMOTE, version)
    assert acting_round(context.in_round(2)).round == 2
    last, rounds = context.in_round(5), (2, 5)
    assert stale_versions(last, rounds, 0) == {"v0", "v1", "v2"}
    assert stale_versions(last, rounds, 2) == {"v0"}
    assert stale_versions(last, [5], 2) == frozenset()
    assert stale_versions(last, rounds, 9) == frozenset()
    decide(last, "policy_00", "v1")
    assert stale_versions(last, rounds, 2) == {"v0"}, "v1 acts again"
    assert stale_versions(last, rounds, 1) == {"v0", "v2"}


def killed_in_rollout(config: Config) -> None:
    """Run until round 1 is to be derived and round 2 has finished an episode; then end without warning."""

    def do(stage: Stage, context: RoundContext) -> StageReport:
        if (stage.name, context.round) == (CALIBRATE, 1):
            following = context.in_round(2)
            while not journaled(following) and report_of(following, ROLLOUT) is None:
                time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGKILL)
        return do_stage(stage, context)

    do_stages(RoundContext.of(config), do, RoundContext.of(config).in_round(2))


@pytest.mark.slow
def test_a_rollout_ahead_that_is_killed_goes_on_with_the_same_policy(tmp_path: Path) -> None:
    # One after the other, so that of several the first one is finished early.
    one_by_one = {"episodes_per_round": 12, "concurrency": 1}
    config = changed(smallest_config(tmp_path, rounds=2), rollout=one_by_one, run={"asynchronous": True, "seed": 3})
    process = PROCESSES.Process(target=killed_in_rollout, args=(config,))
    process.start()
    process.join(300)
    assert process.exitcode == -signal.SIGKILL
    context = RoundContext.of(config)
    kept = journaled(context.in_round(2))
    seen = re.fullmatch(r"round 2, rollout: \d+ of \d+ attempts, by (\S+) while round 1 learns", ahead_line(context))
    assert seen is not None
    do(ROLLOUT, context.in_round(2))
    assert "rollout: finished, by" in ahead_line(context)
    do_stages(context, do_stage, rolled_out_ahead(context))
    assert PolicyInForce.of(finished(context, PROMOTE)).policy_row.model_version != seen[1]
    rows = read_rows(context.warehouse, Trajectory, rounds=[1, 2])
    acted = [row for row in rows if row.purpose in (Purpose.TRAIN, Purpose.GUIDED)]
    assert {(row.round, row.model_version) for row in acted} == {(1, seen[1]), (2, seen[1])}
    ended = {row.trajectory_id: row.wall_ms for row in rows if row.round == 2}
    assert kept.items() <= ended.items() and len(ended) == sum(row.round == 2 for row in rows)


def journaled(context: RoundContext) -> dict[str, float]:
    """By id, the milliseconds of the episodes of a rollout that is not finished; empty if it is."""
    paths = context.at(ROLLOUT).staging(context.warehouse).glob("episodes-*.jsonl")
    lines = [line for path in paths for line in Journal(path).read()]
    found = [AttemptRows.model_validate_json(line).trajectory for line in lines]
    return {row.trajectory_id: row.wall_ms for row in found}


KILLED_IN = {"r0001-rollout": 1, "r0001-train": 2}
"""The staging folders of the stages in which the run is killed, with its workers; the last one has one worker."""
SECONDS_INTO_A_STAGE = 0.2
"""Of the processor, from the first file of a stage to the kill."""


@pytest.mark.slow
def test_a_run_that_is_killed_again_and_again_ends_like_one_that_is_not(tiny_run: Warehouse, tmp_path: Path) -> None:
    killing = PROCESSES.Process(target=_kill_again_and_again, args=(tmp_path,))
    killing.start()
    killing.join()
    assert killing.exitcode == 0
    run_stages(tiny_config(tmp_path, workers=1))
    assert_same(open_warehouse(tmp_path), tiny_run, TABLES)
    for name in release_names(open_warehouse(tmp_path)):
        killed_release, whole = (verify_release(at, name) for at in (open_warehouse(tmp_path), tiny_run))
        assert (killed_release.files, killed_release.shards) == (whole.files, whole.shards)


def _kill_again_and_again(root: Path) -> None:
    """Start what is left of the run and kill it, once in each stage."""
    for stage, workers in KILLED_IN.items():
        process = multiprocessing.get_context("fork").Process(target=_run_and_exit, args=(root, workers))
        process.start()
        _kill_in(process, root, stage)


def _run_and_exit(root: Path, workers: int) -> None:
    """All stages; then the process ends without waiting for those that draw, which nobody has told to end."""
    run_stages(tiny_config(root, workers=workers))
    os._exit(0)


def _kill_in(process: BaseProcess, root: Path, stage: str) -> None:
    while not any(root.glob(f"staging/*/{stage}")):
        assert process.is_alive()
        time.sleep(0.02)
    until = _processor_seconds(process) + SECONDS_INTO_A_STAGE
    while process.is_alive() and _processor_seconds(process) < until:
        time.sleep(0.02)
    assert process.is_alive()
    process.kill()
    process.join()


def _processor_seconds(process: BaseProcess) -> float:
    """The time of the processor that a process has had, which passes slowly on a busy machine."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
