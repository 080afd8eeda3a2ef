"""The commands of `trajmill policy`: list the versions of a run, add one, and put one in force."""

from __future__ import annotations

from typing import NamedTuple

from trajmill.flows.configuration.config import Config
from trajmill.flows.context import RoundContext
from trajmill.flows.policies.addition import Addition, add_between_rounds, add_policy, awaits_policy, check_addition
from trajmill.flows.policies.choice import promote_by_hand, roll_back
from trajmill.flows.policies.policy import BASELINE, policy_before, policy_versions
from trajmill.flows.round import current_round, run_command
from trajmill.flows.serving.models_ready import models_ready
from trajmill.flows.stage import StageReport, report_of
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.tables.policy_version import PolicyVersion
from trajmill.schemas.tables.query import Split
from trajmill.warehouse.layout import open_warehouse
from trajmill.warehouse.lock import sole_worker
from trajmill.warehouse.views import refresh_views


class ListedPolicy(NamedTuple):
    """One version of a run."""

    row: PolicyVersion
    in_force: bool

    @property
    def validation(self) -> str:
        """Its success on the validation queries, e.g. `61/80`; empty if it was not measured."""
        of_split = (each for each in self.row.success if each.split == Split.VALIDATION)
        return next((f"{each.successes}/{each.queries}" for each in of_split), "")


def list_policies(config: Config) -> list[ListedPolicy]:
    """All versions of the run, oldest first, each with the newest decision about it.

    Raises:
        BadInputError: there is no warehouse, or the run has measured no policy yet.
    """
    context = _measured_run(config)
    in_force = policy_before(context).version
    return [ListedPolicy(row, version == in_force) for version, row in policy_versions(context).items()]


def add_and_evaluate(config: Config, added: Addition) -> StageReport:
    """Add a version to the round that waits for one, or between two rounds; measure it and decide on its promotion.

    Returns:
        That decision, or what its evaluation waits for.

    Raises:
        BadInputError: a round is under way, the model, the adapter or the release does not exist, or the version has
            been measured before.
        RunInUseError: another process works on the run.
    """
    context = _measured_run(config)
    check_addition(config, added)
    with sole_worker(context.warehouse, context.run_id), models_ready(config, context.warehouse.run(context.run_id)):
        if awaits_policy(context):
            add_policy(context, added)
            return run_command("evaluate", context)
        report = add_between_rounds(context, added)
        refresh_views(context.warehouse)
        return report


def promote_policy(config: Config, version: str) -> StageReport:
    """Put a version in force.

    Raises:
        BadInputError: the run has no such version, it is in force already, or a rollout has begun and is not finished.
        RunInUseError: another process works on the run.
    """
    context = _measured_run(config)
    with sole_worker(context.warehouse, context.run_id):
        report = promote_by_hand(context, version)
    refresh_views(context.warehouse)
    return report


def roll_back_policy(config: Config) -> StageReport:
    """Replace the policy in force by its parent.

    Raises:
        BadInputError: it has no parent, or a rollout has begun and is not finished.
        RunInUseError: another process works on the run.
    """
    context = _measured_run(config)
    with sole_worker(context.warehouse, context.run_id):
        report = roll_back(context)
    refresh_views(context.warehouse)
    return report


def _measured_run(config: Config) -> RoundContext:
    context = RoundContext(config, open_warehouse(config.run.root), 1)
    if report_of(context.in_round(0), BASELINE) is None:
        raise BadInputError(f"run {context.run_id} has no policy yet; `trajmill evolve` begins with one")
    return current_round(config)
