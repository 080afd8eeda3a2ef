"""Generates the queries of all splits before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence

from trajmill.flows.configuration.sections import EMBEDDED
from trajmill.flows.context import RoundContext
from trajmill.flows.policies.policy import Policy, PolicyRow, configured_policy, is_embedded, policy_row
from trajmill.flows.stage import StageOutcome, StageReport, StageResult, run_once
from trajmill.flows.tasks.queries.sources import new_queries
from trajmill.schemas.errors import TrajmillError
from trajmill.schemas.record import Row
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.query import Split
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.shards import write_tables
from trajmill.warehouse.weights import keep_weights

GENERATE = "generate"


class Generated(StageResult):
    """The result of the stage."""

    first_policy: PolicyRow
    """The policy that the run starts with."""


def generate(context: RoundContext) -> StageReport:
    """Make the validated queries of the run, and the policy that it starts with."""
    first = context.in_round(1)

    def work(at: StageRun) -> StageOutcome:
        made = new_queries(first)
        if not any(query.split is Split.TRAIN for query in made.queries):
            raise TrajmillError(f"no query to learn on could be made{_first_failure(made.failures)}")
        rows: dict[str, Sequence[Row]] = {
            "queries": made.queries,
            "failures": made.failures,
            "model_calls": made.model_calls,
        }
        files = write_tables(first.warehouse, at, rows)
        rows_in = len(made.queries) + len(made.failures)
        generated = Generated(first_policy=policy_row(first.warehouse, _first_policy(first, at)))
        return StageOutcome(rows_in, len(made.queries), files, generated.as_json())

    return run_once(first, GENERATE, work)


def _first_failure(failures: Sequence[Failure]) -> str:
    """The first failure in one line, or advice if there is none."""
    if not failures:
        return "; raise queries.train"
    return f": {len(failures)} failures, the first of {failures[0].input_id}: {' '.join(failures[0].message.split())}"


def _first_policy(context: RoundContext, at: StageRun) -> Policy:
    """The policy that the run starts with: the model that the configuration names, or the untrained network."""
    return untrained_policy(context, at) if is_embedded(context.config) else configured_policy(context.config)


def untrained_policy(context: RoundContext, at: StageRun) -> Policy:
    """The embedded policy before any training; its folder is made if it is not there."""
    # Imports torch, which a server of environments does not need.
    from trajmill.stages.models.embedded.model import save_network, untrained_network

    network = untrained_network(context.config.run.seed)
    fresh = at.staging(context.warehouse) / "untrained"
    version = save_network(network, fresh)
    folder = context.warehouse.model(version)
    keep_weights(context.warehouse, fresh, folder)
    return Policy(version, EMBEDDED, folder)
