from pathlib import Path

import pytest

from tests.stages.environments.browser.site import serving
from tests.stages.graphs.explore.exploring import ExploredGraph, explore
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.kinds import BrowserSpec
from trajmill.stages.graphs.base import OUTSIDE, Mark, SlotKind, ValueType
from trajmill.stages.graphs.explore.base import unexplored
from trajmill.stages.graphs.values import examples
from trajmill.stages.graphs.verify import EdgeState

pytestmark = [pytest.mark.browser, pytest.mark.slow]

_GOOD = (EdgeState.HOLDS, EdgeState.SKIPPED)
_PAGES = Path(__file__).with_name("pages")


def explore_site(page: str, folder: Path) -> ExploredGraph:
    with serving(_PAGES) as address:
        app = unexplored("site", Platform.WEB, start_state={"url": f"{address}{page}"})
        factory = BrowserSpec().factory(Platform.WEB)
        found = explore(app, folder / "site.jsonl", workers=1, factory=factory, verified=True)
    assert not found.explored.left and not [edge.reason for edge in found.edges if edge.state not in _GOOD]
    return found


def test_links_that_leave_are_marked_and_pages_behind_a_log_in_too(tmp_path: Path) -> None:
    found = explore_site("/", tmp_path)
    graph, explored = found.graph, found.explored
    leaving = {each.by: each.address for _, each in graph.transitions() if each.to == OUTSIDE}
    assert leaving == {"far": "far.example:443", "near": "near.example:80"}
    assert Mark.LEAVES in graph.pages["start"].elements["far"].marks
    assert graph.pages["help"].marks == (Mark.NEEDS_LOGIN,)
    assert not any(trial.steps[-1].operation == "replace" for trial in explored.trials)


def test_choices_numbers_sliders_dates_and_what_lies_below_the_screen_are_found(tmp_path: Path) -> None:
    found = explore_site("/form", tmp_path)
    graph, explored = found.graph, found.explored
    start = graph.pages["start"]
    assert start.scrolls and start.title == "Order"
    assert {name: (slot.kind, set(slot.values), slot.default) for name, slot in start.slots.items()} == {
        "pieces": (SlotKind.FIELD, {"2", "3", "4", "5", "6"}, ""),
        "day": (SlotKind.FIELD, set(examples()[ValueType.DATE]), ""),
        "speed": (SlotKind.SLIDER, {"9", "2"}, "4"),
        "size": (SlotKind.CHOICE, {"Small", "Large"}, "Small"),
        "i-agree": (SlotKind.SWITCH, {"off", "on"}, "off"),
    }
    assert (start.slots["size"].opens, start.slots["size"].target_of("Large")) == ("size", "list_item:Large")
    assert [graph.pages[each.to].title for each in start.transitions if each.by == "terms-of-use"] == ["Terms of use"]
    agree = next(each for each in explored.trials if each.target == "agree" and each.steps[-1].operation == "tap")
    assert [step.operation for step in (*agree.way, *agree.steps)] == ["scroll", "scroll", "tap"]


def test_what_a_right_click_on_an_item_opens_is_found(tmp_path: Path) -> None:
    start = explore_site("/tree", tmp_path).graph.pages["start"]
    [(name, tree)] = start.slots.items()
    assert (name, tree.values) == ("item", ("Invoices", "Letters", "Photos"))
    assert [(each.by, each.operation) for each in start.transitions] == [("item", "hold")]
