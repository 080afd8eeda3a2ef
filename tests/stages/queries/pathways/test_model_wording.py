"""Queries for pathways in the words of a model; the grammar writes what the model does not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from tests.stages.models.scripted import ScriptedModel
from tests.stages.queries.pathways.toy import PROGRAM, ToyFactory
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Split
from trajmill.stages.environments.simulated.spec import SimulatedSpec
from trajmill.stages.models.base import ChatRequest
from trajmill.stages.queries.base import GrammarWriter, NewQueries, SourceContext, UnseenApps
from trajmill.stages.queries.generate import QuerySet
from trajmill.stages.queries.model_writer import ModelWriter
from trajmill.stages.queries.pathways.programs import WalkBounds, WalkResult
from trajmill.stages.queries.pathways.search import collect_pathways
from trajmill.stages.queries.pathways.source import PathwaySource
from trajmill.stages.queries.walk import walk_all


@pytest.fixture(scope="module")
def toy_origin() -> Origin:
    return Origin(round=1, run_id="run", code_version="code")


@pytest.fixture(scope="module")
def toy(toy_origin: Origin) -> WalkResult:
    bounds = WalkBounds(seconds_per_step=0.2)
    return asyncio.run(collect_pathways(ToyFactory(), PROGRAM, bounds, toy_origin))


def made_by(answer: Callable[[ChatRequest], str], toy: WalkResult, origin: Origin) -> NewQueries:
    async def made() -> NewQueries:
        queries = QuerySet([ModelWriter(ScriptedModel(answer)), GrammarWriter()], origin)
        context = SourceContext(SimulatedSpec(), UnseenApps(), 0, origin)
        offer = await PathwaySource(toy.pathways, [PROGRAM]).candidates(context)
        await queries.take(offer, lambda drafts: walk_all(ToyFactory(), drafts, origin, 2))
        return queries.without_leaks(())

    return asyncio.run(made())


def wish(request: ChatRequest) -> str:
    """Says the wish of the prompt and its values, as a question where the style is one."""
    text = "\n".join(str(part) for message in request.messages for part in message.parts)
    task = text.rpartition("\nTask: ")[2].partition("\n")[0].strip().rstrip(".")
    asks = "ends with a question mark" in text or ("a question" in text and "not a question" not in text)
    return json.dumps({"instruction": f"Could you do this: {task}?" if asks else f"{task}."})


def test_the_model_s_words_are_on_the_queries(toy: WalkResult, toy_origin: Origin) -> None:
    made = made_by(wish, toy, toy_origin)
    written = [query for query in made.queries if query.made_by.startswith("writer_synthesise")]
    trained = [query for query in written if query.split is Split.TRAIN]
    assert trained and all(query.slots[0].value in query.instruction for query in trained)
    assert {query.validation for query in made.queries} == {"passed"}


def test_what_the_model_does_not_say_is_written_by_the_grammar(toy: WalkResult, toy_origin: Origin) -> None:
    made = made_by(lambda request: json.dumps({"instruction": "Do something nice."}), toy, toy_origin)
    assert made.queries and {query.made_by for query in made.queries} == {"pathway-grammar-1"}
    assert any("is lost" in failure.message for failure in made.failures)
