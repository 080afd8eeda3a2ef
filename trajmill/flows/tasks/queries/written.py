"""Queries that a vision-language model writes for documents and for pathways."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from trajmill.flows.configuration.model_specs import model_of
from trajmill.flows.configuration.prompts import prompts_of
from trajmill.flows.context import RoundContext
from trajmill.flows.tasks.pathways import pathways, programs_of
from trajmill.schemas.tables.pathway import Pathway
from trajmill.stages.graphs.explore.deny_list import packaged_deny_list
from trajmill.stages.queries.commands.base import CommandPlace
from trajmill.stages.queries.commands.documents import document_place
from trajmill.stages.queries.commands.generate import CommandRequest, written_commands
from trajmill.stages.queries.commands.pathway_places import pathway_places
from trajmill.stages.queries.new_queries import NewQueries
from trajmill.warehouse.read import read_rows


def commands_for_documents(context: RoundContext) -> NewQueries:
    """Commands on documents that are made for them.

    Raises:
        BadInputError: a package that makes documents is not installed.
    """
    wanted = context.config.atomic
    return _written(
        context, [document_place(kind, context.config.run.seed) for kind in wanted.documents], wanted.written
    )


def commands_for_pathways(context: RoundContext) -> NewQueries:
    """Commands that take a pathway for what is selected; the programs are walked first if they were not."""
    pathways(context)
    found = sorted(
        read_rows(context.warehouse, Pathway, rounds=[context.round], run_id=context.run_id),
        key=lambda pathway: pathway.pathway_id,
    )
    places = pathway_places(programs_of(context.config), found, packaged_deny_list())
    return _written(context, places, context.config.pathways.written)


def _written(context: RoundContext, places: Sequence[CommandPlace], count: int) -> NewQueries:
    config = context.config
    seen = tuple(place for place in places if place.app not in config.queries.unseen_app_names)
    request = CommandRequest(seen, count, config.rollout.concurrency, config.run.seed, prompts_of(config).commands)
    model = model_of(config, config.models.writer)
    return asyncio.run(written_commands(request, context.environment, model, context.origin))
