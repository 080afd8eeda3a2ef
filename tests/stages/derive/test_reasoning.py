import json
from collections.abc import Callable

import pytest

from tests.stages.derive.samples import DONE, PHONE, TAP, episode, step
from tests.stages.derive.screens import OK, Body, DrawnScreens, derived, derived_with, tools_of, words
from trajmill.schemas.actions import Action, Click, Wait
from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.gui_owl_v3 import GuiOwlMobile
from trajmill.schemas.episode import Episode
from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.trajectory import TargetElement
from trajmill.stages.derive.collected import DerivedRows
from trajmill.stages.derive.spec import ActionSemanticsSpec, ReasoningSpec

TARGET = TargetElement(role=OK.role, text=OK.text, bounds=OK.bounds)
OFFLINE = ReasoningSpec(sources=("offline",))


def one_step(**changes: object) -> Episode:
    given = step(0, TAP).model_copy(update={"target": TARGET, **changes})
    return episode([given])


def call(action: Action) -> str:
    return GuiOwlMobile().render(Reply("", action, ""), native_frame(PHONE))


def thinking(right_from: int) -> Callable[[Body], str]:
    """Thinks `thought N`, and acts rightly on the thoughts from number `right_from` on."""
    thoughts = 0

    def answer(body: Body) -> str:
        nonlocal thoughts
        if "response_format" in body:
            thoughts += 1
            return json.dumps({"thought": f"thought {thoughts}"})
        return call(Click(x=310, y=790) if thoughts >= right_from else DONE)

    return answer


def test_a_thought_is_kept_if_the_stored_action_follows_from_it_alone() -> None:
    rows, asked = derived_with(OFFLINE, one_step(), thinking(1))
    (row,) = rows.examples
    assert (row.variant, row.written_by) == ("style_1", "describer_think-1@tiny")
    reply = GuiOwlMobile().parse(row.messages[-1].content, native_frame(PHONE))
    assert reply == Reply("thought 1", TAP, "Did 0"), "the action stays the stored one"
    think, act = asked
    assert "The user query: go" in words(think)
    assert "thought 1" in words(act) and "The user query" not in words(act)


def test_the_next_try_has_another_style_the_last_is_told_the_action_and_then_it_is_refused() -> None:
    rows, asked = derived_with(OFFLINE, one_step(), thinking(2))
    assert [row.variant for row in rows.examples] == ["style_2"]
    rows, asked = derived_with(OFFLINE, one_step(), thinking(3))
    assert [row.variant for row in rows.examples] == ["hinted"]
    told = [words(body) for body in asked if "response_format" in body]
    assert ["(not told)" in text for text in told] == [True, True, False]
    assert 'button \\"OK\\"' in told[-1] or 'button "OK"' in told[-1]
    rows, asked = derived_with(OFFLINE, one_step(), thinking(99))
    assert rows.examples == ()
    assert refused(rows) == [("offline", "other_action")]
    assert len(asked) == 6


def thinks(thought: str) -> Callable[[Body], str]:
    return lambda body: json.dumps({"thought": thought}) if "response_format" in body else call(TAP)


def refused(rows: DerivedRows) -> list[tuple[str | None, str]]:
    return [(row.variant, row.reason) for row in rows.refusals]


@pytest.mark.parametrize(
    ("thought", "reason"),
    [
        *((each, "no_thought") for each in ("(not told)", "—", " None. ", "the thought")),
        ('I clicked button "OK" at (50%, 63%).', "tells_position"),
        ("The button is at x=360, y=812.", "tells_position"),
        ("It is 50% across, so I press it.", "tells_position"),
        ("The hint says to press OK.", "tells_hint"),
        *((each, None) for each in ("Seats (4, 5) are free, so I press OK.", "Back.", "点击确定")),
    ],
)
def test_a_placeholder_or_a_copied_hint_is_no_thought_though_the_action_is_right(
    thought: str, reason: str | None
) -> None:
    given = one_step(prompt="The user query: take seats (4, 5)\nTask progress: none")
    rows, asked = derived_with(OFFLINE, given, thinks(thought))
    assert [row.variant for row in rows.examples] == ([] if reason else ["style_1"])
    assert refused(rows) == ([("offline", reason)] if reason else [])
    assert len(asked) == (3 if reason else 2), "the action of such a thought is not asked for"


def test_numbers_that_the_task_does_not_have_are_positions_and_an_agents_own_placeholder_is_no_thought() -> None:
    rows, _ = derived_with(OFFLINE, one_step(), thinks("Seats (4, 5) are free, so I press OK."))
    assert refused(rows) == [("offline", "tells_position")]
    rows, _ = derived_with(ReasoningSpec(sources=("online",)), one_step(thought="—"), thinks("I press OK."))
    assert refused(rows) == [("online", "no_thought")]


