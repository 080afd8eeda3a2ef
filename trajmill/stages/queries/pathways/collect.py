"""Runs all steps for the pathways of programs: walks, classifies, writes queries and validates them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.pathway import Pathway
from trajmill.schemas.tables.query import Query
from trajmill.stages.environments.base import EnvironmentFactory
from trajmill.stages.graphs.explore.deny_list import packaged_deny_list
from trajmill.stages.models.prompted import PromptedModel
from trajmill.stages.queries.pathways.base import STAGE, PathwayProgram, WalkBounds, WalkTally
from trajmill.stages.queries.pathways.queries import PathwaySettings, pathway_queries
from trajmill.stages.queries.pathways.search import deep_search
from trajmill.stages.queries.pathways.selection import needs_by_model, needs_by_tree
from trajmill.stages.queries.pathways.wording import PathwayGrammar, PathwayWriter
from trajmill.stages.queries.real_walk import walk_all


class CollectedPathways(NamedTuple):
    """The result of the walks over some programs."""

    pathways: tuple[Pathway, ...]
    queries: tuple[Query, ...]
    """Empty before `make_queries`."""
    failures: tuple[Failure, ...]
    screens: dict[str, Observation]
    """By screen id, the screens that the pathways name."""
    tallies: dict[str, WalkTally]
    """By program, what its walk used."""


async def collect_pathways(
    factory: EnvironmentFactory,
    programs: Sequence[PathwayProgram],
    bounds: WalkBounds,
    origin: Origin,
    second_opinion: PromptedModel | None = None,
) -> CollectedPathways:
    """Walk programs one after the other, and find out which pathways need a selection.

    Args:
        factory: makes their environments; it is left open.
        programs: to walk.
        bounds: of the walk over each program.
        origin: common columns of the rows.
        second_opinion: the model to ask if the tree does not show that a selection is needed.
    """
    pathways: list[Pathway] = []
    failures: list[Failure] = []
    screens: dict[str, Observation] = {}
    tallies: dict[str, WalkTally] = {}
    for program in programs:
        walked = await deep_search(factory, program, bounds, packaged_deny_list(), origin)
        classified = await needs_by_tree(factory, program, walked.pathways, bounds, origin)
        failures += [*walked.failures, *classified.failures]
        if second_opinion is not None:
            classified = await needs_by_model(second_opinion, program, classified.pathways, origin)
            failures += classified.failures
        pathways += classified.pathways
        screens |= walked.screens
        tallies[program.name] = walked.tally
    return CollectedPathways(tuple(pathways), (), tuple(failures), screens, tallies)


async def make_queries(
    factory: EnvironmentFactory,
    collected: CollectedPathways,
    programs: Sequence[PathwayProgram],
    settings: PathwaySettings,
    seed: int,
    origin: Origin,
    instances: int = 1,
    writer: PathwayWriter = PathwayGrammar(),
) -> CollectedPathways:
    """Add queries for the collected pathways; each has been walked in the environment and meets its goal.

    Args:
        factory: makes the environments that the queries are walked in; it is left open.
        collected: the result of `collect_pathways`.
        programs: the programs that were walked.
        settings: how many queries, and what is held out.
        seed: decides between phrasings.
        origin: common columns of the rows.
        instances: environments that walk queries at the same time.
        writer: writes the instructions.
    """
    deny_list = packaged_deny_list()
    made = await pathway_queries(collected.pathways, programs, settings, deny_list, writer, seed, origin)
    checked = await walk_all(factory, made.queries, STAGE, origin, instances)
    failures = (*collected.failures, *made.failures, *checked.failures)
    return collected._replace(queries=checked.queries, failures=failures)
