"""Collects trajectories every night: generate, rollout, judge, guide; counts what landed; trains by option."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from prefect import flow, get_run_logger
from prefect.artifacts import create_markdown_artifact
from prefect.client.schemas.objects import State

from trajmill.flows.configuration.config import Config
from trajmill.flows.context import RoundContext
from trajmill.flows.evolve import artifact_key, round_flow, stage_task
from trajmill.flows.landed_event import accepted_since_training, announce_landed
from trajmill.flows.nights.log import NEEDS_PERSON, NIGHTLY, Ending, FlowEnd
from trajmill.flows.nights.notices import after_flow, config_of_flow
from trajmill.flows.nights.retrain import train_round, working_alone
from trajmill.flows.policies.choice import adopt_configured
from trajmill.flows.round import collecting_stages, current_round, stages_of
from trajmill.flows.stage import report_of
from trajmill.flows.tasks.train import TRAIN, leave_untrained
from trajmill.pipelines.reading.verdicts import read_verdicts
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.critics.judge import STAGE as JUDGE_STAGE
from trajmill.warehouse.lock import RunInUseError
from trajmill.warehouse.read import read_table
from trajmill.warehouse.views import refresh_views

_COLLECTED = (Purpose.TRAIN, Purpose.GUIDED)


class Landed(NamedTuple):
    """What a night has landed; two of them add up."""

    rounds: tuple[int, ...] = ()
    attempts: int = 0
    finished: int = 0
    accepted: int = 0
    """Finished attempts that were judged correct."""
    unjudged: int = 0
    """Finished attempts that the judge failed on."""
    guided: int = 0
    """Attempts with guidance, among all attempts."""
    failures: Counter[str] = Counter()
    """Rows of table `failures`, by class."""

    def __add__(self, other: object) -> Landed:
        """The sum of both."""
        if not isinstance(other, Landed):
            return NotImplemented
        return Landed(
            self.rounds + other.rounds,
            self.attempts + other.attempts,
            self.finished + other.finished,
            self.accepted + other.accepted,
            self.unjudged + other.unjudged,
            self.guided + other.guided,
            self.failures + other.failures,
        )

    def line(self) -> str:
        """What landed, in one line."""
        rounds = ", ".join(map(str, self.rounds))
        unjudged = f", {self.unjudged} could not be judged" if self.unjudged else ""
        failed = "".join(f", {name} failures: {count}" for name, count in self.failures.most_common())
        return (
            f"round {rounds}: {self.finished} of {self.attempts} attempts finished, {self.guided} of them guided; "
            f"{self.accepted} accepted{unjudged}{failed}"
        )

    def markdown(self, accepted_since_training: int) -> str:
        """What landed, as a table."""
        rows = {
            "rounds": ", ".join(map(str, self.rounds)),
            "attempts": self.attempts,
            "finished": self.finished,
            "guided": self.guided,
            "accepted": self.accepted,
            "could not be judged": self.unjudged,
            "accepted since the last training": accepted_since_training,
            **{f"failures: {name}": count for name, count in self.failures.most_common()},
        }
        return "\n".join(["| what landed | |", "|---|---|", *(f"| {name} | {count} |" for name, count in rows.items())])


def landed_in(context: RoundContext) -> Landed:
    """What has landed in a round."""
    warehouse, run_id, rounds = context.warehouse, context.run_id, [context.round]
    columns = ["trajectory_id", "purpose", "status"]
    rows = read_table(warehouse, "trajectories", columns, rounds=rounds, run_id=run_id).to_pylist()
    attempts = [row for row in rows if row["purpose"] in _COLLECTED]
    judged = read_verdicts(warehouse, "judgements", ["trajectory_id", "correct"], rounds=rounds, run_id=run_id)
    judgements = judged.to_pylist()
    correct = {row["trajectory_id"] for row in judgements if row["correct"]}
    columns = ["failure_class", "stage", "input_id"]
    failures = read_table(warehouse, "failures", columns, rounds=rounds, run_id=run_id)
    undecided = {row["input_id"] for row in failures.to_pylist() if row["stage"] == JUDGE_STAGE}
    undecided.difference_update(row["trajectory_id"] for row in judgements)
    return Landed(
        (context.round,),
        len(attempts),
        sum(row["status"] == "finished" for row in attempts),
        sum(row["trajectory_id"] in correct for row in attempts),
        sum(row["trajectory_id"] in undecided and row["status"] == "finished" for row in attempts),
        sum(row["purpose"] == Purpose.GUIDED for row in attempts),
        Counter(failures.column(0).to_pylist()),
    )


@flow(name=NIGHTLY, on_completion=[after_flow], on_failure=[after_flow], on_crashed=[after_flow])
def nightly(config_file: str | None = None) -> State[Any]:
    """Collect the rounds of a night; the state says what landed."""
    end = collect_night(config_of_flow(config_file))
    get_run_logger().info(end.line)
    return end.state()


def collect_night(config: Config) -> FlowEnd:
    """Collect as many rounds as the configuration says; call it inside a flow."""
    try:
        with working_alone(config):
            return _collect_rounds(config)
    except RunInUseError as error:
        return FlowEnd(Ending.SKIPPED, f"did not collect: {error}")


def _collect_rounds(config: Config) -> FlowEnd:
    landed, trainings = Landed(), list[FlowEnd]()
    for _ in range(config.serve.rounds_per_night):
        earlier = close_collected(current_round(config))
        if earlier is not None and earlier.ending is Ending.AWAITING_POLICY:
            return earlier
        context = current_round(config)
        collect(context)
        landed += landed_in(context)
        own = train_round(context) if config.serve.nightly_trains else None
        trainings += [end for end in (earlier, own) if end is not None]
    accepted = announce_landed(config)
    key = artifact_key(config, "night")
    create_markdown_artifact(landed.markdown(accepted), key=key, description="What landed in a night")
    lines = [landed.line(), f"{accepted} accepted since the last training", *(end.line for end in trainings)]
    return FlowEnd(_ending(landed, trainings, config.notify.judge_failures), "; ".join(lines))


def _ending(landed: Landed, trainings: Sequence[FlowEnd], judge_failures: float) -> Ending:
    """How a night ended; a training that needs a person makes it one that does."""
    if not landed.finished:
        return Ending.EMPTY_NIGHT
    if landed.unjudged > judge_failures * landed.finished:
        return Ending.JUDGE_FAILS
    if not landed.accepted:
        return Ending.NOTHING_ACCEPTED
    return next((end.ending for end in trainings if end.ending in NEEDS_PERSON), Ending.COLLECTED)


def collect(context: RoundContext) -> None:
    """Do the stages of a round that collect, each as a task; call it inside a flow."""
    adopt_configured(context)
    for stage in collecting_stages(context.config):
        stage_task(stage, context)
    refresh_views(context.warehouse)


def close_collected(context: RoundContext) -> FlowEnd | None:
    """End a round that an earlier night has collected: train on it if enough has landed, else leave it untrained.

    Returns:
        How the training ended; None if the round is not collected, or was left untrained.
    """
    last = collecting_stages(context.config)[-1]
    if report_of(context, last.name) is None:
        return None
    accepted, serve = accepted_since_training(context.config), context.config.serve
    enough = serve.retrain_after_accepted
    if serve.nightly_trains or accepted >= enough or report_of(context, TRAIN) is not None:
        return train_round(context)
    reason = f"{accepted} trajectories accepted since the last training, {enough} are enough"
    for stage in takewhile(lambda stage: stage.name != TRAIN, stages_of(context.config)):
        stage_task(stage, context)
    leave_untrained(context, reason)
    round_flow(context)
    return None
