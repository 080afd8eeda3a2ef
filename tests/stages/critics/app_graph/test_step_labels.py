"""A step is GOOD if less of the task is left after it, HARMFUL if more is left: on trees of a page with a list."""

from __future__ import annotations

import asyncio

from tests.stages.critics.little_app import ORIGIN, PRESS, Trees, Walk, element
from tests.stages.queries.samples import drafted
from trajmill.schemas.actions import PressKeys, TypeText
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import Platform, Query
from trajmill.stages.critics.app_graph.channels import StepCriticByGraph
from trajmill.stages.graphs.base import AppGraph
from trajmill.stages.queries.graph.routes import samples_by_task
from trajmill.stages.queries.graph.source import RouteGoal

ITEMS = ("Lathe", "Mill")
NOTE = {"kind": "field", "target": "note", "name": "the note", "values": ["oil", "grease"]}
GRAPH = AppGraph.model_validate(
    {
        "app": "shed",
        "title": "the shed",
        "platform": Platform.WEB,
        "start_state": {"url": "http://127.0.0.1:1/"},
        "start": "home",
        "pages": {
            "home": {
                "title": "the home page",
                "recognise": {"shows": [{"role": "heading", "text": "Home"}]},
                "elements": {name: {"target": name, "name": name} for name in ("list", "index", "about")},
                "transitions": [{"by": name, "to": to} for name, to in [("list", "list"), ("index", "index")]]
                + [{"by": "about", "to": "about"}],
            },
            "index": {
                "title": "the index page",
                "recognise": {"shows": [{"role": "heading", "text": "Index"}]},
                "elements": {"all": {"target": "all", "name": "all"}},
                "transitions": [{"by": "all", "to": "list"}],
            },
            "about": {
                "title": "the about page",
                "recognise": {"shows": [{"role": "heading", "text": "About"}]},
                "elements": {name: {"target": name, "name": name} for name in ("back", "index")},
                "transitions": [{"by": "back", "to": "home"}, {"by": "index", "to": "index"}],
            },
            "list": {
                "title": "the list page",
                "recognise": {"shows": [{"role": "heading", "text": "List"}]},
                "slots": {"item": {"kind": "list", "target": "item-{value}", "name": "the item", "values": ITEMS}},
                "transitions": [{"by": "item", "to": "item", "shows": [{"role": "heading", "text": "{item}"}]}],
            },
            "item": {
                "title": "the item page",
                "recognise": {"shows": [{"role": "heading", "text": "Item"}]},
                "slots": {"note": NOTE, "dark": {"kind": "switch", "target": "dark", "name": "dark colours"}},
                "transitions": [
                    {
                        "by": "note",
                        "operation": "key",
                        "keys": "enter",
                        "slots": ["note"],
                        "to": "item",
                        "does": "Adds {note}.",
                        "shows": [{"role": "text", "text": "{note}"}],
                    }
                ],
            },
        },
    }
)
BACK = PressKeys(keys=("back",))


def screen(title: str, *buttons: str) -> tuple[UIElement, ...]:
    rows = [element("button", each, 1 + at, PRESS, "", each) for at, each in enumerate(buttons)]
    return element("heading", title, 0), *rows


HOME, INDEX, ABOUT = screen("Home", "list", "index", "about"), screen("Index", "all"), screen("About", "back", "index")
LIST = (
    element("heading", "List", 0),
    *(element("list_item", each, 1 + at, PRESS, "", f"item-{each}") for at, each in enumerate(ITEMS)),
)


def item(name: str, note: str = "", *added: str, dark: bool = False) -> tuple[UIElement, ...]:
    field = element("text_field", "Note", 1, ("clickable", "editable", "focused"), note, "note")
    switch = element("checkbox", "Dark", 2, ("clickable", *(("checked",) if dark else ())), "", "dark")
    texts = [element("text", each, 4 + at) for at, each in enumerate(added)]
    return element("heading", "Item", 0), field, switch, element("heading", name, 3), *texts


def asked(note: str = "oil") -> Query:
    """Write a note on the lathe."""
    wanted = {"Lathe", note}
    samples = [each for group in samples_by_task(GRAPH, 0).values() for each in group]
    sample = next(
        each for each in samples if len(each.settings) == 2 and {setting.value for setting in each.settings} == wanted
    )
    return drafted(RouteGoal(sample), ORIGIN)


def labels(walk: Walk, status: str | None = None) -> list[str]:
    judged = asyncio.run(StepCriticByGraph({GRAPH.app: GRAPH}).judge(walk.end(asked(), status), walk.trees))
    return [step.label.value.lower() for step in judged]


def start() -> Walk:
    return Walk(HOME, Trees())


def in_lathe() -> Walk:
    return start().tap("list", LIST).tap("Lathe", item("Lathe"))


def test_a_wrong_item_is_harmful_and_the_way_back_is_good() -> None:
    walk = start().tap("list", LIST).tap("Mill", item("Mill")).do(BACK, LIST).tap("Lathe", item("Lathe"))
    assert labels(walk) == ["good", "harmful", "good", "good"]


def test_a_loop_leads_away_and_back() -> None:
    walk = start().tap("about", ABOUT).tap("back", HOME).tap("list", LIST).do(BACK, HOME).tap("list", LIST)
    assert labels(walk) == ["harmful", "good", "good", "harmful", "good"]


def test_another_route_to_the_goal_counts() -> None:
    walk = start().tap("index", INDEX).tap("all", LIST).tap("Lathe", item("Lathe"))
    assert labels(walk) == ["neutral", "good", "good"]
    walk = start().tap("about", ABOUT).tap("index", INDEX).tap("all", LIST)
    assert labels(walk) == ["harmful", "good", "good"]


def test_a_wrong_value_is_harmful_and_its_correction_is_good() -> None:
    wrong = in_lathe().do(TypeText(text="rust"), item("Lathe", "rust"))
    right = wrong.do(TypeText(text="oil", clear=True), item("Lathe", "oil"))
    sent = right.do(PressKeys(keys=("enter",)), item("Lathe", "", "oil"))
    assert labels(sent, "success") == ["good", "good", "harmful", "good", "good", "good"]


def test_a_wrong_act_and_an_unasked_setting_are_harmful() -> None:
    walk = in_lathe().do(TypeText(text="rust", enter=True), item("Lathe", "", "rust"))
    walk = walk.tap("Dark", item("Lathe", "", "rust", dark=True)).tap("Dark", item("Lathe", "", "rust"))
    assert labels(walk, "success")[2:] == ["harmful", "harmful", "good", "harmful"]


def test_an_unfinished_end_is_harmful() -> None:
    assert labels(in_lathe(), "success") == ["good", "good", "harmful"]
    in_mill = start().tap("list", LIST).tap("Mill", item("Mill"))
    done = in_mill.do(TypeText(text="oil", enter=True), item("Mill", "", "oil"))
    assert labels(done, "success") == ["good", "harmful", "harmful", "harmful"]
