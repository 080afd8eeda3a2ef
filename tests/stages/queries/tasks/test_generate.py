from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.stages.queries.samples import chosen, drafted
from trajmill.schemas.errors import BadInputError, EnvironmentFailure, FailureClass
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.environments.kinds import FaultRates
from trajmill.stages.environments.simulated.app_files.app_spec import AppSpec
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.world import TaskGraph, World
from trajmill.stages.queries.base import Candidate, GrammarWriter, NewQueries, Written
from trajmill.stages.queries.leaks import leaks_in_queries
from trajmill.stages.queries.spec import GraphQueriesSpec
from trajmill.stages.queries.tasks.source import generate_queries
from trajmill.stages.queries.walk import walk

HELDOUT_APPS = ("notes", "clock")
SETTINGS = GraphQueriesSpec(
    train=150, heldout_slots=30, heldout_phrasings=30, heldout_apps=20, heldout_app_names=HELDOUT_APPS, validation=24
)


@pytest.fixture(scope="module")
def generated(world: World, origin: Origin) -> NewQueries:
    return _generate(world, origin, seed=1)


@pytest.fixture(scope="module")
def of_another_seed(world: World, origin: Origin) -> NewQueries:
    return _generate(world, origin, seed=2)


def _generate(world: World, origin: Origin, seed: int, settings: GraphQueriesSpec = SETTINGS) -> NewQueries:
    return asyncio.run(generate_queries(world, settings, seed, origin))


def _only(world: World, app: AppSpec) -> World:
    return World({app.app: app}, {})


@pytest.mark.slow
def test_every_split_has_its_queries_and_nothing_was_dropped(generated: NewQueries) -> None:
    assert Counter(query.split for query in generated.queries) == {split: SETTINGS.wanted(split) for split in Split}
    assert generated.failures == ()


@pytest.mark.slow
def test_nothing_held_out_is_in_training(generated: NewQueries, of_another_seed: NewQueries) -> None:
    for queries in (generated.queries, of_another_seed.queries):
        assert leaks_in_queries(queries, HELDOUT_APPS) == ()
        goals = {split: {query.goal_key() for query in queries if query.split is split} for split in Split}
        assert sum(map(len, goals.values())) == len(set.union(*goals.values()))


def test_the_queries_of_the_grammar_do_not_change(generated: NewQueries) -> None:
    assert content_id([query.query_id for query in generated.queries]) == "e7a0fd449ad15e66a03b1ddc"


class _LastFirst(GrammarWriter):
    """Answers as a busy server does: not in the order in which it was asked."""

    def __init__(self) -> None:
        self.at_once = self.most_at_once = 0

    async def write(self, candidate: Candidate) -> Written:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        for _ in range(candidate.seed % 7):
            await asyncio.sleep(0)
        self.at_once -= 1
        return await super().write(candidate)


@pytest.mark.slow
@pytest.mark.parametrize("in_flight", [64])
def test_how_many_drafts_are_in_flight_changes_nothing(
    world: World, origin: Origin, generated: NewQueries, in_flight: int
) -> None:
    writer = _LastFirst()
    made = asyncio.run(generate_queries(world, SETTINGS, 1, origin, [writer], in_flight=in_flight))
    assert made == generated
    assert in_flight // 2 < writer.most_at_once <= in_flight


def test_heldout_phrasings_are_marked_and_others_are_not(generated: NewQueries) -> None:
    for query in generated.queries:
        template = query.phrasing.split(" ")[0].rpartition("/")[2]
        if query.split is Split.HELDOUT_PHRASINGS:
            assert template.startswith("h")
        elif query.split is not Split.HELDOUT_APPS:
            assert "/h" not in query.phrasing
        assert query.phrasing.startswith(query.task)


def test_half_of_the_validation_queries_are_of_an_app_that_no_other_split_has(generated: NewQueries) -> None:
    assert SETTINGS.validation_app_names == ("rides",)
    of_app = [query.split for query in generated.queries if "rides" in query.apps]
    assert of_app == [Split.VALIDATION] * 12


