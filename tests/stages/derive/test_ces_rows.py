"""Warm-up rows for CES, in the form of appendix B.1, on a step of its case study."""

import pytest

from tests.stages.derive.samples import DONE, TAP, episode, query, step, walked
from tests.stages.derive.screens import derived as derived_by
from trajmill.schemas.actions import Action, Answer, Click, LongPress, OpenApp, Swipe, SystemButton, Terminate, TypeText
from trajmill.schemas.episode import Episode
from trajmill.schemas.geometry import Box
from trajmill.schemas.tables.trajectory import TargetElement
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.derive.ces_rows import instruction_of
from trajmill.stages.derive.collected import DerivedRows
from trajmill.stages.derive.spec import CesDataSpec

TASK = "Organize a business meeting with saltyfunsweets using ZOOM Cloud Meetings."
BOX = Box(600, 300, 700, 400)


def meeting(labels: tuple[StepLabel, ...] = ()) -> Episode:
    schedule = step(0, TAP).model_copy(
        update={
            "thought": "I should select the 'Schedule' option to set up a new meeting.",
            "conclusion": "I have accessed the 'Schedule' section in the Zoom app.",
            "target": TargetElement(role="button", text="Schedule", bounds=BOX),
        }
    )
    done = step(1, DONE).model_copy(update={"thought": "Nothing is left."})
    return episode([schedule, done], asked=query().model_copy(update={"instruction": TASK}), labels=labels)


def derived(given: Episode) -> DerivedRows:
    return derived_by(CesDataSpec(), given)


def test_a_coordinators_row_has_the_intention_and_the_low_level_instruction() -> None:
    first, last, tracker = derived(meeting()).examples
    thought = "I should select the 'Schedule' option to set up a new meeting."
    assert first.messages[-1].content == f'<think>{thought}</think><answer>Tap "Schedule".</answer>'
    asked = first.messages[1].content
    assert TASK in asked and asked.endswith("<image>") and "### Current state ###\nnone" in asked
    assert (first.variant, first.screens, first.step_index) == ("coordinator", ("s0",), 0)
    assert (first.written_by, first.action) == ("m0", None), "the thought is the policy's, and the reply is no action"
    assert last.messages[-1].content == "<think>Nothing is left.</think><answer>The task is complete.</answer>"
    assert "I have accessed the 'Schedule' section" in last.messages[1].content
    assert tracker.variant == "state_tracker"


def test_a_state_trackers_row_has_the_context_of_the_step_that_it_leads_to() -> None:
    tracker = derived(meeting()).examples[-1]
    assert tracker.messages[-1].content == "<answer>I have accessed the 'Schedule' section in the Zoom app.</answer>"
    asked = tracker.messages[1].content
    assert '"kind":"click","button"' in asked and "I should select" in asked and "<image>" not in asked
    assert (tracker.screens, tracker.source_screens, tracker.step_index) == ((), ("s1",), 1)


def test_the_words_of_a_walk_are_no_roles() -> None:
    rows = derived(walked(meeting()))
    assert (rows.examples, [row.reason for row in rows.refusals]) == ((), ["template_conclusions"])


def test_bad_steps_and_elements_without_a_name_are_refused() -> None:
    rows = derived(meeting((StepLabel.HARMFUL,)))
    assert [row.variant for row in rows.examples] == ["coordinator"]
    assert {(row.variant, row.reason) for row in rows.refusals} == {
        ("coordinator", "harmful"),
        ("state_tracker", "harmful"),
    }
    nameless = derived(episode([step(0, TAP), step(1, DONE)]))
    assert [(row.reason, row.variant) for row in nameless.refusals] == [("element_without_name", "coordinator")]


@pytest.mark.parametrize(
    ("action", "named", "said"),
    [
        (Click(x=1, y=1), "Cart", 'Tap "Cart".'),
        (Click(x=1, y=1, count=2), "Cart", 'Double-tap "Cart".'),
        (Click(x=1, y=1), "", None),
        (LongPress(x=1, y=1), "Cart", 'Hold "Cart".'),
        (TypeText(text="Bob"), "Name", 'Type "Bob" into "Name".'),
        (TypeText(text="Bob"), "", 'Type "Bob".'),
        (Swipe(x=5, y=900, x2=5, y2=100), "", "Scroll down."),
        (Swipe(x=900, y=5, x2=100, y2=5), "", "Scroll right."),
        (SystemButton(button="Home"), "", "Press Home."),
        (OpenApp(app="Zoom"), "", 'Open "Zoom".'),
        (Answer(text="3 pm"), "", 'The task is complete. Answer "3 pm".'),
        (Terminate(status="failure"), "", None),
    ],
)
def test_the_instruction_of_an_action(action: Action, named: str, said: str | None) -> None:
    assert instruction_of(action, named) == said
