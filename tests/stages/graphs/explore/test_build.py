from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import PathStep, Platform
from trajmill.stages.graphs.base import GraphPage, Mark
from trajmill.stages.graphs.explore.base import Effect, ExploreBounds, Trial, TrialKind, WalkedScreen, unexplored
from trajmill.stages.graphs.explore.build import GraphBuilder
from trajmill.stages.graphs.explore.deny_list import packaged_deny_list
from trajmill.stages.graphs.explore.explore import Findings
from trajmill.stages.graphs.explore.journal import Tried

Steps = tuple[PathStep, ...]
PLACE = Box(0, 0, 10, 10)
HEADING = UIElement(role="heading", text="Find", bounds=PLACE, states=("title",))
CLEAR = UIElement(role="button", text="Clear", bounds=PLACE, states=("clickable",), element_id="empty")
CLEARED = UIElement(role="text", text="All is gone.", bounds=PLACE)


def screen(name: str, typed: str, *more: UIElement) -> WalkedScreen:
    field = UIElement(
        role="text_field", text="Search", bounds=PLACE, states=("clickable", "editable"), value=typed, element_id="find"
    )
    return WalkedScreen(screen_id=name, app="find", elements=(HEADING, field, *more))


def pages_of(*tried: Tried) -> tuple[GraphPage, ...]:
    findings = Findings(ExploreBounds(), packaged_deny_list(), Platform.WEB)
    for each in tried:
        findings.add(each)
    app = unexplored("find", Platform.WEB)
    return tuple(GraphBuilder(app, findings.book, findings.trials, packaged_deny_list()).build({}).pages.values())


def test_what_stands_there_only_while_a_field_is_filled_is_operated_after_it() -> None:
    fill = tuple(PathStep(page="", operation=each, target="find", text="trajmill") for each in ("tap", "replace"))
    enter = (*fill, PathStep(page="", operation="key", target="", text="enter"))
    press = (PathStep(page="", operation="tap", target="empty"),)
    empty, found, cleared = screen("a", ""), screen("b", "trajmill", CLEAR), screen("c", "", CLEARED)

    def tried(before: WalkedScreen, after: WalkedScreen, kind: TrialKind, steps: Steps, way: Steps = ()) -> Tried:
        ends = {"before": before.screen_id, "after": after.screen_id}
        trial = Trial(**ends, way=way, kind=kind, target=steps[0].target, steps=steps, effect=Effect.CHANGED)
        return Tried(trial, before, after)

    (made,) = pages_of(
        tried(empty, found, TrialKind.FILL, fill),
        tried(empty, found, TrialKind.ENTER, enter),
        tried(found, cleared, TrialKind.PRESS, press, enter),
    )
    assert [(each.by, each.after) for each in made.transitions if each.operation == "tap"] == [("clear", ("search",))]


def at(row: int, role: str, text: str, left: int = 0) -> UIElement:
    states = ("clickable",) if role in ("link", "button") else ()
    return UIElement(role=role, text=text, bounds=Box(left, row * 20, left + 50, row * 20 + 20), states=states)


AGES, SORTED = (at(row, "text", age, 500) for row, age in enumerate(("47", "9", "33"), 2)), ("9", "33", "47")
BUTTONS = (
    *(at(0, "button", name, left) for left, name in enumerate(("More", "Menu", "Nothing", "Undo", "Redo", "Cut"))),
    at(0, "button", "Rate us", 90),
    at(1, "button", "Age", 500),
)
TABLE = (*BUTTONS, *AGES)
LINKS = tuple(at(row, "link", text, 300) for row, text in enumerate(("Profile", "Settings")))
MANY = tuple(at(row, "link", text, 300) for row, text in enumerate(("Copy", "Move", "Share", "Pin")))


def test_what_changes_nothing_and_what_only_opens_is_marked_and_a_sorted_column_is_told() -> None:
    def pressed(name: str, *after: UIElement) -> Tried:
        before = screen("a", "", *TABLE)
        last = screen(name, "", *after) if after else before
        effect = Effect.CHANGED if after else Effect.NOTHING
        target = f"button:{name}"
        step = PathStep(page="", operation="tap", target=target)
        ends = {"before": "a", "after": last.screen_id, "effect": effect}
        return Tried(Trial(**ends, way=(), kind=TrialKind.PRESS, target=target, steps=(step,)), before, last)

    start, menu = pages_of(
        pressed("More", *TABLE, *LINKS),
        pressed("Menu", *TABLE, *MANY),
        pressed("Nothing"),
        pressed("Rate us", *(at(0, "button", "Thanks", 90) if each.text == "Rate us" else each for each in TABLE)),
        pressed(
            "Age",
            *BUTTONS[:-1],
            at(1, "button", "Age, sorted", 500),
            *(at(row, "text", age, 500) for row, age in enumerate(SORTED, 2)),
        ),
    )
    ways = {each.by: each for each in start.transitions}
    assert {name: way.marks for name, way in ways.items()} == {
        "more": (Mark.OPENS,),
        "menu": (),
        "rate-us": (),
        "age": (),
    }
    assert menu.marks == (Mark.OPENS,)
    assert ways["age"].does == "Sort by Age."
    assert {name for name, each in start.elements.items() if Mark.IDLE in each.marks} == {"nothing"}
