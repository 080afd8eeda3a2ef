"""Trains, evaluates and promotes when enough newly accepted trajectories have landed, whoever landed them."""

from __future__ import annotations

from typing import Any

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import State

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.file import load_config_named
from trajmill.flows.context import RoundContext
from trajmill.flows.evolve import round_flow
from trajmill.flows.importing.import_folder import has_imports
from trajmill.flows.landed_event import accepted_since_training
from trajmill.flows.nights.after_flow import after_flow
from trajmill.flows.nights.at_work import at_work
from trajmill.flows.nights.ending import Ending, FlowEnd
from trajmill.flows.policies.policy import PROMOTE
from trajmill.flows.round import current_round
from trajmill.flows.stage import Waiting, finished, report_of
from trajmill.flows.tasks.judge import JUDGE
from trajmill.flows.tasks.train import TRAIN
from trajmill.stages.critics.calibration.precision import Precision
from trajmill.warehouse.lock import RunInUseError


@flow(name="retrain", on_completion=[after_flow], on_failure=[after_flow], on_crashed=[after_flow])
def retrain(config_file: str | None = None) -> State[Any]:
    """Train on what has landed if it is enough; the state says what was done, or why it was not.

    Events that arrive during a training start this flow again; then nothing is new, and nothing is done.
    """
    end = retrain_if_enough(load_config_named(config_file))
    get_run_logger().info(end.line)
    return end.state()


def retrain_if_enough(config: Config) -> FlowEnd:
    """Train on what has landed if it is enough; call it inside a flow."""
    too_few = _too_few(config)
    if too_few is not None:
        return too_few
    try:
        with at_work(config):
            # Another process may have trained while this one waited.
            return _too_few(config) or train_round(current_round(config))
    except RunInUseError as error:
        return FlowEnd(Ending.SKIPPED, f"did not train: {error}")


def _too_few(config: Config) -> FlowEnd | None:
    accepted, enough = accepted_since_training(config), config.serve.retrain_after_accepted
    if accepted >= enough:
        return None
    return FlowEnd(
        Ending.NOT_ENOUGH,
        f"did not train: {accepted} trajectories accepted since the last training, {enough} are enough",
    )


def train_round(context: RoundContext) -> FlowEnd:
    """Do the rest of a round that is judged or has imports; call it inside a flow, with the run locked."""
    if report_of(context, JUDGE) is None and not has_imports(context):
        line = f"did not train: round {context.round} is not judged yet; it trains on what has landed at its end"
        return FlowEnd(Ending.NOT_ENOUGH, line)
    accepted = accepted_since_training(context.config)
    ended = round_flow(context)
    if isinstance(ended, Waiting):
        return FlowEnd(Ending.AWAITING_POLICY, f"did not train: {ended.line}")
    trained, promoted = finished(context, TRAIN).result, finished(context, PROMOTE).result
    if not trained["trained"]:
        low = trained["judge_precision"] == Precision.TOO_LOW
        ending = Ending.BELOW_JUDGE_FLOOR if low else Ending.NOT_TRAINED
        return FlowEnd(ending, f"round {context.round} did not train: {trained['reason']}")
    decision = "promoted" if promoted["promoted"] else "not promoted"
    line = f"round {context.round}, {accepted} newly accepted trajectories: {decision}, {promoted['reason']}"
    return FlowEnd(Ending.TRAINED, line)
