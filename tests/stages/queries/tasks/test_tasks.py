import asyncio
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.stages.environments.simulated.worlds import garden
from tests.stages.queries.samples import chosen
from trajmill.schemas.errors import BadInputError, EnvironmentFailure
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.query import Query, Split
from trajmill.stages.environments.kinds import FaultRates, SimulatedSpec
from trajmill.stages.environments.simulated.app_files.app_spec import AppSpec
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.world import TaskGraph, World
from trajmill.stages.queries.base import (
    Candidate,
    FreshRequest,
    GrammarWriter,
    NewQueries,
    SourceContext,
    UnseenApps,
    Written,
    draft,
)
from trajmill.stages.queries.generate import fresh_queries
from trajmill.stages.queries.leaks import HELDOUT_GOALS, leaks_in_queries, share_goals
from trajmill.stages.queries.spec import GraphQueriesSpec
from trajmill.stages.queries.tasks.source import TaskSource, check_app_files, draw_goals, generate_queries
from trajmill.stages.queries.walk import walk

HELDOUT_APPS = ("notes", "clock")
_SIZES = {"train": 60, "heldout_slots": 12, "heldout_phrasings": 12, "heldout_apps": 8, "validation": 8}
SETTINGS = GraphQueriesSpec(**_SIZES, heldout_app_names=HELDOUT_APPS, infeasible=0, answers=0)


@pytest.fixture(scope="module")
def generated(world: World, origin: Origin) -> NewQueries:
    return asyncio.run(generate_queries(world, SETTINGS, 1, origin))


def _only(app: AppSpec) -> World:
    return World({app.app: app}, {})


@pytest.mark.slow
def test_every_split_has_its_queries_and_nothing_held_out_is_in_training(generated: NewQueries) -> None:
    queries = generated.queries
    assert Counter(query.split for query in queries) == {split: SETTINGS.wanted(split) for split in Split}
    assert generated.failures == () and leaks_in_queries(queries, HELDOUT_APPS) == ()
    goals = {split: {query.goal_key() for query in queries if query.split is split} for split in Split}
    assert sum(map(len, goals.values())) == len(set.union(*goals.values()))
    for query in queries:
        if query.split is not Split.HELDOUT_APPS:
            assert ("/h" in query.phrasing) is (query.split is Split.HELDOUT_PHRASINGS), query.phrasing
    # Half of the validation queries are of an app that no other split has.
    assert SETTINGS.validation_app_names == ("rides",)
    assert [query.split for query in queries if "rides" in query.apps] == [Split.VALIDATION] * 4
    # The queries of the grammar do not change.
    assert content_id([query.query_id for query in queries]) == "0c4912b2ba1ca9de322b7c5e"


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
async def test_the_number_in_flight_changes_nothing(world: World, origin: Origin, generated: NewQueries) -> None:
    writer = _LastFirst()
    assert await generate_queries(world, SETTINGS, 1, origin, [writer], in_flight=32) == generated
    assert 16 < writer.most_at_once <= 32


async def test_validation_needs_no_app_of_its_own(world: World, origin: Origin) -> None:
    spared = GraphQueriesSpec(train=12, heldout_slots=0, heldout_phrasings=0, heldout_app_names=(), validation=6)
    clock = _only(world.apps["clock"])
    made = await generate_queries(clock, spared, 1, origin)
    assert Counter(query.split for query in made.queries) == {Split.TRAIN: 12, Split.VALIDATION: 6}
    assert leaks_in_queries(made.queries, spared.unseen_app_names) == ()
    with pytest.raises(BadInputError, match=r"validation_app_names: there is no app 'cluck'; did you mean clock\?"):
        await generate_queries(clock, spared.model_copy(update={"validation_app_names": ("cluck",)}), 1, origin)


async def test_too_few_goals_are_said_and_not_hidden(world: World, origin: Origin) -> None:
    bites = world.apps["bites"]
    small = bites.model_copy(update={"tasks": {"cutlery": bites.tasks["cutlery"]}})
    settings = GraphQueriesSpec(train=1000, heldout_slots=1, heldout_phrasings=0, heldout_app_names=(), validation=0)
    generated = await generate_queries(_only(small), settings, 1, origin)
    assert 0 < len(generated.queries) < 1000
    messages = [failure.message for failure in generated.failures]
    assert messages == [
        f"only {len(generated.queries)} of 1000 queries: there are no more goals",
        "only 0 of 1 queries: there are no more goals",
    ]