def test_outputs_of_several_agents_are_merged_into_one_thought() -> None:
    spoken = one_step(role_outputs=json.dumps({"manager": "Press OK.", "notes": "none"}))
    spec = ReasoningSpec(sources=("agents",))
    rows, asked = derived_with(spec, spoken, thinking(1), writer=True)
    assert [(row.variant, row.written_by) for row in rows.examples] == [("agents", "writer_merge-1@tiny")]
    assert "Press OK." in words(asked[0])
    rows, _ = derived_with(spec, spoken, thinking(1))
    assert refused(rows) == [("agents", "no_writer")]
    walked = spoken.model_copy(update={"trajectory": spoken.trajectory.model_copy(update={"agent": "reference"})})
    rows, asked = derived_with(spec, walked, thinking(1), writer=True)
    assert (rows.examples, asked) == ((), []), "the notes of an agent without a model are no roles' outputs"


@pytest.mark.parametrize(
    ("version", "right_from", "kept", "reason"),
    [
        ("gui-owl-7b", 0, True, None),
        ("gui-owl-7b", 1, False, "other_action"),
        ("embedded-1", 0, False, "template_thought"),
        ("explorer", 0, False, "template_thought"),
        ("reference", 0, False, "template_conclusions"),
    ],
)
def test_own_thoughts_that_agree_are_kept(version: str, right_from: int, kept: bool, reason: str | None) -> None:
    given = one_step()
    given = given.model_copy(update={"trajectory": given.trajectory.model_copy(update={"model_version": version})})
    rows, _ = derived_with(ReasoningSpec(sources=("online",)), given, thinking(right_from))
    assert [row.variant for row in rows.examples] == (["online"] if kept else [])
    assert [why for _, why in refused(rows)] == ([] if reason is None else [reason])


DONE_HEADING = UIElement("heading", "All done", Box(100, 60, 700, 130), ("title",), element_id="app.done/title")
GIVEN = episode([step(0, TAP), step(1, TAP, ("s1", "s1")), step(2, Wait()), step(3, DONE)])
ONE_STEP = episode([step(0, TAP)])


def test_action_and_effect_without_a_model() -> None:
    screens = DrawnScreens({"s0": (OK,), "s1": (DONE_HEADING,), "s2": (OK,), "s3": (OK,), "s4": (OK,)})
    spec = ActionSemanticsSpec()
    rows = derived(spec, GIVEN, tools_of(spec, screens))
    action, effect = rows.examples
    reply = GuiOwlMobile().parse(action.messages[-1].content, native_frame(PHONE))
    assert isinstance(reply, Reply) and reply.action == TAP
    assert action.screens == effect.screens == ("s0", "s1")
    assert action.messages[1].content.count("<image>") == 2
    assert effect.messages[-1].content.startswith('Tapped button "OK": opened "All done"')
    assert "app.done" not in effect.messages[-1].content
    assert (effect.action, effect.written_by) == (None, "template")
    reasons = [(row.step_index, row.reason) for row in rows.refusals]
    assert reasons == [(1, "no_change"), (2, "no_visible_action"), (3, "no_visible_action")]


def voting(consistent: int) -> Callable[[Body], str]:
    seen = 0

    def answer(body: Body) -> str:
        nonlocal seen
        if "effect" in body["response_format"]["json_schema"]["schema"]["properties"]:
            seen += 1
            return json.dumps({"effect": "A page opened.", "consistent": seen <= consistent})
        return json.dumps({"description": "Presses the button OK."})

    return answer


@pytest.mark.parametrize(("consistent", "kept"), [(3, True), (2, True), (1, False), (0, False)])
def test_a_description_is_kept_by_the_votes_for_it(consistent: int, kept: bool) -> None:
    rows, _ = derived_with(ActionSemanticsSpec(candidates=1), ONE_STEP, voting(consistent))
    if kept:
        _, row = rows.examples
        assert row.messages[-1].content == "Presses the button OK. A page opened."
        assert row.written_by == "describer_action-1+describer_effect-1@tiny"
    else:
        assert [row.variant for row in rows.examples] == ["action"]
        assert rows.refusals[0].reason == "not_consistent"
        assert f"{consistent} of 3 votes" in rows.refusals[0].detail


def test_a_model_without_a_valid_answer_is_a_failure_and_no_refusal() -> None:
    rows, _ = derived_with(ActionSemanticsSpec(), ONE_STEP, lambda body: "no idea")
    assert ([row.variant for row in rows.examples], rows.refusals) == (["action"], ())
    assert rows.failures[0].message.startswith("step 0: ")