def test_validation_needs_no_app_of_its_own(world: World, origin: Origin) -> None:
    spared = GraphQueriesSpec(train=12, heldout_slots=0, heldout_phrasings=0, heldout_app_names=(), validation=6)
    clock = _only(world, world.apps["clock"])
    made = _generate(clock, origin, 1, spared)
    assert Counter(query.split for query in made.queries) == {Split.TRAIN: 12, Split.VALIDATION: 6}
    assert leaks_in_queries(made.queries, spared.unseen_app_names) == ()
    with pytest.raises(BadInputError, match=r"validation_app_names: there is no app 'cluck'; did you mean clock\?"):
        _generate(clock, origin, 1, spared.model_validate(spared.model_dump() | {"validation_app_names": ("cluck",)}))


@pytest.mark.slow
def test_an_app_whose_path_is_broken_is_dropped_with_the_reason(world: World, origin: Origin) -> None:
    bites = world.apps["bites"]
    checkout = bites.screens["checkout"]
    idle = tuple(w.model_copy(update={"do": ()}) if w.id == "order" else w for w in checkout.widgets)
    screens = {**bites.screens, "checkout": checkout.model_copy(update={"widgets": idle})}
    broken = bites.model_copy(update={"screens": screens, "tasks": {"order": bites.tasks["order"]}})
    generated = _generate(
        _only(world, broken), origin, 1, GraphQueriesSpec(train=5, heldout_app_names=(), validation=0)
    )
    assert generated.queries == ()
    first = generated.failures[0]
    assert (first.stage, first.failure_class) == ("generate", FailureClass.TASK)
    assert first.message.startswith("bites.order: the reference path does not meet the goal check (")


def test_too_few_goals_are_said_and_not_hidden(world: World, origin: Origin) -> None:
    bites = world.apps["bites"]
    small = bites.model_copy(update={"tasks": {"cutlery": bites.tasks["cutlery"]}})
    settings = GraphQueriesSpec(train=1000, heldout_slots=1, heldout_phrasings=0, heldout_app_names=(), validation=0)
    generated = _generate(_only(world, small), origin, 1, settings)
    assert 0 < len(generated.queries) < 1000
    messages = [failure.message for failure in generated.failures]
    assert messages == [
        f"only {len(generated.queries)} of 1000 queries: there are no more goals",
        "only 0 of 1 queries: there are no more goals",
    ]


@pytest.fixture
def query(order: TaskGraph, origin: Origin) -> Query:
    asked = chosen(order, dish="Udon Soup", quantity=3, note="no onions")
    return drafted(asked, origin, 1)


def _walk(world: World, query: Query, **changes: object) -> str:
    environment = SimulatedEnvironment(world, query.platform, FaultRates(popup=0.0))
    return asyncio.run(walk(environment, query.model_copy(update=changes))) or "passed"


def test_a_walk_says_why_a_path_is_refused(world: World, query: Query) -> None:
    assert _walk(world, query) == "passed"
    plus = next(number for number, step in enumerate(query.path) if step.target == "bites.dish/quantity/+")
    missed = _walk(world, query, path=(*query.path[:plus], *query.path[plus + 1 :]))
    assert missed.startswith("the reference path does not meet the goal check (`bites.orders` is [{")
    assert '"quantity": 2' in missed.partition(" not [")[0] and '"quantity": 3' in missed.partition(" not [")[2]
    at = next(n for n, step in enumerate(query.path) if step.target == "bites.menu/dishes/Udon Soup")
    gone = query.path[at].model_copy(update={"target": "bites.menu/dishes/Roast Duck"})
    lost = _walk(world, query, path=(*query.path[:at], gone, *query.path[at + 1 :]))
    assert lost == "the reference path is lost on bites.menu: cannot tap bites.menu/dishes/Roast Duck"
    assert _walk(world, query, max_steps=5) == "the reference path is not done after 5 steps"
    assert _walk(world, query, goal="{}") == "there is no goal check"


def test_a_start_state_that_is_nonsense_is_refused(world: World, query: Query) -> None:
    with pytest.raises(EnvironmentFailure):
        _walk(world, query, start_state='{"setup": {"nowhere.at_all": {}}}')
