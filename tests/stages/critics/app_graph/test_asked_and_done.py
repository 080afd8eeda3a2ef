"""Values count only where they belong, and each act that a query asks for must have been done, on trees of a page."""

from __future__ import annotations

import asyncio

import pytest

from tests.stages.critics.little_app import ORIGIN, PRESS, Trees, Walk, element
from tests.stages.queries.samples import drafted
from trajmill.schemas.actions import PressKeys, TypeText
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import Platform, Query
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.app_graph.channels import GraphChannel
from trajmill.stages.critics.base import Vote
from trajmill.stages.graphs.base import AppGraph
from trajmill.stages.queries.graph.routes import samples_by_task
from trajmill.stages.queries.graph.source import RouteGoal

MACHINES = ("Lathe", "Mill")
GRAPH = AppGraph.model_validate(
    {
        "app": "workshop",
        "title": "the workshop",
        "platform": Platform.WEB,
        "start_state": {"url": "http://127.0.0.1:1/"},
        "start": "notes",
        "pages": {
            "notes": {
                "title": "the notes",
                "recognise": {"shows": [{"role": "heading", "text": "Notes"}]},
                "elements": {"machines": {"target": "tab", "name": "Machines"}},
                "slots": {"note": {"kind": "field", "target": "note", "name": "the note", "values": ["Lathe", "oil"]}},
                "transitions": [
                    {"by": "machines", "to": "machines"},
                    {
                        "by": "note",
                        "operation": "key",
                        "keys": "enter",
                        "slots": ["note"],
                        "to": "notes",
                        "does": "Adds {note}.",
                        "shows": [{"role": "list_item", "text": "{note}"}],
                    },
                ],
            },
            "machines": {
                "title": "the machines",
                "recognise": {"shows": [{"role": "heading", "text": "Machines"}]},
                "elements": {f"like-{n}": {"target": f"like-{n}", "name": f"Like {n}"} for n in (1, 2)},
                "slots": {
                    "filter": {"kind": "field", "target": "q", "name": "the filter", "values": ["Lathe", "Mill"]},
                    "dark": {"kind": "switch", "target": "dark", "name": "dark colours"},
                },
                "transitions": [
                    {
                        "by": f"like-{n}",
                        "to": "machines",
                        "does": f"Likes machine {n}.",
                        "shows": [{"role": "button", "text": f"Liked {n}", "id": f"like-{n}"}],
                        "lacks": [{"role": "button", "text": f"Like {n}", "id": f"like-{n}"}],
                    }
                    for n in (1, 2)
                ],
            },
        },
    }
)


def notes(text: str = "", *added: str) -> tuple[UIElement, ...]:
    field = element("text_field", "Note", 2, ("clickable", "editable", "focused"), text, "note")
    items = [element("list_item", each, 3 + at) for at, each in enumerate(added)]
    return element("heading", "Notes", 0), element("button", "Machines", 1, PRESS, "", "tab"), field, *items


def machines(*liked: int, text: str = "", dark: bool = False) -> tuple[UIElement, ...]:
    field = element("search_field", "Filter", 1, ("clickable", "editable"), text, "q")
    switch = element("checkbox", "Dark", 2, ("clickable", *(("checked",) if dark else ())), "", "dark")
    likes = [
        element("button", f"Liked {n}" if n in liked else f"Like {n}", 2 + n, PRESS, "", f"like-{n}") for n in (1, 2)
    ]
    items = [element("list_item", name, 6 + at) for at, name in enumerate(MACHINES)]
    return element("heading", "Machines", 0), field, switch, *likes, *items


def query(task: str, value: str = "") -> Query:
    samples = samples_by_task(GRAPH, 0)[f"workshop.{task}"]
    sample = next(each for each in samples if not value or value in [setting.value for setting in each.settings])
    return drafted(RouteGoal(sample), ORIGIN)


