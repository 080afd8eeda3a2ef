"""Queries from a graph: routes, values, goals, words, splits and walks."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.stages.queries.graph.shop import LIST
from tests.stages.queries.samples import drafted, making, walk_all
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query, Source, Split
from trajmill.stages.environments.kinds import SimulatedSpec
from trajmill.stages.environments.simulated.environment import SimulatedFactory
from trajmill.stages.environments.simulated.world import World
from trajmill.stages.graphs.asked import NotAsked, asked_line, not_asked
from trajmill.stages.graphs.base import AppGraph, GraphElement, GraphPage, GraphSlot, GraphTransition, Mark
from trajmill.stages.graphs.from_simulated import graph_of_app
from trajmill.stages.queries.base import FreshRequest, NewQueries, SourceContext, UnseenApps, WalkQueries
from trajmill.stages.queries.generate import fresh_queries
from trajmill.stages.queries.graph.routes import Route, routes, samples_by_task
from trajmill.stages.queries.graph.source import GraphSource, RouteGoal, route_path
from trajmill.stages.queries.leaks import leaks_in_queries
from trajmill.stages.queries.spec import GraphSourceSpec

ADD = LIST.pages["things"].transitions[0]
WANTED = GraphSourceSpec(train=12, validation=2, heldout_slots=2, heldout_phrasings=2)


def with_pages(**pages: GraphPage) -> AppGraph:
    return LIST.model_copy(update={"pages": {**LIST.pages, **pages}})


def with_transitions(page: str, *added: Mapping[str, object], **elements: Mapping[str, str]) -> AppGraph:
    """The list with more transitions, and the elements of one page that they need."""
    before = LIST.pages[page].model_dump()
    more = {"elements": before["elements"] | elements, "transitions": [*before["transitions"], *added]}
    return with_pages(**{page: GraphPage.model_validate(before | more)})


def things(**changes: Any) -> GraphPage:
    return LIST.pages["things"].model_copy(update=changes)


def query_for(sample: Route, origin: Origin, heldout: bool = False) -> Query:
    return drafted(RouteGoal(sample), origin, 3, heldout)


def test_each_task_has_its_values_once_and_never_a_default_and_nothing_destructive() -> None:
    found = {task: len(samples) for task, samples in samples_by_task(LIST, 0).items()}
    assert found == {
        "list.visit": 1,
        "list.things-add": 3,
        "list.things-add-add": 3,
        "list.thing-thing": 2,
        "list.options-set-dark": 1,
        "list.options-set-order": 2,
        "list.options-set-dark-set-order": 2,
    }
    assert not [route for route in routes(LIST) if any(move.transition.by == "clear" for move in route.moves)]


def test_a_route_whose_end_does_not_tell_a_value_is_left_out() -> None:
    untold = tuple(each.model_copy(update={"shows": ()}) for each in things().transitions)
    graph = with_pages(things=things(transitions=untold))
    assert {task for task in samples_by_task(graph, 0) if "add" in task or task == "list.thing-thing"} == set()


def test_the_goal_names_the_page_and_the_values(origin: Origin) -> None:
    (first, *_) = samples_by_task(LIST, 0)["list.things-add"]
    query, value = query_for(first, origin), first.settings[0].value
    assert json.loads(query.goal) == {
        "showing": [{"role": "heading", "text": "Things"}, {"role": "list_item", "text": value}]
    }
    assert query.source is Source.GRAPH and query.pages == ("list.things",)
    steps = [(step.operation, step.target, step.text) for step in query.path]
    assert steps == [("tap", "new", ""), ("replace", "new", value), ("tap", "add", ""), ("finish", "", "")]
    # An item of a list is scrolled to.
    item = samples_by_task(LIST, 0)["list.thing-thing"][0]
    assert [step.operation for step in route_path(item)] == ["scroll", "tap", "finish"]


def test_a_transition_can_be_checked_by_what_the_environment_finds(origin: Origin) -> None:
    own = {"all": [{"check": "storage", "key": "things", "contains": "{new}"}]}
    saved = ADD.model_copy(update={"shows": (), "goal": own})
    graph = with_pages(things=things(transitions=(saved, *things().transitions[1:])))
    sample = samples_by_task(graph, 0)["list.things-add-add"][0]
    goal = json.loads(query_for(sample, origin).goal)
    assert goal["showing"] == [{"role": "heading", "text": "Things"}]
    assert [each["contains"] for each in goal["all"]] == [setting.value for setting in sample.settings]


@pytest.mark.parametrize("heldout", [False, True])
def test_every_value_is_said(heldout: bool, origin: Origin) -> None:
    for sample in (sample for samples in samples_by_task(LIST, 0).values() for sample in samples):
        query = query_for(sample, origin, heldout)
        assert all(slot.said and slot.said in query.instruction for slot in query.slots), query.instruction
        assert query.phrasing.rpartition("/")[2].startswith("h") is heldout


def test_what_is_pressed_to_choose_a_value_has_no_sentence_of_its_own(origin: Origin) -> None:
    shows = [{"role": "radio", "text": "{order}", "state": "checked"}]
    options = with_transitions("options", {"by": "order", "to": "options", "shows": shows}).pages["options"]
    unnamed = {**options.slots, "order": options.slots["order"].model_copy(update={"name": ""})}
    graph = with_pages(options=options.model_copy(update={"slots": unnamed}))
    for sample in samples_by_task(graph, 0)["list.options-order"]:
        text = query_for(sample, origin).instruction
        assert "press" not in text.casefold() and f" {sample.settings[0].value}" in text


@pytest.mark.parametrize(
    ("title", "said"), [("the rest of them", "the rest of them and ask for help"), ("the options", " The rest and")]
)
def test_the_way_is_said_by_the_nearest_page_of_a_name(title: str, said: str, origin: Origin) -> None:
    """Behind the options there is a page with a button on it that says something."""
    more: dict[str, Any] = {
        "title": title,
        "recognise": {"shows": [{"role": "heading", "text": "More"}]},
        "elements": {"help": {"target": "button:Help", "name": "Help"}},
        "transitions": [{"by": "help", "to": "more", "shows": [{"role": "text", "text": "Ask somebody."}]}],
    }
    more["elements"]["help"]["does"] = "Asks for help."
    rest = {"target": "button:The rest", "name": "The rest"}
    graph = with_transitions("options", {"by": "rest", "to": "more"}, rest=rest)
    graph = graph.model_copy(update={"pages": {**graph.pages, "more": GraphPage.model_validate(more)}})
    found = samples_by_task(graph, 0)
    (sample,) = found["list.more-help"]
    text = query_for(sample, origin).instruction
    assert said in text and "ask for help" in text and (title == "the options" or "the options" not in text)
    assert [each.end for each in found["list.visit"]] == ["options", *(["more"] if title != "the options" else [])]


@pytest.mark.parametrize(
    ("words", "asked"),
    [({}, False), ({"name": "the mark"}, False), ({"name": "Mark all"}, True), ({"does": "Ends it."}, True)],
)
def test_nobody_is_asked_to_press_what_no_word_says_the_purpose_of(words: dict[str, str], asked: bool) -> None:
    ticks = {"by": "box", "to": "things", "shows": [{"role": "text", "text": "1 left"}]}
    graph = with_transitions("things", ticks, box={"target": "checkbox:#2", "role": "checkbox", **words})
    assert any(move.transition.by == "box" for route in routes(graph) for move in route.moves) is asked


@pytest.mark.parametrize(("mark", "said"), [(Mark.OPENS, NotAsked.OPENS), (Mark.IDLE, NotAsked.IDLE)])
def test_nobody_asks_for_what_only_opens_but_paths_go_through_it(mark: Mark, said: NotAsked) -> None:
    shows = [{"role": "text", "text": "1 left"}]
    ways: list[dict[str, object]] = [
        {"by": "mark", "to": "things", "shows": shows, "marks": [mark]},
        {"by": "mark", "to": "menu"},
    ]
    graph = with_transitions("things", *ways, mark={"target": "button:Mark all", "name": "Mark all"})
    menu = LIST.pages["thing"].model_copy(update={"title": "a menu", "marks": (mark,)})
    on = GraphTransition(by="rename", to="rest")
    rest = LIST.pages["thing"].model_copy(update={"title": "the rest"})
    named = {"rename": GraphElement(target="button:Rename", name="Rename")}
    pages = {"menu": menu.model_copy(update={"elements": named, "transitions": (on,)}), "rest": rest}
    graph = graph.model_copy(update={"pages": {**graph.pages, **pages}})
    asked = routes(graph)
    assert not [each for each in asked if each.end == "menu" or any(act.transition.by == "mark" for act in each.acts)]
    assert [each.moves[0].transition.to for each in asked if each.end == "rest"] == ["menu"]
    assert not_asked(graph)[said] == 2
    assert f"; 2 {said}" in asked_line(graph)


def test_a_search_that_changes_nothing_and_two_orders_at_once_are_no_wishes() -> None:
    orders = ({"by": name, "to": "options", "does": f"Sort by {name}."} for name in ("age", "name"))
    shown = ({**each, "shows": [{"role": "text", "text": each["by"]}]} for each in orders)
    graph = with_transitions("options", *shown, age={"target": "text:Age"}, name={"target": "text:Name"})
    search = {"kind": "field", "target": "find", "type": "search", "values": ["tea"]}
    slots = {name: GraphSlot.model_validate({**search, **more}) for name, more in {"a": {}, "b": IDLE}.items()}
    options = graph.pages["options"].model_copy(update={"slots": slots})
    tasks = samples_by_task(graph.model_copy(update={"pages": {**graph.pages, "options": options}}), 0)
    assert {"list.options-age", "list.options-name", "list.options-set-a"} <= tasks.keys()
    assert not [each for each in tasks if "set-b" in each or ("age" in each and "name" in each)]


def test_what_stands_below_a_menu_is_set_without_opening_it_and_no_menu_is_said(origin: Origin) -> None:
    opens = {"view": {"target": "menu:View", "role": "menu", "name": "View"}}
    graph = with_transitions("options", {"by": "view", "to": "view-menu"}, view=opens["view"])
    options = graph.pages["options"]
    text = GraphSlot.model_validate({"kind": "field", "target": "text_field:", "name": "text_field", "values": ["tea"]})
    here = options.model_copy(update={"slots": {**options.slots, "text": text}})
    way = GraphTransition(by="more", to="rest")
    named = {"more": GraphElement(target="more", role="menu_item", name="Edit more")}
    menu = {"title": "", "marks": (Mark.OPENS,), "elements": named, "transitions": (way,)}
    over = here.model_copy(update=menu)
    end = LIST.pages["thing"].model_copy(
        update={"title": "", "slots": {"text": text.model_copy(update={"target": "other"})}}
    )
    graph = graph.model_copy(update={"pages": {**graph.pages, "options": here, "view-menu": over, "rest": end}})
    found = samples_by_task(graph, 0)
    assert "list.options-set-text" in found and not [task for task in found if task.startswith("list.view-menu")]
    assert re.search(r"(write|type) .tea", query_for(found["list.options-set-text"][0], origin).instruction, re.I)
    through = found["list.rest-set-text"][0]
    assert "view-menu" in {move.page for move in through.moves}
    assert "view" not in query_for(through, origin).instruction.lower()


def test_a_choice_without_a_name_is_asked_for_only_if_its_values_name_it() -> None:
    def choice(target: str, *values: str) -> GraphSlot:
        return GraphSlot.model_validate({"kind": "choice", "target": target, "values": values})

    slots = {
        "a": choice("a/{value}", "Red", "Blue"),
        "b": choice("b/{value}", "Blue"),
        "c": choice("c/{value}", "Tall"),
    }
    graph = with_pages(options=LIST.pages["options"].model_copy(update={"slots": slots}))
    asked = {
        (each.slot, each.value) for goals in samples_by_task(graph, 0).values() for goal in goals for each in goal.final
    }
    assert asked == {("c", "Tall")}


@pytest.mark.parametrize(("name", "asked"), [("Open", False), ("Open the box", True), ("Undo", True)])
def test_a_verb_alone_is_no_wish_unless_it_says_all(name: str, asked: bool) -> None:
    way: dict[str, object] = {"by": "it", "to": "things", "shows": [{"role": "text", "text": "Done."}]}
    graph = with_transitions("things", way, it={"target": "button:It", "role": "button", "name": name})
    assert any(move.transition.by == "it" for route in routes(graph) for move in route.moves) is asked


IDLE: dict[str, object] = {"marks": ["idle"]}


class CountedWalk:
    """Passes every path, except those through some page."""

    def __init__(self, refused: str = "no page") -> None:
        self.refused, self.walked = refused, 0

    async def __call__(self, queries: Sequence[Query]) -> NewQueries:
        self.walked += len(queries)
        return NewQueries(tuple(query for query in queries if self.refused not in query.pages[-1]))


async def made_of(graph: AppGraph, walk: WalkQueries, origin: Origin, settings: GraphSourceSpec = WANTED) -> NewQueries:
    source = GraphSource((graph,), {split: settings.wanted(split) for split in Split})
    return await making(source, walk, origin, UnseenApps(heldout=("away",)))


async def test_equal_seeds_give_equal_queries_and_a_path_is_walked_once(origin: Origin) -> None:
    first, second = CountedWalk(), CountedWalk()
    made = await made_of(LIST, first, origin)
    assert made == await made_of(LIST, second, origin)
    assert len({(query.goal, query.path) for query in made.queries}) == first.walked == second.walked < 16
    assert {query.validation for query in made.queries} == {"passed"}
    assert sum(query.split is Split.TRAIN for query in made.queries) == 12


async def test_refused_walks_give_no_query_and_unseen_apps_none_for_training(origin: Origin) -> None:
    queries = (await made_of(LIST, CountedWalk("options"), origin)).queries
    assert queries and not [query for query in queries if "options" in query.task]
    away = LIST.model_copy(update={"app": "away"})
    queries = (await made_of(away, CountedWalk(), origin, GraphSourceSpec(train=3, heldout_apps=4))).queries
    assert Counter(query.split for query in queries) == {Split.HELDOUT_APPS: 4}


async def test_training_has_other_values_of_each_task_of_which_goals_are_held_out(origin: Origin) -> None:
    field = things().slots["new"].model_copy(update={"values": tuple("abcdefgh")})
    graph = with_pages(things=things(slots={**things().slots, "new": field}))
    wanted = GraphSourceSpec(train=8, validation=1, heldout_slots=1, heldout_phrasings=1)
    queries = (await made_of(graph, CountedWalk(), origin, wanted)).queries
    trained = Counter(query.task for query in queries if query.split is Split.TRAIN)
    assert len(queries) == 11 and len(trained) > 1
    assert all(trained[query.task] >= 3 for query in queries if query.split is not Split.TRAIN)
    assert leaks_in_queries(queries, ()) == ()


async def test_queries_of_a_simulated_app_are_walked_in_it(world: World, origin: Origin) -> None:
    clock = graph_of_app(world.apps["clock"])

    async def walk(queries: Sequence[Query]) -> NewQueries:
        return await walk_all(SimulatedFactory(world, clock.platform), queries, origin)

    made = await made_of(clock, walk, origin)
    splits = Counter(query.split for query in made.queries)
    assert splits[Split.TRAIN] == 12 and splits[Split.VALIDATION] and splits[Split.HELDOUT_PHRASINGS]
    assert leaks_in_queries(made.queries, ()) == ()
    assert {query.task.partition(".")[0] for query in made.queries} == {"clock"}
    # New queries of a later round are new, walked, and show nothing that is held out.
    source, context = GraphSource((clock,), {}), SourceContext(SimulatedSpec(), UnseenApps(), 0, origin)
    added = await fresh_queries([source], context, FreshRequest(6, 3, 11), made.queries)
    assert {(query.split, query.validation) for query in added} == {(Split.TRAIN, "passed")} and len(added) == 6
    assert not {query.instruction for query in made.queries} & {query.instruction for query in added}
    assert leaks_in_queries((*made.queries, *added), ()) == ()
