"""The seven days: what each night does, and what goes wrong in it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.week.diary import Diary
from benchmarks.week.flow_runs import FlowRun, Prefect, wait_for
from benchmarks.week.settings import ENOUGH, write_settings
from benchmarks.week.surroundings import TRAJMILL, Disk, Machine, ModelServer, environment
from trajmill.flows.configuration.config import Config
from trajmill.flows.policies.policy import accepted_since_training
from trajmill.flows.round import current_round
from trajmill.flows.stage import RoundContext
from trajmill.flows.status.page import WorkingStage, working_stage
from trajmill.warehouse.staging import Journal

FINISHED_BEFORE_KILL = "finished-before-kill.txt"


@dataclass(frozen=True)
class Week:
    """What the days work with."""

    folder: Path
    config: Config
    disk: Disk
    model: ModelServer
    prefect: Prefect
    machine: Machine
    diary: Diary

    def night(self) -> str:
        """Start the night; returns the id of its run."""
        return self.prefect.start("nightly")

    def end_of(self, identity: str) -> FlowRun:
        """Wait for a run to end, and write down how."""

        def ended_run() -> FlowRun | None:
            run = self.prefect.run(identity)
            return run if run.is_over else None

        ended = wait_for(ended_run)
        self.tell(ended)
        return ended

    def tell(self, run: FlowRun) -> None:
        """Write down how a run ended."""
        self.diary.write("flow", f"{run.deployment} {run.state}: {run.line}")

    def at_work(self, stage: str, attempts: int = 1) -> WorkingStage:
        """Wait until a stage works and has finished some attempts."""

        def look() -> WorkingStage | None:
            now = working_stage(RoundContext.of(self.config))
            return now if now.process and now.stage == stage and now.done >= attempts else None

        return wait_for(look)

    def morning(self) -> None:
        """Wait for the retraining that the night's event has started, if enough has landed, and for all other runs."""
        if accepted_since_training(RoundContext.of(self.config)) >= ENOUGH:
            known = {run.id for run in self.prefect.runs() if run.deployment == "retrain" and run.is_over}

            def trained() -> FlowRun | None:
                runs = (run for run in self.prefect.runs() if run.deployment == "retrain" and run.id not in known)
                return next((run for run in runs if run.is_over), None)

            self.tell(wait_for(trained))
        wait_for(lambda: all(run.is_over for run in self.prefect.runs()))

    def restart(self) -> None:
        """Start the machine again, and wait until it serves."""
        self.prefect.restarts()
        self.machine.start(write_settings(self.folder))
        wait_for(self.prefect.ready)

    def maintain(self) -> None:
        """Start maintenance, as its schedule does once a week, and write down what it has freed."""
        before = self.disk.used()
        self.end_of(self.prefect.start("maintain"))
        after = self.disk.used()
        self.diary.write("done", f"maintenance took the warehouse from {before / 1e6:.1f} MB to {after / 1e6:.1f} MB")


def monday(week: Week) -> None:
    """A quiet night, begun by its schedule."""
    week.diary.write("done", "nothing: the schedule starts the night")
    begun = wait_for(lambda: next((run for run in week.prefect.runs() if run.by_schedule), None))
    week.end_of(begun.id)
    week.morning()


def tuesday(week: Week) -> None:
    """The process of the night is killed while it rolls out."""
    night = week.night()
    now = week.at_work("rollout", attempts=20)
    context = current_round(week.config)
    os.kill(int(now.process or 0), signal.SIGKILL)
    journals = (context.at("rollout").staging(context.warehouse)).glob("episodes-*.jsonl")
    finished = [line.decode() for journal in journals for line in Journal(journal).read()]
    (week.folder / FINISHED_BEFORE_KILL).write_text("\n".join(finished))
    week.diary.write("done", f"kill -9 of the night's process {now.process} after {len(finished)} finished attempts")
    week.end_of(night)


def wednesday(week: Week) -> None:
    """The next night goes on where the killed one stopped; maintenance; `serve` is stopped and started again."""
    week.end_of(week.night())
    week.morning()
    week.maintain()
    week.machine.stop()
    week.restart()
    paused = ", ".join(week.prefect.paused()) or "none"
    week.diary.write("done", f"trajmill serve was stopped and started again; deployments that stayed paused: {paused}")


def thursday(week: Week) -> None:
    """The model server dies while the judge asks it, and stays dead over the next night."""
    night = week.night()
    week.at_work("judge", attempts=0)
    week.model.stop()
    week.diary.write("done", "the model server dies while trajectories are judged")
    week.end_of(night)
    week.end_of(week.night())
    week.model.start()
    week.diary.write("done", "the model server is back; the night is started again, as the message says")
    week.end_of(week.night())
    week.morning()


def friday(week: Week) -> None:
    """The disk is full while the night works; maintenance."""
    night = week.night()
    week.at_work("rollout", attempts=10)
    week.diary.write("done", f"the disk is full: {week.disk.fill(week.machine.process)}")
    week.end_of(night)
    week.disk.empty(week.machine.process)
    week.diary.write("done", "there is room again; the night is started again, as the message says")
    week.end_of(week.night())
    week.morning()
    week.maintain()


def saturday(week: Week) -> None:
    """Somebody does a round by hand, and the night meets it."""
    number = current_round(week.config).round
    by_hand = write_settings(week.folder, rounds=number)
    week.diary.write("done", f"trajmill evolve by hand, for round {number}")
    with (week.folder / "evolve.log").open("ab") as log:
        command = [*TRAJMILL, "evolve", "--config", str(by_hand)]
        api = {"PREFECT_API_URL": week.prefect.api}
        evolve = subprocess.Popen(command, cwd=week.folder, env=environment(week.folder) | api, stdout=log, stderr=log)
    week.at_work("rollout")
    night = week.night()
    week.diary.write("done", "the night begins while evolve is at work")
    status = evolve.wait(600)
    week.diary.write("done", f"trajmill evolve has ended with exit status {status}")
    week.end_of(night)
    write_settings(week.folder)
    week.morning()


def sunday(week: Week) -> None:
    """The machine loses its power in the night and is started again; maintenance."""
    night = week.night()
    week.at_work("rollout", attempts=30)
    week.diary.write(
        "done", f"kill -9 of all {week.machine.lose_power()} processes: serve, its Prefect server, the night"
    )
    week.restart()
    week.end_of(night)
    week.end_of(week.night())
    week.morning()
    before = week.disk.used()
    week.end_of(week.prefect.start("maintain"))
    after = week.disk.used()
    week.diary.write(
        "done", f"maintenance: the warehouse had {before / 1e6:.1f} MB before and {after / 1e6:.1f} MB after"
    )


DAYS: Mapping[str, Callable[[Week], None]] = {
    day.__name__.capitalize(): day for day in (monday, tuesday, wednesday, thursday, friday, saturday, sunday)
}
