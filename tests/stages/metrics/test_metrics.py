"""Successes by split, their intervals, a paired comparison of two policies, and when an action is the right one."""

import pytest

from trajmill.schemas.actions import Action, Click, Drag, LongPress, Swipe, SwitchDevice, SystemButton, TypeText
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.tables.query import Split
from trajmill.stages.metrics.action_match import RightAction, match_action
from trajmill.stages.metrics.intervals import PairedOutcomes, holm, success_by_split, wilson


def test_changes_of_side_decide_the_test() -> None:
    outcomes = PairedOutcomes(both=40, lost=2, gained=10, neither=28)
    assert outcomes.queries == 80 and outcomes.difference == pytest.approx(0.1)
    # Twelve changed sides: 1 + 12 + 66 of 4,096 outcomes have two or fewer on one side, and as many on the other.
    assert outcomes.p_value == pytest.approx(2 * 79 / 4096)
    low, high = outcomes.interval
    assert 0.0 < low < 0.1 < high < 0.2
    swapped = outcomes._replace(lost=10, gained=2)
    assert swapped.interval == pytest.approx((-high, -low)) and swapped.p_value == outcomes.p_value
    assert PairedOutcomes(9, 0, 0, 3).p_value == PairedOutcomes(9, 3, 3, 0).p_value == 1.0


def test_without_correlation_the_interval_joins_those_of_both_rates() -> None:
    # 6 * 4 = 12 * 2: one outcome says nothing about the other.
    outcomes = PairedOutcomes(both=6, lost=2, gained=12, neither=4)
    a, b = wilson(8, 24), wilson(18, 24)
    low = 10 / 24 - ((18 / 24 - b.low) ** 2 + (a.high - 8 / 24) ** 2) ** 0.5
    high = 10 / 24 + ((b.high - 18 / 24) ** 2 + (8 / 24 - a.low) ** 2) ** 0.5
    assert outcomes.interval == pytest.approx((low, high))
    assert PairedOutcomes(0, 0, 0, 0).interval == (-1.0, 1.0)
    assert PairedOutcomes(7, 0, 0, 0).interval.high < 0.5


def test_p_values_are_adjusted_for_their_number() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0] and holm([]) == []


SLOTS, TRAIN = Split.HELDOUT_SLOTS, Split.TRAIN


def test_successes_are_counted_per_split() -> None:
    counts = success_by_split([(TRAIN, False), (SLOTS, True), (SLOTS, False), (SLOTS, True)])
    assert [(entry.split, entry.queries, entry.successes) for entry in counts] == [(SLOTS, 3, 2), (TRAIN, 1, 0)]
    assert success_by_split([]) == ()


def test_it_is_the_published_interval() -> None:
    # Newcombe 1998, Table I: 81 of 263.
    low, high = wilson(81, 263)
    assert (round(low, 4), round(high, 4)) == (0.2553, 0.3662)


@pytest.mark.parametrize(("n", "successes", "low", "high"), [(0, 0, 0, 1), (10, 0, 0, 0.2775), (10, 10, 0.7225, 1)])
def test_the_ends_are_reached_only_by_certainty(n: int, successes: int, low: float, high: float) -> None:
    assert wilson(successes, n) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize("case", [(3, 2), (-1, 2)])
def test_impossible_counts_are_refused(case: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="successes"):
        wilson(*case)


SCREEN = Size(1080, 2400)
MESSAGES = Box(560, 1250, 640, 1360)
UP, DOWN = Swipe(x=540, y=1800, x2=540, y2=600), Swipe(x=540, y=600, x2=540, y2=1800)


def right(action: Action, box: Box | None = None) -> RightAction:
    return RightAction(action, box, SCREEN)


def test_the_failures_of_the_papers_case_study_and_other_types_count_as_it_says() -> None:
    assert match_action(Click(x=669, y=976), right(Click(x=660, y=980), Box(600, 900, 740, 1050))).parameters
    step_3 = match_action(DOWN, right(TypeText(text="Business")))
    assert not step_3.type and not step_3.parameters
    step_12 = match_action(Click(x=671, y=1305), right(Click(x=600, y=1305), MESSAGES))
    assert (step_12.type, step_12.parameters) == (True, False)
    assert match_action(UP, right(Swipe(x=10, y=900, x2=20, y2=100))).parameters
    assert not match_action(UP, right(DOWN)).parameters and match_action(UP, right(DOWN)).type
    assert not match_action(SystemButton(button="Back"), right(SystemButton(button="Home"))).type
    assert not match_action(LongPress(x=600, y=1305), right(Click(x=600, y=1305), MESSAGES)).type
    assert not match_action(None, right(UP)).type


@pytest.mark.parametrize(
    ("said", "wanted", "box", "is_right"),
    [
        (Click(x=560, y=1250), Click(x=600, y=1305), MESSAGES, True),
        (Click(x=559, y=1250), Click(x=600, y=1305), MESSAGES, False),
        (LongPress(x=600, y=1300), LongPress(x=600, y=1305), MESSAGES, True),
        (LongPress(x=600, y=1500), LongPress(x=600, y=1305), MESSAGES, False),
        (TypeText(text="a meeting"), TypeText(text="the meeting"), None, False),
        (TypeText(text="meeting"), TypeText(text="the meeting"), None, True),
        (UP, UP, None, True),
        (DOWN, UP, None, False),
        (SystemButton(button="Home"), SystemButton(button="Home"), None, True),
        (TypeText(text="the meeting the meeting"), TypeText(text="the meeting"), None, False),
        (TypeText(text="bye bye"), TypeText(text="bye bye"), None, True),
        (Swipe(x=540, y=1800, x2=540, y2=1799), UP, None, False),
        (SwitchDevice(device="desktop"), SwitchDevice(device="phone"), None, False),
        (Drag(x=560, y=1250, x2=900, y2=2000), Drag(x=600, y=1305, x2=900, y2=2100), MESSAGES, True),
        (Drag(x=560, y=1250, x2=900, y2=1500), Drag(x=600, y=1305, x2=900, y2=2100), MESSAGES, False),
        (Drag(x=559, y=1250, x2=900, y2=2100), Drag(x=600, y=1305, x2=900, y2=2100), MESSAGES, False),
        # A drag of a tenth of the screen: where it begins is within 14 % of where it should end.
        (Drag(x=600, y=1305, x2=605, y2=1305), Drag(x=600, y=1305, x2=708, y2=1305), MESSAGES, False),
        (Drag(x=600, y=1305, x2=492, y2=1305), Drag(x=600, y=1305, x2=708, y2=1305), MESSAGES, False),
        (Drag(x=600, y=1305, x2=690, y2=1305), Drag(x=600, y=1305, x2=708, y2=1305), MESSAGES, True),
    ],
)
def test_parameters_are_right_as_equation_25_is(said: Action, wanted: Action, box: Box | None, is_right: bool) -> None:
    """A point in the box, an F1 above 0.5 (not 0.5 itself), the same direction; else the type alone.

    A text typed twice and a gesture of no length are not right, though the equation's letter lets them pass.
    """
    assert match_action(said, right(wanted, box)).parameters is is_right
