"""Walks the programs of a configuration for their pathways."""

from __future__ import annotations

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.judges import prompts_of
from trajmill.flows.configuration.model_specs import model_of
from trajmill.flows.stage import RoundContext, StageOutcome, once
from trajmill.pipelines.pathways import WalkPrograms, walk_programs
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.tables.pathway import Pathway
from trajmill.stages.environments.kinds import DesktopSpec
from trajmill.stages.queries.pathways.programs import (
    STAGE,
    PathwayProgram,
    WalkBounds,
    packaged_programs,
    read_programs,
)
from trajmill.warehouse.layout import StageRun
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.staging import forget

PATHWAYS = STAGE


def programs_of(config: Config) -> tuple[PathwayProgram, ...]:
    """Read the programs that a configuration names.

    Raises:
        BadInputError: a file of programs is needed and not named, is no list of programs, or lacks a program.
    """
    settings = config.pathways
    if settings.file is None and not isinstance(config.environment, DesktopSpec):
        raise BadInputError("pathways.file is missing: name a YAML file of the programs to walk (see environments.md)")
    return read_programs(settings.file or packaged_programs(), settings.programs)


@once(PATHWAYS)
def pathways(context: RoundContext, at: StageRun) -> StageOutcome:
    """Walk each program once. Raises TrajmillError if no program has a pathway; the next call walks them again."""
    config, settings = context.config, context.config.pathways
    job = WalkPrograms(
        warehouse=context.warehouse,
        at=at,
        origin=context.origin,
        environment=context.environment,
        bounds=WalkBounds(
            depth=settings.depth, breadth=settings.breadth, steps=settings.steps, seconds=settings.seconds
        ),
        second_opinion=model_of(config, settings.second_opinion) if settings.second_opinion else None,
        selection=prompts_of(config).selection,
    )
    made = walk_programs(job, programs_of(config), context.beam)
    found = made.rows("pathways")
    if not found:
        # The cause, e.g. a missing package, may be solved at the next call.
        forget(context.warehouse, at.staging(context.warehouse))
        raise TrajmillError(f"no pathway was found: {' '.join(next(iter(made.dropped)).split())}")
    return StageOutcome(found + sum(made.dropped.values()), found, made.files)


def found_pathways(context: RoundContext) -> list[Pathway]:
    """Return the pathways of the round, by id; the programs are walked first if they were not."""
    pathways(context)
    found = read_rows(context.warehouse, Pathway, rounds=[context.round], run_id=context.run_id)
    return sorted(found, key=lambda pathway: pathway.pathway_id)
