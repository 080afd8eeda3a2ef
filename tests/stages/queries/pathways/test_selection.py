"""Which pathways need a selection: by trying both ways, and by a model."""

from __future__ import annotations

import asyncio
import json

from tests.stages.models.scripted import ScriptedModel
from tests.stages.queries.pathways.toy import PROGRAM, ToyFactory
from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.pathway import Pathway
from trajmill.stages.graphs.explore.deny_list import packaged_deny_list
from trajmill.stages.models.base import ChatRequest
from trajmill.stages.models.prompts import PromptedModel
from trajmill.stages.queries.pathways.programs import WalkBounds
from trajmill.stages.queries.pathways.search import deep_search, needs_by_model, needs_by_tree, selection_prompt

BOUNDS = WalkBounds(seconds=20, seconds_per_step=0.2)


def found(origin: Origin) -> tuple[Pathway, ...]:
    return asyncio.run(deep_search(ToyFactory(), PROGRAM, BOUNDS, packaged_deny_list(), origin)).pathways


def needing(pathways: tuple[Pathway, ...]) -> set[str]:
    return {pathway.steps[-1].name for pathway in pathways if pathway.needs_selection}


def test_what_is_disabled_without_a_selection_and_enabled_with_one_needs_it(origin: Origin) -> None:
    told = asyncio.run(needs_by_tree(ToyFactory(), PROGRAM, found(origin), BOUNDS, origin))
    assert needing(told.pathways) == {"Copy", "To Red"}
    assert {pathway.selection_by for pathway in told.pathways} == {"tree"}
    assert not told.failures


def test_a_program_without_anything_to_select_is_left_open(origin: Origin) -> None:
    program = PROGRAM.model_copy(update={"selecting": ()})
    told = asyncio.run(needs_by_tree(ToyFactory(), program, found(origin), BOUNDS, origin))
    assert {pathway.needs_selection for pathway in told.pathways} == {None}


def test_a_model_is_asked_only_where_the_tree_shows_nothing_and_may_fail(origin: Origin) -> None:
    def answer(request: ChatRequest) -> str | ModelFailure:
        question = str(request.messages[1].parts[0])
        if "Colours" in question or "Sizes" in question:
            return ModelFailure("no answer")
        return json.dumps({"why": "it works on an object", "needs_selection": "To Blue" in question})

    model = ScriptedModel(answer)
    shown = asyncio.run(needs_by_tree(ToyFactory(), PROGRAM, found(origin), BOUNDS, origin)).pathways
    told = asyncio.run(needs_by_model(PromptedModel(model, selection_prompt()), PROGRAM, shown, origin))
    assert needing(told.pathways) == {"Copy", "To Red", "To Blue"}
    assert {p.steps[-1].name: p.selection_by for p in told.pathways}["To Blue"] == f"writer_selection-1@{model.version}"
    assert len(told.failures) == 1 and len(told.pathways) == len(shown)
    assert not any("Copy" in str(request.messages[1].parts[0]) for request in model.asked)
