import pytest

from tests.stages.derive.samples import DONE, episode, query, step
from tests.stages.derive.screens import DrawnScreens, derived, kept, refused, tools_of
from trajmill.schemas.actions import Action, Click, Swipe, SystemButton, TypeText, action_from_json
from trajmill.schemas.episode import Episode
from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import Split
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.curate.leaks import NearLeaks
from trajmill.stages.curate.spec import CurateSpec
from trajmill.stages.derive.collected import DerivedRows
from trajmill.stages.derive.forks import Fork, Transition, fork_points
from trajmill.stages.derive.kind_spec import TaskSources
from trajmill.stages.derive.spec import ForksSpec


def way(*steps: str) -> list[Transition]:
    """Steps such as "A-x-B": on screen A, action x leads to screen B."""
    return [Transition(*each.split("-")) for each in steps]


SUCCESS = way("A-x-B", "B-y-C", "C-z-D", "D-end-D")


@pytest.mark.parametrize(
    ("failed", "forks"),
    [
        (way("A-x-B", "B-q-E", "E-end-E"), [Fork(1, 1, True)]),
        (way("A-x-B", "B-q-E", "E-back-B", "B-y-C", "C-end-C"), [Fork(1, 1, True), Fork(4, 2, False)]),
        (way("A-q-E", "E-r-C", "C-q-F"), [Fork(0, 0, True), Fork(2, 2, False)]),
        # Another way to the same screen passes it; the same action with another outcome is no fork.
        (way("A-w-B", "B-y-E"), []),
        (way("A-x-B", "B-y-C", "C-back-A", "A-q-F"), [Fork(2, 2, True)]),
        (way("A-x-B", "B-y-C", "C-z-D", "D-q-G"), [Fork(3, 3, True)]),
        (way("X-x-Y"), []),
    ],
)
def test_forks_are_those_of_the_equation(failed: list[Transition], forks: list[Fork]) -> None:
    assert fork_points(failed, SUCCESS) == forks


CLOCK = UIElement("text", "10:31", Box(0, 0, 90, 30))
LATE = UIElement("text", "10:32", Box(0, 0, 90, 30))
PIZZA = UIElement("list_item", "Pizza", Box(0, 200, 720, 300), ("clickable",))
SUSHI = UIElement("list_item", "Sushi", Box(0, 300, 720, 400), ("clickable",))
LOWER = PIZZA._replace(bounds=Box(100, 500, 300, 700))
Trees = dict[str, tuple[UIElement, ...]]
TREES: Trees = {
    "s0": (CLOCK, PIZZA, SUSHI),
    "f0": (LATE, SUSHI, LOWER),
    "s1": (PIZZA,),
    "f1": (SUSHI,),
    "two": (PIZZA, PIZZA),
}
RIGHT, WRONG = Click(x=360, y=250), Click(x=360, y=350)


def success(action: Action = RIGHT, before: str = "s0", guided: bool = False) -> Episode:
    purpose = Purpose.GUIDED if guided else Purpose.TRAIN
    return episode([step(0, action, (before, "s1")), step(1, DONE, ("s1", "s1"))], name="success", purpose=purpose)


def failure(action: Action | None = WRONG, before: str = "f0", label: StepLabel = StepLabel.HARMFUL) -> Episode:
    return episode([step(0, action, (before, "f1"), prompt="The user query: eat")], correct=False, labels=[label])


def forks(failed: Episode, *successes: Episode, trees: Trees = TREES) -> DerivedRows:
    of_groups = TaskSources({failed.trajectory.trajectory_id: successes}, {}, NearLeaks([], CurateSpec()))
    spec = ForksSpec()
    return derived(spec, failed, tools_of(spec, DrawnScreens(trees), of_tasks=of_groups))


