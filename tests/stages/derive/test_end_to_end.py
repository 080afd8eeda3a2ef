import pytest

from tests.stages.derive.samples import DESKTOP, DONE, ORIGIN, PHONE, TAP, episode, query, size_of, step
from trajmill.schemas.actions import Action, Click, Drag, OpenApp, Scroll, TypeText, Wait, action_from_json
from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.families import ANY
from trajmill.schemas.episode import Episode
from trajmill.schemas.tables.query import Platform, Split
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.derive.collected import as_trusted
from trajmill.stages.derive.step_data import end_to_end_examples

GOOD, NEUTRAL, HARMFUL = StepLabel.GOOD, StepLabel.NEUTRAL, StepLabel.HARMFUL


def reasons(given: Episode) -> list[tuple[int | None, str]]:
    return [(d.step_index, d.reason) for d in end_to_end_examples(given, size_of, ORIGIN).dropped]


@pytest.mark.parametrize("platform", list(Platform))
def test_a_completion_is_read_back_as_the_stored_action_in_stored_pixels(platform: Platform) -> None:
    screen = "s0" if platform is Platform.PHONE else "d0"
    far = Click(x=719, y=1279) if platform is Platform.PHONE else Click(x=1279, y=719, button="right")
    actions: list[Action] = [far, TypeText(text='a "quoted" line\n</tool_call>'), Wait(seconds=2.0), DONE]
    if platform is not Platform.PHONE:
        actions += [Drag(x=1, y=2, x2=3, y2=4), Scroll(x=5, y=6, clicks=-3)]
    steps = [step(i, action, (screen, "x"), platform=platform) for i, action in enumerate(actions)]
    made = end_to_end_examples(episode(steps, asked=query(platform=platform)), size_of, ORIGIN)
    frame = native_frame(PHONE if platform is Platform.PHONE else DESKTOP)
    replies = [ANY.dialect(platform).parse(e.messages[-1].content, frame) for e in made.examples]
    assert [r.action for r in replies if isinstance(r, Reply)] == actions
    assert [action_from_json(e.action or "") for e in made.examples] == actions


def test_only_judged_successes_of_the_training_split_are_learned_and_ablations_more() -> None:
    steps = [step(0, TAP), step(1, DONE)]
    assert reasons(episode(steps, correct=False)) == [(None, "judged_incorrect")]
    assert reasons(episode(steps, correct=None)) == [(None, "not_judged")]
    assert reasons(episode(steps, status="failed")) == [(None, "failed")]
    assert reasons(episode(steps, purpose=Purpose.EVALUATE)) == [(None, "other_purpose")]
    assert reasons(episode(steps, purpose=Purpose.REFERENCE)) == [(None, "other_purpose")]
    for split in (Split.HELDOUT_SLOTS, Split.HELDOUT_PHRASINGS, Split.HELDOUT_APPS):
        assert reasons(episode(steps, asked=query(split=split))) == [(None, "held_out")]
    assert reasons(episode(steps, purpose=Purpose.GUIDED)) == []
    steps = [step(0, TAP), step(1, TAP), step(2, DONE)]
    refused = episode(steps, correct=False, labels=[GOOD, HARMFUL, GOOD])
    assert reasons(as_trusted(refused, judge=True, step_critic=True)) == [(None, "judged_incorrect")]
    assert reasons(as_trusted(refused, judge=False, step_critic=True)) == [(1, "harmful")]
    assert reasons(as_trusted(refused, judge=False, step_critic=False)) == []
    assert reasons(as_trusted(episode(steps, correct=None), judge=False, step_critic=False)) == [(None, "not_judged")]


def test_the_step_critic_cleans_and_the_history_stays_true() -> None:
    same = ("s1", "s1")
    steps = [step(0, TAP), step(1, TAP, same), step(2, TAP), step(3, TAP), step(4, DONE, ("s4", "s4"))]
    given = episode(steps, labels=[GOOD, NEUTRAL, NEUTRAL, HARMFUL, NEUTRAL])
    made = end_to_end_examples(given, size_of, ORIGIN)
    assert [(d.step_index, d.reason) for d in made.dropped] == [(1, "no_effect"), (3, "harmful")]
    assert [e.step_index for e in made.examples] == [0, 2, 4]
    assert made.examples[-1].messages[1].content == steps[4].prompt + "<image>"


def test_steps_that_do_not_fit_a_conversation_are_dropped_with_their_reason() -> None:
    steps = [
        step(0, None),
        step(1, TAP, prompt=""),
        step(2, TAP, prompt="Order <image> now"),
        step(3, TypeText(text="x")).model_copy(update={"conclusion": "Typed <image>"}),
        step(4, Click(x=1, y=1)).model_copy(update={"action": Click(x=1, y=1, count=2).model_dump_json()}),
        step(5, OpenApp(app="Bites")),
        step(6, TAP, prompt="Play the <video> now"),
    ]
    dropped = [(0, "unparsed"), (1, "no_prompt"), (2, "placeholder_in_text"), (3, "placeholder_in_text")]
    assert reasons(episode(steps)) == [*dropped, (4, "not_round_trip"), (6, "placeholder_in_text")]


def test_a_step_that_repeats_its_hints_is_dropped_and_so_are_those_that_remember_it() -> None:
    hints = '1. Open "Food".\n2. Tap "Large".'
    told = step(1, TAP).model_copy(update={"thought": 'Hint 2. tap  "Large". So I do.'})
    remembers = step(2, TAP, prompt='The user query: go\nStep 1: I followed 1. Open "Food".')
    unaware = step(3, TypeText(text='Tap "Large".'))
    given = episode([step(0, TAP), told, remembers, unaware, step(4, DONE)], purpose=Purpose.GUIDED)
    guided = given.model_copy(update={"guidance": hints})
    assert reasons(guided) == [(1, "quotes_guidance"), (2, "quotes_guidance")]
    assert reasons(given) == []