def vote(episode: Episode, trees: Trees) -> Vote:
    return asyncio.run(GraphChannel(Channel.TEXT, {GRAPH.app: GRAPH}).judge(episode, trees, []))


def judged(walk: Walk, asked: Query) -> bool:
    return vote(walk.end(asked), walk.trees).correct


def start() -> Walk:
    return Walk(notes(), Trees())


def test_an_item_of_a_list_is_no_entered_value() -> None:
    asked = query("machines-set-filter", "Lathe")
    early = start().tap("Machines", machines())
    end = vote(early.end(asked), early.trees)
    assert not end.correct and "filter is not 'Lathe' at the end" in end.reason
    done = start().tap("Machines", machines()).tap("Filter", machines()).write("Lathe", machines(text="Lathe"))
    assert judged(done, asked)


def test_one_of_two_presses_is_not_enough() -> None:
    asked = query("machines-like-1-like-2")
    half = start().tap("Machines", machines()).tap("Like 1", machines(1))
    found = vote(half.end(asked), half.trees)
    assert not found.correct
    assert "did not do 'like-2'" in found.reason and "Like 2 still stands" in found.reason.replace("'", "")
    assert judged(half.tap("Like 2", machines(1, 2)), asked)


def test_what_was_taken_back_is_not_done_and_may_be_done_again() -> None:
    asked = query("machines-like-1")
    back = start().tap("Machines", machines()).tap("Like 1", machines(1)).tap("Liked 1", machines())
    assert not judged(back, asked)
    again = start().tap("Machines", machines()).tap("Like 1", machines(1)).tap("Liked 1", machines())
    assert judged(again.tap("Like 1", machines(1)), asked)
    both = start().tap("Machines", machines()).tap("Like 2", machines(2)).tap("Like 1", machines(1, 2))
    assert not judged(both, asked)


def test_an_act_needs_the_value_in_its_own_field() -> None:
    asked = query("notes-note", "Lathe")

    def sent(text: str) -> Walk:
        typed = start().do(TypeText(text=text), notes(text))
        return typed.do(PressKeys(keys=("enter",)), notes("", text))

    assert judged(sent("Lathe"), asked)
    assert not judged(sent("oil"), asked)
    with_enter = start().do(TypeText(text="Lathe", enter=True), notes("", "Lathe"))
    assert judged(with_enter, asked)


def test_a_setting_that_nobody_asked_for_is_an_error_until_it_is_put_back() -> None:
    asked = query("machines-like-1")
    changed = start().tap("Machines", machines()).tap("Dark", machines(dark=True)).tap("Like 1", machines(1, dark=True))
    found = vote(changed.end(asked), changed.trees)
    assert not found.correct and "dark" in found.reason
    put_back = (
        start()
        .tap("Machines", machines())
        .tap("Dark", machines(dark=True))
        .tap("Dark", machines())
        .tap("Like 1", machines(1))
    )
    assert judged(put_back, asked)


def test_what_no_screen_shows_or_nobody_can_read_is_unjudged() -> None:
    done = start().tap("Machines", machines()).tap("Like 1", machines(1))
    asked = query("machines-like-1")
    for goal in ('{"all": [{"check": "url", "contains": "/x"}]}', '{"showing": [{}]}', "[]"):
        episode = done.end(asked.model_copy(update={"goal": goal}))
        with pytest.raises(JudgeFailure, match="goal"):
            vote(episode, done.trees)


def test_the_answers_of_a_causal_chain_must_have_been_seen_in_their_turn() -> None:
    asked = query("machines-like-1")
    chain = '{"pathway": [{"showing": [{"role": "list_item", "text": "Mill"}]}]}'
    done = start().tap("Machines", machines()).tap("Like 1", machines(1))
    assert vote(done.end(asked.model_copy(update={"goal": chain})), done.trees).correct
    never = chain.replace("Mill", "Saw")
    end = vote(done.end(asked.model_copy(update={"goal": never})), done.trees)
    assert not end.correct and "answer 1 of 1" in end.reason
