"""What all sources of queries share: templates, splits, leaks, levels, and walks of tasks of a user or a package."""

import json
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.other_package import installed
from tests.stages.queries.pathways.toy import PROGRAM, ToyFactory
from tests.stages.queries.samples import CLEAN, PHRASINGS, SLOTS, chosen, drafted, order_query
from trajmill.flows.configuration.file import load_config
from trajmill.schemas.errors import BadInputError, FailureClass
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import PathStep, Platform, Query, Source, Split
from trajmill.stages.environments.kinds import FaultRates, SimulatedSpec
from trajmill.stages.environments.simulated.world import TaskGraph
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.environments.tasks import ImportedQueries
from trajmill.stages.queries.base import SourceContext, UnseenApps, difficulty, level_within_reach
from trajmill.stages.queries.generate import make_queries
from trajmill.stages.queries.leaks import LeakIndex, LeakKind, Novelty, leaks_in_queries
from trajmill.stages.queries.pathways.programs import start_query
from trajmill.stages.queries.templates import parse_template
from trajmill.stages.queries.walk import own_queries

QUESTION = order_query("I feel like eating Diavola.", "Diavola", Split.HELDOUT_PHRASINGS, "bites.order/h0")
MARKED = order_query("Order Cheeseburger, large.", "Cheeseburger", phrasing="bites.order/0 size/h0")


def test_what_is_planted_in_a_clean_set_is_found() -> None:
    for planted, kind in (
        (order_query("Get me Diavola.", "Diavola"), LeakKind.GOAL),
        (QUESTION, LeakKind.GOAL),
        (order_query("order  diavola", "Diavola", start_state='{"setup": {}}'), LeakKind.INSTRUCTION),
        (MARKED, LeakKind.PHRASING),
        (order_query("Call Ada.", "Ada", phrasing="contacts.order/0", app="contacts"), LeakKind.APP),
    ):
        assert leaks_in_queries(CLEAN, ("contacts",)) == ()
        assert [leak.kind for leak in leaks_in_queries([*CLEAN, planted], ("contacts",))] == [kind]


def test_a_leak_names_the_held_out_query_and_that_which_has_its_goal_or_sentence() -> None:
    planted = order_query("Get me Diavola.", "Diavola")
    (leak,) = leaks_in_queries([*CLEAN, planted], ())
    assert leak[:3] == (LeakKind.GOAL, SLOTS.query_id, planted.query_id)
    marked = order_query("I feel like eating Pad Thai", "Pad Thai", phrasing="bites.order/h0")
    leaks = leaks_in_queries([PHRASINGS, marked], ())
    assert {leak.kind for leak in leaks} == {LeakKind.PHRASING}
    assert PHRASINGS.query_id in {leak.heldout for leak in leaks}
    renamed = order_query("I feel like eating Pad Thai.", "Pad Thai", phrasing="bites.order/3")
    (leak,) = leaks_in_queries([PHRASINGS, renamed], ())
    assert leak[:3] == (LeakKind.PHRASING, PHRASINGS.query_id, renamed.query_id)


def test_an_imported_page_may_say_the_same_for_another_start_state() -> None:
    first, second = (
        order_query(
            "Click.", "", split, "miniwob", source=Source.IMPORTED, start_state=f'{{"seed": {split == "train"}}}'
        )
        for split in (Split.TRAIN, Split.HELDOUT_SLOTS)
    )
    assert leaks_in_queries([first, second], ()) == ()
    (leak,) = leaks_in_queries([first, first.model_copy(update={"split": Split.HELDOUT_SLOTS})], ())
    assert leak.kind is LeakKind.GOAL


def test_repetitions_and_ambiguous_words_are_told_from_new_queries(order: TaskGraph, origin: Origin) -> None:
    train = drafted(chosen(order, dish="Pad Thai"), origin, 1)

    def novelty(query: Query, **changes: object) -> Novelty:
        return LeakIndex([train]).admit(query.model_copy(update=changes))

    (slot,) = train.slots
    slots = (slot.model_copy(update={"value": "Diavola", "said": "Diavola"}),)
    text = train.instruction.replace(slot.said, "Diavola")
    other = train.model_copy(update={"slots": slots, "instruction": text})
    assert (novelty(other), novelty(train)) == (Novelty.NEW, Novelty.REPEATED)
    assert novelty(other, instruction=train.instruction) is Novelty.AMBIGUOUS
    # Trained words are not held out for another start state, and a trained sentence is no held-out phrasing.
    assert novelty(train, start_state='{"setup": {}}', split=Split.HELDOUT_SLOTS) is Novelty.REPEATED
    assert novelty(train, start_state='{"setup": {}}') is Novelty.NEW
    assert novelty(other, split=Split.HELDOUT_PHRASINGS) is Novelty.NOT_HELD_OUT
    assert novelty(other, split=Split.HELDOUT_SLOTS) is Novelty.NEW


def _path(pages: str) -> tuple[PathStep, ...]:
    opened = PathStep(page="", operation="open", target="Bites")
    finish = PathStep(page=pages[-1], operation="finish", target="")
    return (opened, *(PathStep(page=page, operation="tap", target=f"{page}/x") for page in pages), finish)


def test_levels_follow_pages_and_apps_and_the_next_one_comes_where_the_easier_ones_succeed() -> None:
    for pages, apps, level in (
        ("aabb", 1, 1),
        ("abc", 1, 2),
        ("abcde", 1, 3),
        ("abcd", 2, 2),
        ("ab", 3, 2),
        ("abcdef", 3, 3),
    ):
        assert difficulty(_path(pages), apps) == level
    reached: tuple[tuple[dict[int, float], int], ...] = (
        ({}, 1),
        ({1: 0.6, 2: 0.9}, 1),
        ({1: 0.7}, 2),
        ({1: 0.9, 2: 0.8}, 3),
        ({1: 1.0, 2: 1.0, 3: 1.0}, 3),
    )
    for success, level in reached:
        assert level_within_reach(success, enough=0.7) == level


