"""Routes, values, goals and words of a graph."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from tests.stages.queries.graph.shop import LIST
from tests.stages.queries.samples import drafted
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Query, Source
from trajmill.stages.graphs.base import AppGraph, Feature, GraphElement, GraphPage, GraphTransition
from trajmill.stages.queries.graph.routes import RouteSample, routes, samples_by_task
from trajmill.stages.queries.graph.source import RouteGoal, as_wish, route_path


def of(task: str) -> tuple[RouteSample, ...]:
    return samples_by_task(LIST, 0)[f"list.{task}"]


def query_for(sample: RouteSample, origin: Origin, heldout: bool = False) -> Query:
    return drafted(RouteGoal(sample), origin, 3, heldout)


def test_nothing_destructive_is_on_a_route() -> None:
    assert not [route for route in routes(LIST) if any(move.transition.by == "clear" for move in route.moves)]


def test_each_task_has_its_values_once_and_never_a_default() -> None:
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


def test_pages_of_one_name_are_one_goal() -> None:
    again = {**LIST.pages, "more": LIST.pages["options"]}
    to_both = (*LIST.pages["things"].transitions, GraphTransition(by="add", to="more"))
    again["things"] = LIST.pages["things"].model_copy(update={"transitions": to_both})
    assert len(samples_by_task(LIST.model_copy(update={"pages": again}), 0)["list.visit"]) == 1


def test_a_route_whose_end_does_not_tell_a_value_is_left_out() -> None:
    page = LIST.pages["things"]
    untold = tuple(each.model_copy(update={"shows": ()}) for each in page.transitions)
    graph = LIST.model_copy(update={"pages": {**LIST.pages, "things": page.model_copy(update={"transitions": untold})}})
    assert {task for task in samples_by_task(graph, 0) if "add" in task or task == "list.thing-thing"} == set()


def test_the_goal_names_the_page_and_the_values(origin: Origin) -> None:
    (first, *_) = of("things-add")
    query = query_for(first, origin)
    assert json.loads(query.goal) == {
        "showing": [{"role": "heading", "text": "Things"}, {"role": "list_item", "text": first.settings[0].value}]
    }
    assert query.source is Source.GRAPH and query.pages == ("list.things",)
    steps = [(step.operation, step.target, step.text) for step in query.path]
    value = first.settings[0].value
    assert steps == [("tap", "new", ""), ("replace", "new", value), ("tap", "add", ""), ("finish", "", "")]


def test_a_transition_can_be_checked_by_what_the_environment_finds(origin: Origin) -> None:
    page = LIST.pages["things"]
    own = {"all": [{"check": "storage", "key": "things", "contains": "{new}"}]}
    saved = tuple(
        each.model_copy(update={"shows": (), "goal": own}) if each.by == "add" else each for each in page.transitions
    )
    graph = LIST.model_copy(update={"pages": {**LIST.pages, "things": page.model_copy(update={"transitions": saved})}})
    sample = samples_by_task(graph, 0)["list.things-add-add"][0]
    goal = json.loads(query_for(sample, origin).goal)
    assert goal["showing"] == [{"role": "heading", "text": "Things"}]
    assert [each["contains"] for each in goal["all"]] == [setting.value for setting in sample.settings]


def test_an_item_of_a_list_is_scrolled_to() -> None:
    operations = [step.operation for step in route_path(of("thing-thing")[0])]
    assert operations == ["scroll", "tap", "finish"]


@pytest.mark.parametrize("task", list(samples_by_task(LIST, 0)))
@pytest.mark.parametrize("heldout", [False, True])
def test_every_value_is_said(task: str, heldout: bool, origin: Origin) -> None:
    for sample in samples_by_task(LIST, 0)[task]:
        query = query_for(sample, origin, heldout)
        assert all(slot.said and slot.said in query.instruction for slot in query.slots), query.instruction
        assert query.phrasing.rpartition("/")[2].startswith("h") is heldout


@pytest.mark.parametrize(
    ("does", "wish"),
    [
        ("Adds {new} to the list.", "add {new} to the list"),
        ("Goes back.", "go back"),
        ("Presses it.", "press it"),
        ("Copies the text", "copy the text"),
        ("Searches.", "search"),
        ("Closes the window.", "close the window"),
        ("Saves it.", "save it"),
    ],
)
def test_what_an_element_does_becomes_a_wish(does: str, wish: str) -> None:
    assert as_wish(does) == wish


def test_what_is_pressed_to_choose_a_value_has_no_sentence_of_its_own(origin: Origin) -> None:
    page = LIST.pages["options"]
    chosen = GraphTransition.model_validate(
        {"by": "order", "to": "options", "shows": [{"role": "radio", "text": "{order}", "state": "checked"}]}
    )
    unnamed = {**page.slots, "order": page.slots["order"].model_copy(update={"name": ""})}
    changed = page.model_copy(update={"slots": unnamed, "transitions": (*page.transitions, chosen)})
    graph = LIST.model_copy(update={"pages": {**LIST.pages, "options": changed}})
    for sample in samples_by_task(graph, 0)["list.options-order"]:
        (setting,) = sample.settings
        assert query_for(sample, origin).instruction.casefold().count("press") == 0
        assert f" {setting.value}" in query_for(sample, origin).instruction


def with_transitions(page: str, *added: Mapping[str, object], **elements: Mapping[str, str]) -> AppGraph:
    """The list with more transitions, and the elements of one page that they need."""
    before = LIST.pages[page].model_dump()
    changed = {
        **before,
        "elements": {**before["elements"], **elements},
        "transitions": [*before["transitions"], *added],
    }
    return LIST.model_copy(update={"pages": {**LIST.pages, page: GraphPage.model_validate(changed)}})


def more_of_the_options(title: str) -> AppGraph:
    """A page behind the options, with a button on it that says something."""
    more = {
        "title": title,
        "recognise": {"shows": [{"role": "heading", "text": "More"}]},
        "elements": {"help": {"target": "button:Help", "name": "Help"}},
        "transitions": [{"by": "help", "to": "more", "shows": [{"role": "text", "text": "No help."}]}],
    }
    graph = with_transitions(
        "options", {"by": "rest", "to": "more"}, rest={"target": "button:The rest", "name": "The rest"}
    )
    return graph.model_copy(update={"pages": {**graph.pages, "more": GraphPage.model_validate(more)}})


def test_the_way_is_said_before_what_is_done_at_its_end(origin: Origin) -> None:
    (sample,) = samples_by_task(more_of_the_options("the rest of them"), 0)["list.more-help"]
    text = query_for(sample, origin).instruction
    assert "the rest of them and press Help" in text and LIST.pages["options"].title not in text


def test_what_leads_to_a_page_is_said_where_its_name_is_that_of_a_nearer_one(origin: Origin) -> None:
    graph = more_of_the_options(LIST.pages["options"].title)
    found = samples_by_task(graph, 0)
    (sample,) = found["list.more-help"]
    assert "the options and press The rest and press Help" in query_for(sample, origin).instruction
    assert [sample.end for sample in found["list.visit"]] == ["options"]


def test_what_is_entered_on_two_pages_differs_because_no_goal_counts() -> None:
    page = LIST.pages["things"]
    adding = next(each for each in page.transitions if each.by == "add").model_copy(update={"to": "more"})
    more = page.model_copy(update={"title": "more things", "recognise": LIST.pages["thing"].recognise})
    again = tuple(each.model_copy(update={"to": "more"}) for each in page.transitions if each.by == "add")
    pages = {
        "things": page.model_copy(update={"transitions": (adding,)}),
        "more": more.model_copy(update={"transitions": again}),
    }
    found = samples_by_task(LIST.model_copy(update={"pages": pages}), 0)["list.more-add-add"]
    assert sorted(tuple(setting.value for setting in sample.settings) for sample in found) == [
        ("jam", "milk"),
        ("jam", "tea"),
        ("milk", "tea"),
    ]


@pytest.mark.parametrize(("words", "asked"), [({}, False), ({"name": "the mark"}, True), ({"does": "Ends it."}, True)])
def test_nobody_is_asked_to_press_what_has_no_name(words: dict[str, str], asked: bool) -> None:
    page = LIST.pages["things"]
    box = GraphElement(target="checkbox:#2", role="checkbox", **words)
    ticks = GraphTransition(by="box", to="things", shows=(Feature(role="text", text="1 left"),))
    changed = {"elements": {**page.elements, "box": box}, "transitions": (*page.transitions, ticks)}
    graph = LIST.model_copy(update={"pages": {**LIST.pages, "things": page.model_copy(update=changed)}})
    assert any(move.transition.by == "box" for route in routes(graph) for move in route.moves) is asked
