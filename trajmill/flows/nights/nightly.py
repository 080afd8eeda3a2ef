"""Collects trajectories every night: generate, rollout, judge, guide; by option it trains, too."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from prefect import flow, get_run_logger
from prefect.artifacts import create_markdown_artifact
from prefect.client.schemas.objects import State

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.file import load_config_named
from trajmill.flows.context import RoundContext
from trajmill.flows.evolve import round_flow, stage_task
from trajmill.flows.landed_event import accepted_since_training, announce_landed
from trajmill.flows.nights.after_flow import after_flow
from trajmill.flows.nights.at_work import at_work
from trajmill.flows.nights.ending import NEEDS_PERSON, Ending, FlowEnd
from trajmill.flows.nights.landed import Landed, landed_in
from trajmill.flows.nights.retrain import train_round
from trajmill.flows.policies.choice import adopt_configured
from trajmill.flows.round import current_round
from trajmill.flows.round_stages import collecting_stages, stages_of
from trajmill.flows.stage import report_of
from trajmill.flows.tasks.train import TRAIN, leave_untrained
from trajmill.warehouse.lock import RunInUseError
from trajmill.warehouse.views import refresh_views


@flow(name="nightly", on_completion=[after_flow], on_failure=[after_flow], on_crashed=[after_flow])
def nightly(config_file: str | None = None) -> State[Any]:
    """Collect the rounds of a night; the state says what landed."""
    end = collect_night(load_config_named(config_file))
    get_run_logger().info(end.line)
    return end.state()


def collect_night(config: Config) -> FlowEnd:
    """Collect as many rounds as the configuration says; call it inside a flow."""
    try:
        with at_work(config):
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
    accepted = accepted_since_training(config)
    announce_landed(config.run.root, accepted, config.serve.retrain_after_accepted)
    create_markdown_artifact(landed.markdown(accepted), key="night", description="What landed in a night")
    lines = [landed.line(), f"{accepted} accepted since the last training", *(end.line for end in trainings)]
    return FlowEnd(_ending(landed, trainings), "; ".join(lines))


def _ending(landed: Landed, trainings: Sequence[FlowEnd]) -> Ending:
    """How a night ended; a training that needs a person makes it one that does."""
    if not landed.finished:
        return Ending.EMPTY_NIGHT
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
