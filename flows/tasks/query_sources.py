"""Where the queries of a run come from: each environment has its own source."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from trajmill.flows.configuration.model_specs import model_of
from trajmill.flows.configuration.models import EMBEDDED
from trajmill.flows.configuration.prompts import prompts_of
from trajmill.flows.context import RoundContext
from trajmill.flows.tasks.pathways import queries_by_pathways
from trajmill.pipelines.atomic import queries_for_operations
from trajmill.pipelines.generate import ModelPen, NewQueries, queries_from_dags
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query
from trajmill.stages.environments.imported import SuiteSize
from trajmill.stages.queries.atomic.base import AtomicApp
from trajmill.stages.queries.atomic.queries import AtomicCounts
from trajmill.stages.queries.graph.generate import GenerationSettings


def new_queries(context: RoundContext) -> NewQueries:
    """The queries of all splits: the environment's own, then those by pathways and for operations that are asked for.

    Raises:
        BadInputError: a file of tasks or programs, an app or a page is wrong or missing.
    """
    made = _own_queries(context)
    if context.config.pathways.queries:
        made = made.with_more(queries_by_pathways(context))
    if context.config.atomic.wanted:
        made = made.with_more(_for_operations(context))
    return made


def _own_queries(context: RoundContext) -> NewQueries:
    match context.config.run.environment:
        case "simulated" | "webapp":
            return _from_dags(context)
        case "miniwob":
            return _from_miniwob(context)
        case "browsergym":
            return _from_browsergym(context)
        case "browser":
            from trajmill.stages.environments.browser.task.task_file import read_task_file

            return _from_tasks("browser.tasks", context.config.browser.tasks, read_task_file, context)
        case "android":
            from trajmill.stages.environments.android.task.task_file import read_task_file as read_phone_tasks

            return _from_tasks("android.tasks", context.config.android.tasks, read_phone_tasks, context)
        case "desktop":
            return _from_osworld_tasks(context)


def _from_dags(context: RoundContext) -> NewQueries:
    settings, writer = context.config.queries, context.config.models.writer
    wanted = GenerationSettings(
        train=settings.train,
        heldout_slots=settings.heldout_slots,
        heldout_phrasings=settings.heldout_phrasings,
        heldout_apps=settings.heldout_apps,
        heldout_app_names=settings.heldout_app_names,
    )
    return queries_from_dags(
        settings.apps,
        wanted,
        context.config.run.seed,
        context.origin,
        None if writer == EMBEDDED else _pen(context, writer),
    )


def _pen(context: RoundContext, endpoint: str) -> ModelPen:
    config = context.config
    return ModelPen(model_of(config, endpoint), prompts_of(config).writer, config.endpoints[endpoint].max_in_flight)


def _from_miniwob(context: RoundContext) -> NewQueries:
    from trajmill.stages.environments.miniwob.page_suites import suite_pages
    from trajmill.stages.environments.miniwob.pages import refuse_unknown_pages

    settings = context.config.miniwob
    pages = settings.tasks or suite_pages(settings.suite)
    refuse_unknown_pages(pages, "miniwob.tasks")
    from trajmill.stages.environments.miniwob.queries import import_queries

    size = SuiteSize(settings.train_seeds, settings.heldout_seeds)
    made = asyncio.run(import_queries(pages, size, context.config.run.seed, context.origin))
    return NewQueries(tuple(made.queries), tuple(made.failures))


def _from_browsergym(context: RoundContext) -> NewQueries:
    from trajmill.stages.environments.browsergym.queries import import_tasks

    settings = context.config.browsergym
    size = SuiteSize(settings.train_seeds, settings.heldout_seeds)
    made = asyncio.run(import_tasks(settings.tasks, size, context.config.run.seed, context.origin))
    return NewQueries(tuple(made.queries), tuple(made.failures))


def _from_tasks(
    key: str, file: Path | None, read: Callable[[Path, Origin], list[Query]], context: RoundContext
) -> NewQueries:
    if file is None and context.config.pathways.queries:
        return NewQueries(())
    if file is None:
        raise BadInputError(f"{key} is missing: name a file with one JSON object in each line")
    return NewQueries(tuple(read(file, context.origin)))


def _from_osworld_tasks(context: RoundContext) -> NewQueries:
    from trajmill.stages.environments.desktop.queries import import_tasks, packaged_tasks

    settings = context.config.desktop
    return NewQueries(tuple(import_tasks(settings.tasks or packaged_tasks(), settings.held_out, context.origin)))


def _for_operations(context: RoundContext) -> NewQueries:
    config = context.config
    wanted = config.atomic
    return queries_for_operations(
        AtomicCounts(
            train=wanted.train, heldout_slots=wanted.heldout_slots, heldout_phrasings=wanted.heldout_phrasings
        ),
        wanted.programs or get_args(AtomicApp),
        config.queries.heldout_app_names,
        context.environment,
        config.rollout.concurrency,
        config.run.seed,
        context.origin,
    )