def test_the_action_of_a_success_is_taught_on_the_failures_screen_and_the_failures_reply_rejected() -> None:
    (row,) = forks(failure(), success()).examples
    # Pizza is elsewhere on the failed attempt's screen, and the clock does not count.
    assert action_from_json(row.action or "") == Click(x=200, y=600)
    assert (row.box, row.screens, row.step_index, row.variant) == (LOWER.bounds, ("f0",), 0, "first")
    assert "The user query: eat" in row.messages[1].content
    assert '"coordinate": [200, 600]' in row.messages[2].content and "Thought 0" in row.messages[2].content
    assert row.rejected is not None and '"coordinate": [360, 350]' in row.rejected
    assert row.source_trajectories == (failure().trajectory.trajectory_id, success().trajectory.trajectory_id)
    assert [row.rejected for row in forks(failure(None), success()).examples] == ["no call"]
    assert kept(forks(failure(label=StepLabel.UNKNOWN), success())) == [(0, "first")]


def test_only_the_first_fork_may_teach_to_end() -> None:
    ends = episode([step(0, DONE, ("s0", "s0"))], name="success")
    early = episode([step(0, WRONG, ("f0", "f0"))], correct=False)
    assert kept(forks(early, ends)) == [(0, "first")]
    late = episode([step(0, WRONG, ("f1", "f0")), step(1, WRONG, ("f0", "f1"))], correct=False)
    assert refused(forks(late, ends)) == [(1, "end_after_another_way")]


def test_what_only_the_success_has_read_is_not_taught() -> None:
    types = success(TypeText(text="DELTA33"))

    def late(prompt: str) -> Episode:
        return episode([step(0, WRONG, ("f1", "f0")), step(1, WRONG, ("f0", "f1"), prompt=prompt)], correct=False)

    assert refused(forks(late("The user query: redeem the code"), types)) == [(1, "says_what_it_has_not_seen")]
    assert kept(forks(late('Step 1: Noted "delta33".'), types)) == [(1, "later")]


def test_positions_without_a_unique_element_are_not_guessed() -> None:
    scrolled = forks(failure(), success(Swipe(x=360, y=900, x2=360, y2=300)))
    assert action_from_json(scrolled.examples[0].action or "") == Swipe(x=360, y=900, x2=360, y2=300)
    typed = forks(failure(), success(TypeText(text="pizza")))
    assert action_from_json(typed.examples[0].action or "") == TypeText(text="pizza")
    assert refused(forks(failure(), success(Click(x=360, y=1200)))) == [(0, "position_without_element")]
    twice = {**TREES, "s0": (PIZZA, SUSHI, PIZZA), "f0": (PIZZA, PIZZA, SUSHI)}
    rows = forks(failure(SystemButton(button="Back")), success(), trees=twice)
    assert refused(rows) == [(0, "element_is_not_unique")]


@pytest.mark.parametrize(
    ("failed", "successes", "reason"),
    [
        (failure(), (), (None, "no_success_in_group")),
        (success(), (success(),), (None, "judged_correct")),
        (episode([], asked=query(split=Split.VALIDATION), correct=False), (success(),), (None, "held_out")),
        (failure(before="f1"), (success(),), (None, "no_shared_screen")),
        (failure(label=StepLabel.GOOD), (success(),), (0, "failed_step_is_good")),
    ],
)
def test_what_gives_no_fork_is_refused_with_a_reason(
    failed: Episode, successes: tuple[Episode, ...], reason: tuple[int | None, str]
) -> None:
    rows = forks(failed, *successes)
    assert rows.examples == () and refused(rows) == [reason]


def test_what_repeats_the_hints_of_a_success_is_refused() -> None:
    hinted = success(guided=True).model_copy(update={"guidance": "1. Thought 0\n2. Tap Pizza in the list of dishes"})
    said = hinted.steps[0].model_copy(update={"thought": "2. Tap Pizza in the list of dishes"})
    quoting = hinted.model_copy(update={"steps": (said, hinted.steps[1])})
    assert refused(forks(failure(), quoting)) == [(0, "quotes_guidance")]
