"""Queries from a graph: routes, values, forms, goals, words, splits and walks."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.stages.queries.graph.shop import LIST
from tests.stages.queries.samples import drafted, making, walk_all
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Query, Source, Split
from trajmill.stages.environments.kinds import SimulatedSpec
from trajmill.stages.environments.screen_goal import PATHWAY
from trajmill.stages.environments.simulated.environment import SimulatedFactory
from trajmill.stages.environments.simulated.world import World
from trajmill.stages.graphs.asked import NotAsked, asked_line, not_asked
from trajmill.stages.graphs.base import AppGraph, GraphElement, GraphPage, GraphSlot, GraphTransition, Mark
from trajmill.stages.graphs.from_simulated import graph_of_app
from trajmill.stages.queries.base import FreshRequest, NewQueries, SourceContext, UnseenApps, WalkQueries
from trajmill.stages.queries.generate import fresh_queries
from trajmill.stages.queries.graph.routes import Route, routes, samples_by_task
from trajmill.stages.queries.graph.source import GraphSource, RouteGoal, route_path
from trajmill.stages.queries.leaks import LeakKind, leaks_in_queries
from trajmill.stages.queries.spec import GraphSourceSpec
from trajmill.stages.queries.templates import heldout_parts

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


def test_each_task_has_its_values_once_and_never_a_default_nothing_destructive_and_an_end_that_tells_it() -> None:
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


def test_nobody_is_asked_to_press_what_no_word_says_the_purpose_of() -> None:
    for role, words, asked in (
        ("checkbox", {}, False),
        ("checkbox", {"name": "the mark"}, False),
        ("checkbox", {"name": "Mark all"}, True),
        ("checkbox", {"does": "Ends it."}, True),
        ("button", {"name": "Open"}, False),
        ("button", {"name": "Open the box"}, True),
    ):
        ticks = {"by": "box", "to": "things", "shows": [{"role": "text", "text": "1 left"}]}
        graph = with_transitions("things", ticks, box={"target": f"{role}:#2", "role": role, **words})
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


def test_a_choice_without_a_name_is_asked_for_only_if_its_values_name_it() -> None:
    slots = {
        name: GraphSlot.model_validate({"kind": "choice", "target": f"{name}/{{value}}", "values": values})
        for name, values in {"a": ["Red", "Blue"], "b": ["Blue"], "c": ["Tall"]}.items()
    }
    graph = with_pages(options=LIST.pages["options"].model_copy(update={"slots": slots}))
    goals = [goal for goals in samples_by_task(graph, 0).values() for goal in goals]
    assert {(each.slot, each.value) for goal in goals for each in goal.final} == {("c", "Tall")}


def tasks_on(page: str, changed: dict[str, Any], origin: Origin, **pages: GraphPage) -> dict[str, list[str]]:
    graph = with_pages(**{page: GraphPage.model_validate({**LIST.pages[page].model_dump(), **changed}), **pages})
    found = {task: queries for task, queries in samples_by_task(graph, 0).items() if page in task.split(".")[1]}
    return {task: [query_for(each, origin).instruction for each in goals] for task, goals in found.items()}


def test_what_is_set_in_a_dialog_waits_and_a_search_is_asked_for_once_without_its_options(origin: Origin) -> None:
    assert tasks_on("options", {}, origin) and not tasks_on("options", {"marks": ["awaits"]}, origin)
    search = {"by": "find", "operation": "key", "keys": "enter", "to": "options", "submits": True}
    slots = LIST.pages["options"].model_dump()["slots"] | {"find": _field("find", "Find", "search", "pine", "lamp")}
    slots |= {"with": _field("with", "Replace with", "text", "oak")}
    for texts, asked in ((["find"], {"list.options-find": 2}), (["find", "with"], {})):
        shows = [{"role": "value", "text": " ".join(f"{{{each}}}" for each in texts)}]
        ways = [{**search, "slots": texts, "shows": shows}]
        found = tasks_on("options", {"slots": slots, "marks": ["opens"], "transitions": ways}, origin)
        assert {task: len(queries) for task, queries in found.items()} == asked
    find = {**_field("find", "Find", "search", "Ann Lee", "London"), "common": ["London"]}
    sort = {"by": "age", "to": "options", "does": "Sort by Age.", "shows": [{"role": "text", "text": "Age, sorted"}]}
    rows = {"kind": "choice", "target": "rows/{value}", "name": "Show rows", "values": ["10", "25"]}
    changed = {"slots": {"find": find, "rows": rows}, "elements": {"age": {"target": "age"}}, "transitions": [sort]}
    sorted_by = {task[13:]: len(queries) for task, queries in tasks_on("options", changed, origin).items()}
    assert sorted_by == {"age": 1, "set-find": 2, "age-set-find": 1, "set-rows": 2, "age-set-rows": 2}


def test_nobody_is_told_a_tab_of_a_window_or_to_write_in_another_document(origin: Origin) -> None:
    text, other = (
        GraphSlot.model_validate(_field(each, each, "text", "oak")) for each in ("text_field", "b/text_field")
    )
    document = things(slots={"text": other}, recognise=LIST.pages["thing"].recognise, transitions=())
    loud = {"loud": GraphSlot.model_validate({"kind": "switch", "target": "loud", "name": "Loud"})}
    tab = LIST.pages["options"].model_copy(update={"slots": loud, "recognise": LIST.pages["thing"].recognise})
    sound = {"sound": {"target": "tab:Sound", "role": "tab"}, "other": {"target": "tab:Other", "role": "tab"}}
    ways = [{"by": "sound", "to": "options-sound"}, {"by": "other", "to": "options-other"}]
    pages = {"options-sound": tab, "options-other": document, "things": things(slots={**things().slots, "text": text})}
    found = tasks_on("options", {"elements": sound, "transitions": ways}, origin, **pages)
    assert all("the options" in each and "ound" not in each for each in found["list.options-sound-set-loud"])
    assert not [task for task in found if "text" in task]


def test_a_sum_is_worked_out_on_the_keys_and_stands_on_the_display(origin: Origin) -> None:
    keys = {key: f"key/{key}" for key in "0123456789+="}
    total = {"kind": "keypad", "type": "sum", "target": "display", "values": ["4 + 21"], "shown": {"4 + 21": "25"}}
    graph = with_pages(
        things=things(slots={"sum": GraphSlot.model_validate({**total, "targets": keys})}, transitions=())
    )
    [query] = [query_for(each, origin) for goals in samples_by_task(graph, 0).values() for each in goals]
    assert "4 + 21" in query.instruction and {"target": "display", "value": "25"} in json.loads(query.goal)["showing"]
    assert [step.target for step in query.path] == [*(f"key/{key}" for key in "4+21="), ""]


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


async def test_training_has_other_values_of_what_is_held_out_and_each_switch_of_a_pair(origin: Origin) -> None:
    field = things().slots["new"].model_copy(update={"values": tuple("abcdefgh")})
    graph = with_pages(things=things(slots={**things().slots, "new": field}))
    wanted = GraphSourceSpec(train=8, validation=1, heldout_slots=1, heldout_phrasings=1)
    queries = (await made_of(graph, CountedWalk(), origin, wanted)).queries
    trained = Counter(query.task for query in queries if query.split is Split.TRAIN)
    assert len(queries) == 11 and len(trained) > 1
    assert all(trained[query.task] >= 3 for query in queries if query.split is not Split.TRAIN)
    assert leaks_in_queries(queries, ()) == ()
    dark = LIST.pages["options"].slots["dark"]
    slots = {name: dark.model_copy(update={"target": name, "name": name}) for name in ("dark", "loud", "bold", "wide")}
    graph = with_pages(options=LIST.pages["options"].model_copy(update={"slots": slots}))
    made = await made_of(graph, CountedWalk(), origin)
    asked = [(each.split, {slot.name for slot in each.slots}) for each in made.queries if "options-set" in each.task]
    held_out, known = ([names for split, names in asked if (split is Split.TRAIN) is told] for told in (False, True))
    assert {len(names) for names in held_out} == {2} and not any(names in known for names in held_out)
    assert set().union(*held_out) <= set().union(*known)


async def test_a_graph_of_few_goals_is_validated_by_what_training_has_in_other_words(origin: Origin) -> None:
    wanted = GraphSourceSpec(train=12, validation=6, heldout_slots=1)
    queries = (await made_of(LIST, CountedWalk(), origin, wanted)).queries
    goals = {split: {query.goal_key() for query in queries if query.split is split} for split in Split}
    shared = goals[Split.TRAIN] & goals[Split.VALIDATION]
    assert len(goals[Split.VALIDATION]) == 6 and shared
    assert not goals[Split.HELDOUT_SLOTS] & (goals[Split.TRAIN] | goals[Split.VALIDATION])
    both = [query for query in queries if query.goal_key() in shared]
    assert all(heldout_parts(query) for query in both if query.split is Split.VALIDATION)
    assert leaks_in_queries(queries, ()) == ()
    plain = next(query for query in both if query.split is Split.TRAIN)
    said_alike = plain.model_copy(update={"split": Split.VALIDATION, "instruction": "Do it."})
    assert [leak.kind for leak in leaks_in_queries([*queries, said_alike], ())] == [LeakKind.GOAL]


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


def _field(target: str, name: str, kind: str, *values: str, default: str = "") -> dict[str, Any]:
    return {"kind": "field", "target": target, "name": name, "type": kind, "values": values, "default": default}


_BENCHES = ["Pine bench", "Oak bench"]
_SLOTS: dict[str, Any] = {
    "name": _field("name", "Your name", "person", "Ann Lee", "Bo Hart"),
    "day": _field("day", "Day", "date", "2026-12-01", "2026-12-09"),
    "hours": _field("hours", "Hours", "number", "2", "3", default="1"),
    "bench": {"kind": "choice", "target": "radio:{value}", "name": "Bench", "values": _BENCHES, "default": _BENCHES[0]},
    "tools": {"kind": "switch", "target": "checkbox:With tools", "name": "With tools"},
}
_SHOWN = "{bench} for {name} on {day}"


def booking(shown: str = _SHOWN, **element: str) -> AppGraph:
    book = {"by": "book", "submits": True, "to": "form", "shows": [{"role": "list_item", "text": shown}]}
    page = {
        "title": "Book a bench",
        "recognise": {"shows": [{"role": "heading", "text": "Book a bench"}]},
        "elements": {"book": {"target": "button:Book", "role": "button", "name": "Book", **element}},
        "slots": _SLOTS,
        "transitions": [{**book, "slots": list(_SLOTS)}, {**book, "slots": list(_SLOTS)[:-1]}],
    }
    return AppGraph.model_validate(
        {"app": "shop", "title": "the shop", "platform": Platform.WEB, "start": "form", "pages": {"form": page}}
    )


def queries_of(graph: AppGraph, origin: Origin) -> list[Query]:
    return [
        drafted(RouteGoal(each), origin, 3, False) for goals in samples_by_task(graph, 0).values() for each in goals
    ]


def test_a_form_is_asked_for_with_its_values_and_never_a_part_of_it(origin: Origin) -> None:
    queries = queries_of(booking(), origin)
    assert {query.task for query in queries} == {"shop.form-book"}
    assert all(
        "book a bench for " in query.instruction.lower() and " on 2026-12-" in query.instruction for query in queries
    )
    assert all(slot.said in query.instruction for query in queries for slot in query.slots)
    asked = [{slot.name for slot in query.slots} for query in queries]
    assert all({"name", "day"} <= names for names in asked) and {"name", "day", "tools"} in asked
    words = " ".join(query.instruction for query in queries)
    assert "for 2 hours" in words and "with tools" in words and "Oak bench" in words
    assert "press" not in words and "into" not in words
    short = next(query for query in queries if {slot.name for slot in query.slots} == {"name", "day"})
    assert [step.target for step in short.path if step.operation == "tap"] == ["name", "day", "button:Book"]
    assert "Pine bench for " in json.loads(short.goal)["showing"][1]["text"]


def test_what_the_end_does_not_show_must_stand_in_the_form_before_it_is_sent(origin: Origin) -> None:
    query = next(each for each in queries_of(booking(), origin) if {slot.name for slot in each.slots} == {*_SLOTS})
    [filled] = json.loads(query.goal)[PATHWAY]
    assert {"target": "checkbox:With tools", "any_state": ["checked", "selected"]} in filled["showing"]
    assert {each["target"] for each in filled["showing"]} >= {"name", "day", "hours"}
    shown = booking(f"{_SHOWN}, {{hours}} hours")
    assert all(PATHWAY not in each.goal for each in queries_of(shown, origin) if "tools" not in each.instruction)


def test_the_words_come_from_the_button_or_the_title(origin: Origin) -> None:
    for name, title, said in (
        ("Save", "Add a bench", "add a bench for "),
        ("Reserve it", "Benches", "reserve it for "),
        ("Save", "New bench", "add a new bench for "),
        ("OK", "Benches", 'ill in and send the form "Benches" for '),
        ("Rent", "Benches", "ill in and send the form"),
        ("Order", "Benches", "order for "),
    ):
        graph = booking(name=name)
        page = graph.pages["form"].model_copy(update={"title": title})
        queries = queries_of(graph.model_copy(update={"pages": {"form": page}}), origin)
        assert queries and all(said in query.instruction.lower() or said in query.instruction for query in queries)


def test_a_form_that_leads_back_to_its_list_is_asked_for_by_what_it_adds(origin: Origin) -> None:
    boards = {"kind": "list", "target": "{value}", "values": ["To do", "Done"], "targets": {"To do": "a", "Done": "b"}}
    board = {
        "title": "Board",
        "recognise": {"shows": [{"role": "heading", "text": "Board"}]},
        "slots": {"board": boards},
        "transitions": [{"by": "board", "to": "card", "does": "Add a card to {board}."}],
    }
    shows = [{"role": "text", "text": "{text}"}]
    card = {
        "recognise": {"shows": [{"role": "button", "text": "Add"}]},
        "elements": {"add": {"target": "button:Add", "role": "button", "name": "Add"}},
        "slots": {"text": _field("text", "Card", "title", "Fix the lamp")},
        "transitions": [{"by": "add", "to": "board", "submits": True, "slots": ["text"], "shows": shows}],
    }
    graph = AppGraph.model_validate(
        {"app": "kanban", "platform": Platform.WEB, "start": "board", "pages": {"board": board, "card": card}}
    )
    [query] = [each for each in queries_of(graph, origin) if each.task == "kanban.board-add"]
    assert 'dd "Fix the lamp"' in query.instruction and "To do" not in query.instruction
    assert [step.target for step in query.path] == ["a", "a", "text", "text", "button:Add", ""]
