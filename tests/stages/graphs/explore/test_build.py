from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import PathStep, Platform
from trajmill.stages.graphs.base import GraphTransition
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


def built(*tried: Tried) -> tuple[GraphTransition, ...]:
    findings = Findings(ExploreBounds(), packaged_deny_list(), Platform.WEB)
    for each in tried:
        findings.add(each)
    app = unexplored("find", Platform.WEB)
    return GraphBuilder(app, findings.book, findings.trials, packaged_deny_list()).build({}).pages["start"].transitions


def test_what_stands_there_only_while_a_field_is_filled_is_operated_after_it() -> None:
    fill = tuple(PathStep(page="", operation=each, target="find", text="trajmill") for each in ("tap", "replace"))
    enter = (*fill, PathStep(page="", operation="key", target="", text="enter"))
    press = (PathStep(page="", operation="tap", target="empty"),)
    empty, found, cleared = screen("a", ""), screen("b", "trajmill", CLEAR), screen("c", "", CLEARED)

    def tried(before: WalkedScreen, after: WalkedScreen, kind: TrialKind, steps: Steps, way: Steps = ()) -> Tried:
        ends = {"before": before.screen_id, "after": after.screen_id}
        trial = Trial(**ends, way=way, kind=kind, target=steps[0].target, steps=steps, effect=Effect.CHANGED)
        return Tried(trial, before, after)

    made = built(
        tried(empty, found, TrialKind.FILL, fill),
        tried(empty, found, TrialKind.ENTER, enter),
        tried(found, cleared, TrialKind.PRESS, press, enter),
    )
    assert [(each.by, each.after) for each in made if each.operation == "tap"] == [("clear", ("search",))]
