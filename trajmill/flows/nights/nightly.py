"""Collects trajectories every night: generate, rollout, judge, guide; counts what landed; trains by option."""

from __future__ import annotations

from collections import Counter
from itertools import takewhile
from operator import add
from typing import Any, NamedTuple

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.client.schemas.objects import State

from trajmill.flows.configuration.config import Config
from trajmill.flows.evolve import accepted_since_training, announce_landed, artifact_key, round_flow, stage_task
from trajmill.flows.nights.log import NEEDS_PERSON, NIGHTLY, Ending, FlowEnd
from trajmill.flows.nights.notices import HOOKS, config_of_flow, final_state
from trajmill.flows.nights.retrain import train_round, working_alone
from trajmill.flows.round import collecting_stages, current_round, stages_of
from trajmill.flows.stage import RoundContext, report_of, tuples
from trajmill.flows.tasks.train import TRAIN, adopt_configured, leave_untrained
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.critics.judge import STAGE as JUDGE_STAGE
from trajmill.warehouse.lock import RunInUseError
from trajmill.warehouse.views import refresh_views


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
        return Landed(*map(add, self, other)) if isinstance(other, Landed) else NotImplemented

    def line(self) -> str:
        unjudged = f", {self.unjudged} could not be judged" if self.unjudged else ""
        failed = "".join(f", {name} failures: {count}" for name, count in self.failures.most_common())
        return (
            f"round {', '.join(map(str, self.rounds))}: {self.finished} of {self.attempts} attempts finished, "
            f"{self.guided} of them guided; {self.accepted} accepted{unjudged}{failed}"
        )

    def markdown(self, accepted_since_training: int) -> str:
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
    rounds = [context.round]
    rows = tuples(context.read("trajectories", ["trajectory_id", "purpose", "status"], rounds))
    attempts = {name: (purpose, status) for name, purpose, status in rows if purpose in (Purpose.TRAIN, Purpose.GUIDED)}
    judged = dict(tuples(context.read_judgements("trajectory_id", "correct", rounds=rounds)))
    failures = list(tuples(context.read("failures", ["failure_class", "stage", "input_id"], rounds)))
    undecided = {input_id for _, stage, input_id in failures if stage == JUDGE_STAGE} - judged.keys()
    finished = {name for name, (_, status) in attempts.items() if status == "finished"}
    return Landed(
        (context.round,),
        len(attempts),
        len(finished),
        sum(bool(judged.get(name)) for name in attempts),
        len(undecided & finished),
        sum(purpose == Purpose.GUIDED for purpose, _ in attempts.values()),
        Counter(failure_class for failure_class, _, _ in failures),
    )


@flow(name=NIGHTLY, **HOOKS)
def nightly(config_file: str | None = None) -> State[Any]:
    """Collect the rounds of a night; the state names what landed."""
    return final_state(collect_night(config_of_flow(config_file)))


def collect_night(config: Config) -> FlowEnd:
    """Collect as many rounds as the configuration names; call it inside a flow."""
    landed, trainings = Landed(), list[FlowEnd]()
    try:
        with working_alone(config):
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
    except RunInUseError as error:
        return FlowEnd(Ending.SKIPPED, f"did not collect: {error}")
    key = artifact_key(config, "night")
    create_markdown_artifact(landed.markdown(accepted), key=key, description="What landed in a night")
    if not landed.finished:
        ending = Ending.EMPTY_NIGHT
    elif landed.unjudged > config.notify.judge_failures * landed.finished:
        ending = Ending.JUDGE_FAILS
    elif not landed.accepted:
        ending = Ending.NOTHING_ACCEPTED
    else:
        ending = next((end.ending for end in trainings if end.ending in NEEDS_PERSON), Ending.COLLECTED)
    lines = [landed.line(), f"{accepted} accepted since the last training", *(end.line for end in trainings)]
    return FlowEnd(ending, "; ".join(lines))


def collect(context: RoundContext) -> None:
    """Do the stages of a round that collect, each as a task; call it inside a flow."""
    adopt_configured(context)
    for stage in collecting_stages(context.config):
        stage_task(stage, context)
    refresh_views(context.warehouse)


def close_collected(context: RoundContext) -> FlowEnd | None:
    """End a round that an earlier night has collected: train on it if enough has landed, else leave it untrained.

    Returns how the training ended; None if the round is not collected, or was left untrained.
    """
    last = collecting_stages(context.config)[-1]
    if report_of(context, last.name) is None:
        return None
    accepted, serve = accepted_since_training(context.config), context.config.serve
    enough = serve.retrain_after_accepted
    if serve.nightly_trains or accepted >= enough or report_of(context, TRAIN) is not None:
        return train_round(context)
    for stage in takewhile(lambda stage: stage.name != TRAIN, stages_of(context.config)):
        stage_task(stage, context)
    leave_untrained(context, f"{accepted} trajectories accepted since the last training, {enough} are enough")
    round_flow(context)
    return None
