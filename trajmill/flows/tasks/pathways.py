"""Walks the programs of a configuration, and makes queries from the pathways."""

from __future__ import annotations

import asyncio

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.model_specs import model_of
from trajmill.flows.configuration.prompts import prompts_of
from trajmill.flows.context import RoundContext
from trajmill.flows.stage import StageOutcome, StageReport, run_once
from trajmill.flows.tasks.queries.writer import writer_model
from trajmill.pipelines.pathways import WalkPrograms, walk_programs
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.tables.pathway import Pathway
from trajmill.stages.environments.desktop.spec import DesktopSpec
from trajmill.stages.queries.new_queries import NewQueries
from trajmill.stages.queries.pathways.base import STAGE, PathwayProgram, WalkBounds
from trajmill.stages.queries.pathways.programs import packaged_programs, read_programs
from trajmill.stages.queries.pathways.queries import PathwaySettings
from trajmill.stages.queries.pathways.walked_queries import queries_from_pathways
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.shards import write_tables
from trajmill.warehouse.staging import forget

PATHWAYS = STAGE
PATHWAY_QUERIES = "pathway_queries"


def programs_of(config: Config) -> tuple[PathwayProgram, ...]:
    """The programs that a configuration asks for.

    Raises:
        BadInputError: a file of programs is needed and not named, is no list of programs, or lacks a program.
    """
    settings = config.pathways
    if settings.file is None and not isinstance(config.environment, DesktopSpec):
        raise BadInputError("pathways.file is missing: name a YAML file of the programs to walk (see environments.md)")
    return read_programs(settings.file or packaged_programs(), settings.programs)


def pathways(context: RoundContext) -> StageReport:
    """Walk each program once.

    Raises:
        TrajmillError: no program has a pathway; the next call walks them again.
    """

    def work(at: StageRun) -> StageOutcome:
        settings = context.config.pathways
        programs = programs_of(context.config)
        job = WalkPrograms(
            warehouse=context.warehouse,
            at=at,
            origin=context.origin,
            environment=context.environment,
            bounds=WalkBounds(
                depth=settings.depth, breadth=settings.breadth, steps=settings.steps, seconds=settings.seconds
            ),
            second_opinion=model_of(context.config, settings.second_opinion) if settings.second_opinion else None,
            selection=prompts_of(context.config).selection,
        )
        made = walk_programs(job, programs, context.beam)
        found = made.rows("pathways")
        if not found:
            # The cause, e.g. a missing package, may be solved at the next call.
            forget(context.warehouse, at.staging(context.warehouse))
            raise TrajmillError(f"no pathway was found: {' '.join(next(iter(made.dropped)).split())}")
        return StageOutcome(found + sum(made.dropped.values()), found, made.files)

    return run_once(context, PATHWAYS, work)


def queries_by_pathways(context: RoundContext) -> NewQueries:
    """Queries from the pathways of the round; the programs are walked first if they were not."""
    pathways(context)
    config = context.config
    settings = PathwaySettings(most=config.pathways.queries, heldout_programs=config.queries.unseen_app_names)
    found = read_rows(context.warehouse, Pathway, rounds=[context.round], run_id=context.run_id)
    return asyncio.run(
        queries_from_pathways(
            sorted(found, key=lambda pathway: pathway.pathway_id),
            programs_of(config),
            settings,
            context.environment,
            config.rollout.concurrency,
            config.run.seed,
            context.origin,
            writer_model(config),
        )
    )


def pathway_queries(context: RoundContext) -> StageReport:
    """Make queries from pathways only, as a stage of its own."""

    def work(at: StageRun) -> StageOutcome:
        made = queries_by_pathways(context)
        files = write_tables(context.warehouse, at, {"queries": made.queries, "failures": made.failures})
        return StageOutcome(len(made.queries) + len(made.failures), len(made.queries), files)

    return run_once(context, PATHWAY_QUERIES, work)