@given(st.text(alphabet="ab(|)[]{} ", max_size=12))
def test_any_text_parses_or_is_refused_in_one_line(text: str) -> None:
    try:
        parse_template(text, "bites.order")
    except BadInputError as error:
        assert "\n" not in str(error) and str(error).startswith("bites.order: phrasing ")


def test_a_broken_template_is_refused_with_place_and_advice() -> None:
    for text, complaint in (
        ("order (a|b", "'(' is not closed at column 7; close it with ')'"),
        ("order [me", "'[' is not closed at column 7; close it with ']'"),
        ("order {dish", "'{' is not closed at column 7; close it with '}'"),
        ("order {a dish}", "'{a dish}' is no name at column 7"),
        ("order) me", "')' stands alone at column 6"),
        ("a|b", "'|' stands alone at column 2; put alternatives in parentheses"),
    ):
        with pytest.raises(BadInputError) as caught:
            parse_template(text, "bites.order")
        assert complaint in str(caught.value)
        assert parse_template("a {b} (c {d}|[{e} f])", "t").names() == {"b", "d", "e"}


class ToySpec(EnvironmentSpec):
    """The toy program with tasks that a user wrote."""

    kind: Literal["toy"] = "toy"
    goals: tuple[str, ...] = ()
    untried: bool = True

    def factory(self, platform: Platform) -> ToyFactory:
        return ToyFactory()

    async def own_queries(self, seed: int, origin: Origin) -> ImportedQueries:
        first = start_query(PROGRAM, origin)
        made = [first.model_copy(update={"query_id": goal, "goal": goal}) for goal in self.goals]
        return ImportedQueries([*made, first.model_copy(update={"query_id": "without a goal"})], [], self.untried)


def shows(role: str, text: str) -> str:
    return json.dumps({"showing": [{"role": role, "text": text}]})


DONE, NOT_DONE, MALFORMED = shows("menu", "File"), shows("menu_item", "Open..."), '{"showing": 1}'


def ids(queries: tuple[Query, ...]) -> list[str]:
    return [query.query_id for query in queries]


async def test_a_goal_that_holds_at_the_start_or_cannot_be_read_is_a_failure_of_the_task(origin: Origin) -> None:
    made = await own_queries(ToySpec(goals=(DONE, NOT_DONE)), 0, 2, origin)
    assert ids(made.queries) == [NOT_DONE, "without a goal"]
    (failure,) = made.failures
    assert (failure.input_id, failure.failure_class, failure.stage) == (DONE, FailureClass.TASK, "generate")
    assert "before anything was done" in failure.message
    made = await own_queries(ToySpec(goals=(MALFORMED,)), 0, 2, origin)
    assert ids(made.queries) == ["without a goal"]
    assert [failure.failure_class for failure in made.failures] == [FailureClass.TASK]
    made = await own_queries(ToySpec(goals=(DONE,), untried=False), 0, 2, origin)
    assert ids(made.queries) == [DONE, "without a goal"]


@pytest.mark.parametrize("broken", [1, 100])
async def test_a_task_is_tried_again_after_a_failure_and_kept_where_none_starts(origin: Origin, broken: int) -> None:
    factory = ToyFactory(broken=broken)

    class BrokenSpec(ToySpec):
        def factory(self, platform: Platform) -> ToyFactory:
            return factory

    made = await own_queries(BrokenSpec(goals=(DONE,)), 0, 1, origin)
    kept = ["without a goal"] if broken == 1 else [DONE, "without a goal"]
    assert (ids(made.queries), len(made.failures), factory.log.count("start")) == (kept, broken == 1, 2)


PACKAGE = '''
from random import Random
from typing import Literal

from trajmill.schemas.tables.query import Split
from trajmill.stages.queries.base import Candidate, Offer, SplitCandidates
from trajmill.stages.queries.spec import QuerySourceSpec
from trajmill.stages.queries.tasks.source import draw_goals


class OneTaskSpec(QuerySourceSpec):
    """Queries of one task."""

    kind: Literal["one_task"] = "one_task"
    task: str

    def open(self):
        return OneTask(self.task)


class OneTask:
    def __init__(self, task):
        self.task = task

    async def candidates(self, context):
        task = next(each for each in context.environment.navigation_graph().tasks if each.name == self.task)
        goals = draw_goals(task, 4, Random(context.seed))
        found = (Candidate(goal, Split.TRAIN, False, number) for number, goal in enumerate(goals))
        return Offer((SplitCandidates(Split.TRAIN, 2, [found]),))
'''


async def test_another_packages_queries_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: Origin) -> None:
    points = "[trajmill.queries]\none_task = one_task_source:OneTaskSpec"
    installed(tmp_path / "packages", monkeypatch, points, one_task_source=PACKAGE)
    (tmp_path / "trajmill.toml").write_text('[sources.orders]\nkind = "one_task"\ntask = "bites.order"\n')
    sources = load_config(tmp_path / "trajmill.toml").sources
    context = SourceContext(SimulatedSpec(faults=FaultRates(popup=0.0, slow=0)), UnseenApps(), 3, origin)
    made = await make_queries([spec.open() for spec in sources.values()], context)
    assert [(query.task, query.split, query.validation) for query in made.queries] == [
        ("bites.order", Split.TRAIN, "passed")
    ] * 2
    assert made.failures == ()
