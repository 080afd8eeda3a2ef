"""Emits a Prefect event after judged trajectories are committed; `trajmill serve` retrains when there are enough."""

from __future__ import annotations

import pyarrow.compute as pc

from trajmill.flows.configuration.config import Config
from trajmill.flows.new_run import run_resource
from trajmill.flows.policies.policy import CHOICE
from trajmill.flows.stage import RoundContext, tuples
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.warehouse.layout import create_warehouse

LANDED = "trajmill.trajectories.landed"
"""Name of the event."""
ENOUGH_LABEL = "trajmill.enough"
"""Label of the event's resource: `yes` if there is enough to retrain, else `no`; triggers cannot compare numbers."""


def announce_landed(config: Config) -> int:
    """Emit the event for a commit of judged trajectories; return how many were accepted since the last training."""
    from prefect.events import emit_event

    accepted, enough = accepted_since_training(config), config.serve.retrain_after_accepted
    warehouse = create_warehouse(config.run.root)
    emit_event(
        LANDED,
        resource={
            "prefect.resource.id": run_resource(warehouse, config.run_id),
            "prefect.resource.name": f"{config.run_id} in {warehouse.address}",
            ENOUGH_LABEL: "yes" if accepted >= enough else "no",
        },
        payload={"accepted_since_training": accepted, "enough": enough},
    )
    return accepted


def accepted_since_training(config: Config) -> int:
    """Count the trajectories that were judged correct in the rounds after the last training."""
    context = RoundContext(config, create_warehouse(config.run.root), 0)
    models = tuples(context.read("models", ["round", "release", "made_by"]))
    trainings = (
        number for number, release, made_by in models if release is not None and not made_by.startswith(CHOICE)
    )
    judged = context.read_judgements("trajectory_id", "correct", "round")
    new = pc.and_(judged["correct"], pc.greater(judged["round"], max(trainings, default=0)))
    attempts = context.read("trajectories", ["trajectory_id", "purpose"])
    trials = attempts["trajectory_id"].filter(pc.equal(attempts["purpose"], Purpose.TRIAL.value))
    return len(set(judged["trajectory_id"].filter(new).to_pylist()).difference(trials.to_pylist()))