async def test_a_walk_says_why_a_path_is_refused(world: World, order: TaskGraph, origin: Origin) -> None:
    candidate = Candidate(chosen(order, dish="Udon Soup", quantity=3, note="no onions"), Split.TRAIN, False, 1)
    query = await draft(candidate, GrammarWriter(), origin)

    async def walked(**changes: object) -> str | None:
        environment = SimulatedEnvironment(world, query.platform, FaultRates(popup=0.0, slow=0))
        return await walk(environment, query.model_copy(update=changes))

    assert await walked() is None
    plus = next(number for number, step in enumerate(query.path) if step.target == "bites.dish/quantity/+")
    missed = await walked(path=(*query.path[:plus], *query.path[plus + 1 :])) or ""
    assert missed.startswith("the reference path does not meet the goal check (`bites.orders` is [{")
    assert '"quantity": 2' in missed.partition(" not [")[0] and '"quantity": 3' in missed.partition(" not [")[2]
    at = next(n for n, step in enumerate(query.path) if step.target == "bites.menu/dishes/Udon Soup")
    gone = query.path[at].model_copy(update={"target": "bites.menu/dishes/Roast Duck"})
    lost = await walked(path=(*query.path[:at], gone, *query.path[at + 1 :]))
    assert lost == "the reference path is lost on bites.menu: cannot tap bites.menu/dishes/Roast Duck"
    assert await walked(max_steps=5) == "the reference path is not done after 5 steps"
    assert await walked(goal="{}") == "there is no goal check"
    with pytest.raises(EnvironmentFailure):
        await walked(start_state='{"setup": {"nowhere.at_all": {}}}')


@pytest.mark.slow
async def test_rounds_add_others_and_nothing_held_out(world: World, origin: Origin, generated: NewQueries) -> None:
    async def fresh(known: tuple[Query, ...], seed: int, level: int = 3, count: int = 12) -> tuple[Query, ...]:
        context = SourceContext(SimulatedSpec(), UnseenApps(HELDOUT_APPS), 1, origin)
        return await fresh_queries([TaskSource(world, SETTINGS)], context, FreshRequest(count, level, seed), known)

    known = generated.queries
    first = await fresh(known, seed=2)
    assert await fresh(known, seed=2) == first
    second = await fresh((*known, *first), seed=3)
    every = (*known, *first, *second)
    assert (len(first), len(second), len({query.query_id for query in every})) == (12, 12, len(every))
    assert {(query.split, query.validation) for query in (*first, *second)} == {(Split.TRAIN, "passed")}
    assert leaks_in_queries(every, HELDOUT_APPS) == ()
    # None is harder than asked for, and as many as possible are as hard.
    for level in (1, 2):
        assert {query.difficulty for query in await fresh(known, seed=2, level=level, count=6)} == {level}


WANTED = {Split.TRAIN: 20, Split.HELDOUT_SLOTS: 5, Split.HELDOUT_PHRASINGS: 5, Split.VALIDATION: 5}


def test_each_goal_goes_to_one_split_and_held_out_ones_combine_values_that_training_shows(order: TaskGraph) -> None:
    for drawn in (1, 4, 9, 60):
        goals = draw_goals(order, drawn, Random(2))
        shares = share_goals(goals, WANTED)
        assert sorted(goal.key for share in shares.values() for goal in share) == sorted(goal.key for goal in goals)
        for split in HELDOUT_GOALS:
            assert len(shares[split]) == min(WANTED[split], drawn // 6)
    goals = draw_goals(order, 120, Random(3))
    shares = share_goals(goals, WANTED)
    shown = {value for goal in shares[Split.TRAIN][: WANTED[Split.TRAIN]] for value in goal.key}
    for split in HELDOUT_GOALS:
        assert all(shown.issuperset(goal.key) for goal in shares[split])


CHANGED = "    goal: {waterings"
FED = 'feed: $feed, memo: ""}'


def mistakes(folder: Path, text: str) -> list[str]:
    path = folder / "garden.yaml"
    path.write_text(text, encoding="utf-8")
    return [str(mistake).removeprefix(f"{path}:") for mistake in check_app_files([path])]


@pytest.mark.slow
def test_a_goal_that_no_walk_reaches_is_named(tmp_path: Path) -> None:
    for right, wrong, says in (
        (FED, 'fed: $feed, memo: ""}', "does not meet the goal check (`garden.waterings` is ["),
        (CHANGED, "    goal: {holiday: true, waterings", "`garden.holiday` is false, not true"),
        (f"amount: $amount, {FED}", f"amount: 2, {FED}", "amount = 3"),
    ):
        text = garden().replace(right, wrong)
        found = [each for each in mistakes(tmp_path, text) if "the goal check" in each]
        assert len(found) == 1 and says in found[0], found
        assert int(found[0].partition(":")[0]) == 1 + text[: text.index("    goal:")].count("\n")


@pytest.mark.slow
def test_a_goal_that_holds_at_the_start_and_slots_without_a_part_in_it_are_named(tmp_path: Path) -> None:
    before, _, after = garden().partition("    goal:")
    found = mistakes(tmp_path, f"{before}    goal: {{holiday: false}}\n{after.partition(chr(10))[2]}")
    assert [each.partition(": ")[2].partition(";")[0] for each in found] == [
        *(f"the goal never uses the slot `{name}`, so that any value would do" for name in ("plant", "amount", "feed")),
        "the goal holds before anything is done",
    ]


def test_letters_that_no_font_has_are_named_at_their_line(tmp_path: Path) -> None:
    text = garden().replace("text: Holiday mode", "text: Отпуск 雨")
    (found,) = mistakes(tmp_path, text)
    line = 1 + text[: text.index("Отпуск")].count("\n")
    assert found == f"{line}: `雨` cannot be drawn on a screen; write it in other letters"
