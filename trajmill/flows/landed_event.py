"""Emits a Prefect event after judged trajectories are committed; `trajmill serve` retrains when there are enough."""

from __future__ import annotations

import pyarrow.compute as pc

from trajmill.flows.configuration.config import Config
from trajmill.flows.new_run import run_resource
from trajmill.flows.policies.policy import CHOICE
from trajmill.pipelines.reading.verdicts import read_verdicts
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.warehouse.layout import create_warehouse
from trajmill.warehouse.read import read_table

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
    """Number of trajectories that were judged correct in the rounds after the last training."""
    warehouse = create_warehouse(config.run.root)
    models = read_table(warehouse, "models", ["round", "release", "made_by"], run_id=config.run_id).to_pylist()
    trainings = [row for row in models if row["release"] is not None and not row["made_by"].startswith(CHOICE)]
    trained = max((row["round"] for row in trainings), default=0)
    judged = read_verdicts(warehouse, "judgements", ["trajectory_id", "correct", "round"], run_id=config.run_id)
    new = pc.and_(judged["correct"], pc.greater(judged["round"], trained))
    attempts = read_table(warehouse, "trajectories", ["trajectory_id", "purpose"], run_id=config.run_id)
    trials = attempts["trajectory_id"].filter(pc.equal(attempts["purpose"], Purpose.TRIAL.value))
    return len(set(judged["trajectory_id"].filter(new).to_pylist()).difference(trials.to_pylist()))
