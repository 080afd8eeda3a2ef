"""Trains, evaluates and promotes when enough newly accepted trajectories have landed, whoever landed them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State

from trajmill.flows.configuration.config import Config
from trajmill.flows.evolve import accepted_since_training, round_flow
from trajmill.flows.importing.import_folder import has_imports
from trajmill.flows.new_run import begin_or_continue
from trajmill.flows.nights.log import Ending, FlowEnd
from trajmill.flows.nights.notices import HOOKS, config_of_flow, final_state
from trajmill.flows.policies.policy import PROMOTE, PolicyInForce
from trajmill.flows.round import current_round
from trajmill.flows.serving.models_ready import models_ready
from trajmill.flows.stage import RoundContext, finished, report_of
from trajmill.flows.tasks.judge import JUDGE
from trajmill.flows.tasks.train import TRAIN, Training
from trajmill.schemas.tables.policy_version import PolicyVersion
from trajmill.schemas.tables.query import Split
from trajmill.stages.critics.calibration.agreement import Precision
from trajmill.warehouse.atomic import disk_full_as_error
from trajmill.warehouse.layout import Warehouse, create_warehouse
from trajmill.warehouse.lock import RunInUseError, sole_worker
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.views import refresh_views

_SECONDS_BETWEEN_LOOKS = 5.0
_HOUR = 3600.0
_PROMOTIONS = 3
"""Promotions in a row with a fall of validation after which a run needs a person."""


@flow(name="retrain", **HOOKS)
def retrain(config_file: str | None = None) -> State[Any]:
    """Train on what has landed if it is enough; the state names what was done, or why it was not.

    Events that arrive during a training start this flow again; then nothing is new, and nothing is done.
    """
    return final_state(retrain_if_enough(config_of_flow(config_file)))


def retrain_if_enough(config: Config) -> FlowEnd:
    """Train on what has landed if it is enough; call it inside a flow."""

    def too_few() -> FlowEnd | None:
        accepted, enough = accepted_since_training(config), config.serve.retrain_after_accepted
        line = f"did not train: {accepted} trajectories accepted since the last training, {enough} are enough"
        return FlowEnd(Ending.NOT_ENOUGH, line) if accepted < enough else None

    if (end := too_few()) is not None:
        return end
    try:
        with working_alone(config):
            # Another process may have trained while this one waited.
            return too_few() or train_round(current_round(config))
    except RunInUseError as error:
        return FlowEnd(Ending.SKIPPED, f"did not train: {error}")


def train_round(context: RoundContext) -> FlowEnd:
    """Do the rest of a round that is judged or has imports; call it inside a flow, with the run locked."""
    if report_of(context, JUDGE) is None and not has_imports(context):
        line = f"did not train: round {context.round} is not judged yet; it trains on what has landed at its end"
        return FlowEnd(Ending.NOT_ENOUGH, line)
    accepted = accepted_since_training(context.config)
    if waiting := round_flow(context):
        return FlowEnd(Ending.AWAITING_POLICY, f"did not train: {waiting}")
    trained, decided = Training.of(finished(context, TRAIN)), PolicyInForce.of(finished(context, PROMOTE))
    if not trained.trained:
        low = trained.judge_precision is Precision.TOO_LOW
        ending = Ending.BELOW_JUDGE_FLOOR if low else Ending.NOT_TRAINED
        return FlowEnd(ending, f"round {context.round} did not train: {trained.reason}")
    decision = "promoted" if decided.promoted else "not promoted"
    line = f"round {context.round}, {accepted} newly accepted trajectories: {decision}, {decided.reason}"
    fall = validation_fall(context) if decided.promoted else ""
    return FlowEnd(Ending.VALIDATION_FELL, f"{line}; {fall}") if fall else FlowEnd(Ending.TRAINED, line)


def validation_fall(context: RoundContext) -> str:
    """Return how success on validation fell at each of the last promotions; empty if it did not."""
    rows = read_rows(context.warehouse, PolicyVersion, run_id=context.run_id)
    promoted = sorted((row for row in rows if row.promoted), key=lambda row: row.round)
    measured = [split for row in promoted for split in row.success if split.split == Split.VALIDATION and split.queries]
    shares = [split.successes / split.queries for split in measured][-_PROMOTIONS - 1 :]
    if len(shares) <= _PROMOTIONS or any(later >= earlier for earlier, later in pairwise(shares)):
        return ""
    path = ", ".join(f"{100 * share:.0f}" for share in shares)
    return f"validation fell at each of the last {_PROMOTIONS} promotions: {path} %"


@contextmanager
def working_alone(config: Config) -> Iterator[Warehouse]:
    """Work on the run alone, with its models ready; the views are up to date at the end.

    Raises:
        NewRunError: the configuration has changed, so that it would begin a new run.
        RunInUseError: another process works on it, and did not end while this one waited.
    """
    begin_or_continue(config)
    warehouse, serve = create_warehouse(config.run.root), config.serve
    until = time.monotonic() + (serve.wait_hours * _HOUR if serve.when_busy == "wait" else 0.0)
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(sole_worker(warehouse, config.run_id))
                break
            except RunInUseError:
                if time.monotonic() >= until:
                    raise
            time.sleep(min(_SECONDS_BETWEEN_LOOKS, max(until - time.monotonic(), 0.0)))
        stack.enter_context(disk_full_as_error(warehouse.root))
        stack.enter_context(models_ready(config, warehouse.run(config.run_id)))
        yield warehouse
        refresh_views(warehouse)
