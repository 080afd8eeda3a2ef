import json
from collections.abc import Callable

import pytest

from tests.stages.derive.samples import DONE, PHONE, TAP, episode, step
from tests.stages.derive.screens import OK, Body, DrawnScreens, derived, derived_with, tools_of
from trajmill.schemas.actions import Wait
from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.gui_owl_v3 import GuiOwlMobile
from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import UIElement
from trajmill.stages.derive.spec import ActionSemanticsSpec

DONE_HEADING = UIElement("heading", "All done", Box(100, 60, 700, 130), ("title",), element_id="app.done/title")
GIVEN = episode([step(0, TAP), step(1, TAP, ("s1", "s1")), step(2, Wait()), step(3, DONE)])
ONE_STEP = episode([step(0, TAP)])


def test_both_tiers_without_a_model() -> None:
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
    spec = ActionSemanticsSpec(tiers=("effect",), candidates=1)
    rows, asked = derived_with(spec, ONE_STEP, voting(consistent))
    assert len(asked) >= 2
    if kept:
        (row,) = rows.examples
        assert row.messages[-1].content == "Presses the button OK. A page opened."
        assert row.written_by == "describer_action-1+describer_effect-1@tiny"
    else:
        assert rows.examples == ()
        assert rows.refusals[0].reason == "not_consistent"
        assert f"{consistent} of 3 votes" in rows.refusals[0].detail


def test_a_model_without_a_valid_answer_is_a_failure_and_no_refusal() -> None:
    rows, _ = derived_with(ActionSemanticsSpec(tiers=("effect",)), ONE_STEP, lambda body: "no idea")
    assert (rows.examples, rows.refusals) == ((), ())
    assert rows.failures[0].message.startswith("step 0: ")
