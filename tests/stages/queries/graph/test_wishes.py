"""Queries from forms and lists: what somebody wants, with values, and nothing that is only a part of it."""

import json
from typing import Any

import pytest

from tests.stages.queries.samples import drafted
from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.environments.screen_goal import PATHWAY
from trajmill.stages.graphs.base import AppGraph
from trajmill.stages.queries.graph.routes import routes, samples_by_task
from trajmill.stages.queries.graph.source import RouteGoal

_SLOTS: dict[str, Any] = {
    "name": {
        "kind": "field",
        "target": "name",
        "name": "Your name",
        "type": "person",
        "values": ["Ann Lee", "Bo Hart"],
    },
    "day": {"kind": "field", "target": "day", "name": "Day", "type": "date", "values": ["2026-12-01", "2026-12-09"]},
    "hours": {
        "kind": "field",
        "target": "hours",
        "name": "Hours",
        "type": "number",
        "values": ["2", "3"],
        "default": "1",
    },
    "bench": {"kind": "choice", "target": "radio:{value}", "name": "Bench", "values": ["Pine bench", "Oak bench"]}
    | {"default": "Pine bench"},
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
    words = " ".join(query.instruction for query in queries)
    assert "for 2 hours" in words and "with tools" in words and "Oak bench" in words
    assert "press" not in words and "into" not in words
    # What is left at its default is neither said nor done.
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


@pytest.mark.parametrize(
    ("name", "title", "said"),
    [
        ("Save", "Add a bench", "add a bench for "),
        ("Reserve it", "Benches", "reserve it for "),
        ("OK", "Benches", 'ill in and send the form "Benches" for '),
        ("Rent", "Benches", "ill in and send the form"),
        ("Order", "Benches", "order for "),
    ],
)
def test_the_words_come_from_the_button_or_the_title(name: str, title: str, said: str, origin: Origin) -> None:
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
        "slots": {
            "text": {"kind": "field", "target": "text", "name": "Card", "type": "title", "values": ["Fix the lamp"]}
        },
        "transitions": [{"by": "add", "to": "board", "submits": True, "slots": ["text"], "shows": shows}],
    }
    graph = AppGraph.model_validate(
        {"app": "kanban", "platform": Platform.WEB, "start": "board", "pages": {"board": board, "card": card}}
    )
    [query] = [each for each in queries_of(graph, origin) if each.task == "kanban.board-add"]
    assert 'dd "Fix the lamp"' in query.instruction and "To do" not in query.instruction
    assert [step.target for step in query.path] == ["a", "a", "text", "text", "button:Add", ""]


def test_a_form_leaves_a_choice_of_others_alone() -> None:
    asked = [{each.slot for each in route.settings} for route in routes(booking())]
    assert {"name", "day"} in asked and {"name", "day", "tools"} in asked and set(_SLOTS) in asked
    assert all({"name", "day"} <= slots for slots in asked)
