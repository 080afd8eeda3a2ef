"""Queries from pathways: words, splits, goals, and that they are really walked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest

from tests.stages.models.scripted import ScriptedModel
from tests.stages.queries.pathways.toy import PROGRAM, Toy, ToyFactory
from tests.stages.queries.samples import made_by, passes
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.pathway import EndKind, Pathway
from trajmill.schemas.tables.query import PathStep, Platform, Query, Source, Split
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.stages.agents.reference import ReferenceAgent
from trajmill.stages.environments.kinds import FaultRates, SimulatedSpec
from trajmill.stages.environments.simulated.environment import SimulatedFactory
from trajmill.stages.environments.simulated.world import World
from trajmill.stages.models.base import ChatRequest
from trajmill.stages.queries.base import GrammarWriter, NewQueries, SourceContext, UnseenApps, WalkQueries
from trajmill.stages.queries.generate import QuerySet
from trajmill.stages.queries.leaks import leaks_in_queries
from trajmill.stages.queries.model_writer import ModelWriter
from trajmill.stages.queries.pathways.programs import PathwayProgram, WalkBounds, WalkResult
from trajmill.stages.queries.pathways.search import collect_pathways
from trajmill.stages.queries.pathways.source import PathwaySettings, PathwaySource
from trajmill.stages.queries.walk import walk_all
from trajmill.stages.rollout.base import Attempt, FinishedAttempt, Limits
from trajmill.stages.rollout.worker import run_attempts

BOUNDS = WalkBounds(seconds=20, seconds_per_step=0.2)
HALF = PathwaySettings(heldout_slots=0.25, heldout_phrasings=0.25)


@pytest.fixture(scope="module")
def toy_origin() -> Origin:
    return Origin(round=1, run_id="run", code_version="code")


@pytest.fixture(scope="module")
def toy(toy_origin: Origin) -> WalkResult:
    return asyncio.run(collect_pathways(ToyFactory(), PROGRAM, BOUNDS, toy_origin))


def made_of(
    toy: WalkResult,
    origin: Origin,
    settings: PathwaySettings = HALF,
    unseen: UnseenApps = UnseenApps(),
    walk: WalkQueries = passes,
) -> NewQueries:
    return made_by(PathwaySource(toy.pathways, [PROGRAM], settings), walk, origin, unseen, 3)


def ends(queries: Sequence[Query]) -> set[str]:
    return {query.slots[0].value for query in queries}


def pathway(toy: WalkResult, *names: str) -> Pathway:
    return next(each for each in toy.pathways if tuple(step.name for step in each.steps) == names)


def test_every_query_is_walked_and_meets_its_goal(toy: WalkResult, toy_origin: Origin) -> None:
    made = made_of(toy, toy_origin, walk=lambda drafts: walk_all(ToyFactory(), drafts, toy_origin, 2))
    assert {query.validation for query in made.queries} == {"passed"}
    assert {"Open", "Sizes", "Convert", "To Red", "Copy"} <= ends(made.queries)
    assert {query.source for query in made.queries} == {Source.PATHWAY}
    assert made.failures == ()


def test_what_is_denied_or_cannot_be_reached_is_not_asked_for(toy: WalkResult, toy_origin: Origin) -> None:
    assert {"Quit", "Print", "Paste"}.isdisjoint(ends(made_of(toy, toy_origin).queries))


def test_splits_share_neither_goals_nor_words(toy: WalkResult, toy_origin: Origin) -> None:
    queries = made_of(toy, toy_origin).queries
    assert {query.split for query in queries} == set(Split) - {Split.HELDOUT_APPS}
    assert leaks_in_queries(queries, ()) == ()
    marked = [query.phrasing.split("/")[1].startswith("h") for query in queries]
    assert marked == [query.split is Split.HELDOUT_PHRASINGS for query in queries]


def test_dialogs_and_tabs_come_before_entries_where_queries_are_few(toy: WalkResult, toy_origin: Origin) -> None:
    queries = made_of(toy, toy_origin, PathwaySettings(most=2)).queries
    assert {query.task.partition(".")[2] for query in queries} == {EndKind.DIALOG, EndKind.TAB}


def test_a_selection_that_is_needed_is_asked_for_and_made(toy: WalkResult, toy_origin: Origin) -> None:
    (query,) = [each for each in made_of(toy, toy_origin).queries if each.slots[0].value == "To Red"]
    assert PROGRAM.selection in query.instruction
    assert query.path[0] == PROGRAM.selecting[0]
    without = query.model_copy(update={"path": query.path[1:]})
    (failure,) = asyncio.run(walk_all(ToyFactory(), [without], toy_origin)).failures
    assert "does not meet the goal check" in failure.message


def test_a_path_that_is_lost_and_a_goal_that_is_met_at_once_are_refused(toy: WalkResult, toy_origin: Origin) -> None:
    query = next(each for each in made_of(toy, toy_origin).queries if each.slots[0].value == "Open")
    nowhere = PathStep(page="toy.start", operation="tap", target="toy/menu:Nothing")
    lost = query.model_copy(update={"query_id": "1057", "path": (nowhere,), "max_steps": 40})
    shown = {"showing": [{"role": "menu", "text": "File"}]}
    met = query.model_copy(update={"query_id": "3e7", "goal": json.dumps(shown)})
    told = [failure.message for failure in asyncio.run(walk_all(ToyFactory(), [lost, met], toy_origin)).failures]
    assert ["lost" in told[0], "before anything was done" in told[1]] == [True, True]


def test_a_path_that_is_lost_once_is_walked_again(toy: WalkResult, toy_origin: Origin) -> None:
    query = next(each for each in made_of(toy, toy_origin).queries if each.slots[0].value == "Open")
    walked = asyncio.run(walk_all(SlowOnceFactory(looks_until_shown=60), [query], toy_origin))
    assert [each.query_id for each in walked.queries] == [query.query_id]


class SlowOnce(Toy):
    """Shows in its first episode nothing that could be pressed."""

    async def reset(self, query: Query, seed: int) -> Observation:
        observation = await super().reset(query, seed)
        self.looks_until_shown = 0
        return observation


class SlowOnceFactory(ToyFactory):
    async def __call__(self) -> Toy:
        return SlowOnce(self.log, looks_until_shown=self.looks_until_shown)


def test_pathways_of_the_simulated_desktop_become_queries_that_the_reference_agent_solves(
    world: World, origin: Origin
) -> None:
    steps = [PathStep(page="files.start", operation="double_tap", target="launcher/files")]
    program = PathwayProgram(
        name="files",
        title="the file manager",
        platform=Platform.DESKTOP,
        start_state="{}",
        opening=tuple(steps),
        presses_commands=True,
    )
    factory = SimulatedFactory(world, Platform.DESKTOP, FaultRates(popup=0.0))
    collected = asyncio.run(collect_pathways(factory, program, BOUNDS, origin))
    kinds = {each.end_kind for each in collected.pathways}
    assert {EndKind.MENU, EndKind.DIALOG, EndKind.PAGE} <= kinds
    source = PathwaySource(collected.pathways, [program])
    made = made_by(source, lambda drafts: walk_all(factory, drafts, origin), origin, seed=1)
    rewards = roll_out(made.queries, factory, origin)
    assert len(rewards) >= 5 and set(rewards) == {1.0}


def roll_out(queries: Sequence[Query], factory: SimulatedFactory, origin: Origin) -> list[float | None]:
    rewards: list[float | None] = []

    async def record(rollout: FinishedAttempt) -> None:
        rewards.append(rollout.episode.trajectory.reward)

    attempts = [Attempt(query, Purpose.REFERENCE, 0, 0) for query in queries]
    asyncio.run(run_attempts(attempts, ReferenceAgent, factory, Limits(), origin, record, 2))
    return rewards


def wish(request: ChatRequest) -> str:
    """Says the wish of the prompt, as a question where the style is one; of one program nothing that fits."""
    text = "\n".join(str(part) for message in request.messages for part in message.parts)
    task = text.rpartition("\nTask: ")[2].partition("\n")[0].strip().rstrip(".")
    asks = "ends with a question mark" in text or ("a question" in text and "not a question" not in text)
    said = "Do something nice" if "Sizes" in task else task
    return json.dumps({"instruction": f"Could you do this: {said}?" if asks else f"{said}."})


def test_a_model_words_queries_and_the_grammar_those_that_it_does_not(toy: WalkResult, toy_origin: Origin) -> None:
    async def made() -> NewQueries:
        queries = QuerySet([ModelWriter(ScriptedModel(wish)), GrammarWriter()], toy_origin)
        context = SourceContext(SimulatedSpec(), UnseenApps(), 0, toy_origin)
        await queries.take(await PathwaySource(toy.pathways, [PROGRAM]).candidates(context), passes)
        return queries.without_leaks(())

    found = asyncio.run(made())
    written = [query for query in found.queries if query.made_by.startswith("writer_synthesise")]
    assert written and all(query.slots[0].value in query.instruction for query in written)
    by_grammar = [query.slots[0].value for query in found.queries if query not in written]
    assert by_grammar == ["Sizes"] and any("is lost" in failure.message for failure in found.failures)
