"""Compares two policy versions of a run, or models that are none, for `trajmill compare`."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from trajmill.flows.configuration.config import Config
from trajmill.flows.policies import policy as policies
from trajmill.flows.report.comparison import Comparison, compare_measured, measured_policies, write_comparison
from trajmill.flows.report.figures import run_views
from trajmill.flows.round import watched
from trajmill.flows.serving.models_ready import working_on
from trajmill.flows.stage import RoundContext, StageOutcome, report_of, run_once
from trajmill.flows.tasks.rollout import attempt_all
from trajmill.flows.tasks.train import measured_queries
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.names import instead_of
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.rollout.base import plan_once
from trajmill.warehouse.layout import StageRun, open_warehouse


class Compared(NamedTuple):
    comparison: Comparison
    folder: Path


def compare_policies(config: Config, a: str, b: str, out: Path | None = None) -> Compared:
    """Compare two policies, each the name of an `[endpoints.NAME]` or a version of the run, or a part of one.

    A version has its stored evaluations; a model that is no version attempts the measured queries once, greedily, with
    their seeds. Raises BadInputError (a name is unknown, both are one, or nothing was scored by both), RunInUseError.
    """
    context = RoundContext(config, open_warehouse(config.run.root), 0)
    if report_of(context, policies.BASELINE) is None:
        raise BadInputError(f"run {context.run_id} has no queries yet; `trajmill evolve` begins with them")
    with run_views(context.warehouse, context.run_id) as views:
        measured = [policy for policy, _ in measured_policies(views)]
    one, other = (_version(context, name, measured) for name in (a, b))
    if one == other:
        raise BadInputError(f"{a!r} and {b!r} are both {one}; name two policies")
    for name, version in ((a, one), (b, other)):
        if version not in measured:
            _measure(context, name, version)
    with run_views(context.warehouse, context.run_id) as views:
        comparison = compare_measured(views, one, other)
    if not comparison.queries:
        raise BadInputError(f"{one} and {other} have no query that was scored for both; see `trajmill view`")
    names = "-".join(re.sub(r"[^\w.]+", "-", version)[-40:].strip("-.") for version in (one, other))
    folder = out or context.warehouse.run(context.run_id) / f"compare-{names}"
    for path in write_comparison(comparison, folder):
        if out is None:
            context.warehouse.store.publish(context.warehouse.name(path))
    return Compared(comparison, folder)


def _version(context: RoundContext, name: str, measured: list[str]) -> str:
    if name in context.config.endpoints:
        return context.config.endpoints[name].version
    found = [version for version in measured if version == name]
    found = found or [version for version in measured if name in version]
    if len(found) == 1:
        return found[0]
    if found:
        raise BadInputError(f"{name!r} may be {' or '.join(found)}; give more of it")
    known = [*context.config.endpoints, *measured]
    raise BadInputError(
        f"{name!r} is no endpoint and no measured policy of {context.run_id}; {instead_of(name, known)}"
    )


def _measure(context: RoundContext, name: str, version: str) -> None:
    """Let the model of an endpoint attempt the measured queries, once in the run; no figure of the run counts it."""
    config = context.config
    models = config.models.model_copy(update={"policy": name})
    acting = replace(context, config=config.model_copy(update={"models": models}))

    def work(at: StageRun) -> StageOutcome:
        policy = policies.configured_policy(acting)
        agent = policies.acting(acting, policy, temperature=0.0, untrained=False)
        attempts = plan_once(measured_queries(context), Purpose.COMPARE, config.run.seed, 0)
        return attempt_all(acting, at, attempts, agent)

    stage = f"{Purpose.COMPARE}-{content_id(version)[:12]}"
    with working_on(context, {name, *config.agent.endpoint_roles().values()}), watched(context, stage):
        run_once(acting, stage, work)
