"""Generate the run's queries, all splits at once, before anything is trained."""

from __future__ import annotations

import asyncio

from flows.context import RoundContext
from flows.once import Outcome, StageReport, once
from flows.policy import is_served
from pipelines.resources import world_of
from schemas.errors import TrajmillError
from schemas.failure import Failure
from schemas.query import Query, Split
from schemas.tables import rows_to_arrow
from stages.models.embedded.storage import save_network, untrained_network
from stages.queries.generate import GenerationSettings, generate_queries
from stages.queries.grammar import GrammarWriter
from stages.queries.validation import SimulatedValidator
from warehouse.layout import StageRun
from warehouse.shards import write_shard

GENERATE = "generate"


def generate(context: RoundContext) -> StageReport:
    """Queries from the navigation DAGs (or MiniWoB++ seeds), validated, and the untrained policy."""
    first = context.in_round(1)

    def work(at: StageRun, key: str) -> Outcome:
        made = _from_miniwob(first) if first.config.run.environment == "miniwob" else _from_dags(first)
        queries, failures = made
        if not any(query.split is Split.TRAIN for query in queries):
            raise TrajmillError(f"no query to learn on could be made{_first(failures)}")
        files = {
            "queries": [write_shard(first.warehouse, "queries", at, 0, rows_to_arrow("queries", queries))],
            "failures": [write_shard(first.warehouse, "failures", at, 0, rows_to_arrow("failures", failures))],
        }
        return Outcome(len(queries) + len(failures), len(queries), files, {"first_policy": _first_policy(first, at)})

    return once(first, GENERATE, work)


def _from_dags(context: RoundContext) -> tuple[list[Query], list[Failure]]:
    settings = context.config.queries
    wanted = GenerationSettings(
        train=settings.train,
        heldout_slots=settings.heldout_slots,
        heldout_phrasings=settings.heldout_phrasings,
        heldout_apps=settings.heldout_apps,
        heldout_app_names=settings.heldout_app_names,
    )
    world = world_of(settings.apps)
    making = generate_queries(
        world, wanted, context.config.run.seed, context.origin, GrammarWriter(), SimulatedValidator(world)
    )
    made = asyncio.run(making)
    return list(made.queries), list(made.failures)


def _from_miniwob(context: RoundContext) -> tuple[list[Query], list[Failure]]:
    from stages.environments.miniwob.pages import refuse_unknown_pages

    settings = context.config.miniwob
    refuse_unknown_pages(settings.tasks, "miniwob.tasks")
    from stages.environments.miniwob.suite import SuiteSize, import_queries

    size = SuiteSize(settings.train_seeds, settings.heldout_seeds)
    made = asyncio.run(import_queries(settings.tasks, size, context.config.run.seed, context.origin))
    return made.queries, made.failures


def _first(failures: list[Failure]) -> str:
    """Why it went wrong, as far as one line can say it."""
    if not failures:
        return "; raise queries.train"
    return f": {len(failures)} failures, the first of {failures[0].input_id}: {' '.join(failures[0].message.split())}"


def _first_policy(context: RoundContext, at: StageRun) -> str:
    """Version of the policy that the run starts with: the untrained network, or the model that is served."""
    if is_served(context):
        return context.config.endpoints[context.config.models.policy].model
    network = untrained_network(context.config.run.seed)
    fresh = at.staging(context.warehouse) / "untrained"
    version = save_network(network, fresh)
    folder = context.warehouse.model(version)
    if not folder.exists():
        fresh.rename(folder)
    return version
