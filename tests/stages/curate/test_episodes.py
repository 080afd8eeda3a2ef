import pytest

from tests.stages.derive.samples import TAP, episode, query, step
from tests.stages.derive.screens import DrawnScreens, blank_screens
from trajmill.schemas.actions import Action, Answer, Click, Swipe, Terminate, TypeText
from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.trajectory import Step, TargetElement
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.curate.episodes import CuratedEpisode, curated_episode
from trajmill.stages.curate.spec import CurateSpec

BOX = Box(0, 0, 700, 900)
SWIPE = Swipe(x=300, y=900, x2=300, y2=100)
BLANK = blank_screens()


def thinking(thought: str, action: Action, target: str = "") -> Step:
    element = TargetElement(role="button", text=target, bounds=BOX) if target else None
    return step(0, action).model_copy(update={"thought": thought, "target": element})


def reasons(made: CuratedEpisode) -> list[tuple[int | None, str]]:
    return [(one.step_index, one.reason) for one in made.dropped]


@pytest.mark.parametrize(
    ("thought", "action", "target", "reason"),
    [
        ('I see "Files". Next I tap "Music": the user speaks of it.', TAP, "Music", None),
        ('I see "Files". Next I tap "Music".', TAP, "Pictures", "thought_of_other_element"),
        ("The cart is empty, so I scroll down.", TAP, "Checkout", "thought_of_other_action"),
        ("The cart is empty, so I scroll down.", SWIPE, "", None),
        ("I will type the address.", SWIPE, "", "thought_of_other_action"),
        ("I tap the field to type the name.", TAP, "Name", None),
        ("I typed the name. Now save it.", TAP, "Save", None),
        ("I enter the name.", TypeText(text="Bob"), "", None),
        ("I tap it.", TypeText(text="Bob"), "", "thought_of_other_action"),
        ("I tapped everything.", Terminate(status="success"), "", None),
        ("", TAP, "Music", None),
        ('He said "well".', Click(x=1, y=1), "", None),
    ],
)
def test_a_thought_may_not_contradict_its_action(thought: str, action: Action, target: str, reason: str | None) -> None:
    made = curated_episode(episode([thinking(thought, action, target)]), CurateSpec(), BLANK)
    assert reasons(made) == ([] if reason is None else [(0, reason)])
    lenient = CurateSpec(consistent_thoughts=False)
    assert curated_episode(episode([thinking(thought, action, target)]), lenient, BLANK).dropped == ()


def test_an_answer_must_have_been_on_a_screen() -> None:
    for answer, kept in (
        ("12.50", True),
        ("The total is $12.50.", True),
        ("The total is $13.50.", False),
        ("Jay", False),
        ("yes", True),
        ("1200 metres", True),
        ("", True),
    ):
        texts = {"s0": "Total 12.50", "s1": "1,200 metres"}
        screens = DrawnScreens({name: (UIElement("value", text, BOX),) for name, text in texts.items()})
        asked = episode([step(0, TAP), step(1, Answer(text=answer))], asked=query("Jay"))
        made = curated_episode(asked, CurateSpec(), screens)
        assert (made.episode == asked) is kept
        assert reasons(made) == ([] if kept else [(None, "ungrounded_answer")])
        assert curated_episode(asked, CurateSpec(grounded_answers=False), screens).episode == asked
        assert curated_episode(asked, CurateSpec(), BLANK).episode == asked, "without trees nobody can tell"


def test_only_steps_with_enough_score_are_learned_from() -> None:
    labels = list(StepLabel)
    judged = episode([step(n, TAP) for n in range(4)], labels=labels)
    assert curated_episode(judged, CurateSpec(), BLANK) == CuratedEpisode(judged, ())
    made = curated_episode(judged, CurateSpec(least_step_score=1.0), BLANK)
    assert reasons(made) == [(1, "low_step_score"), (2, "low_step_score"), (3, "no_step_score")]
    assert made.episode is not None and [each.index for each in made.episode.steps] == [0]
    unfiltered = judged.model_copy(update={"step_verdicts": ()})
    assert curated_episode(unfiltered, CurateSpec(least_step_score=1.0), BLANK).episode == unfiltered
