"""The command `trajmill judge --again`: judges the stored trajectories of a run again."""

from __future__ import annotations

from trajmill.flows.configuration.config import OWN_JUDGE, Config
from trajmill.flows.configuration.judges import judge_named
from trajmill.flows.context import RoundContext
from trajmill.flows.judging.judge_stored import RejudgeReport, finished_trajectories, judge_stored
from trajmill.flows.serving.models_ready import models_ready
from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.layout import create_warehouse
from trajmill.warehouse.lock import sole_worker
from trajmill.warehouse.views import refresh_views


def rejudge(config: Config, name: str | None, round_number: int | None = None) -> RejudgeReport:
    """Judge all finished trajectories of the run, or of one round, again.

    Args:
        config: the configuration.
        name: a judge of `[judges.NAME]`; None is the run's own.
        round_number: only trajectories of this round; of all if None.

    Raises:
        BadInputError: no such judge, or nothing to judge.
        RunInUseError: another process works on the run.
    """
    judge = judge_named(config, name or OWN_JUDGE)
    warehouse = create_warehouse(config.run.root)
    context = RoundContext(config, warehouse, 0)
    stored = finished_trajectories(context, None if round_number is None else [round_number])
    if not stored:
        where = "" if round_number is None else f" in round {round_number}"
        raise BadInputError(
            f"run {config.run_id} in {warehouse.address} has no finished trajectory{where}; "
            "run `trajmill rollout` first"
        )
    with sole_worker(warehouse, config.run_id), models_ready(config, warehouse.run(config.run_id), judge.endpoints):
        judged = judge_stored(context, judge, stored)
    refresh_views(warehouse)
    return judged
