from dataclasses import dataclass, field, replace

import pytest

from tests.stages.derive.samples import TAP, episode, query, step
from tests.stages.derive.screens import blank_screens
from tests.stages.rollout.toy import (
    BUTTON,
    ORIGIN,
    ToyAgent,
    ToyEnvironment,
    ToyFactory,
    look,
    press_and_finish,
    toy_query,
)
from trajmill.schemas.actions import Action, Click, Wait
from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import Observation, UIElement, look_of
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.trajectory import Purpose, StopReason
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.environments.base import EnvironmentFactory
from trajmill.stages.rollout.base import Attempt, FinishedAttempt, Limits, plan_branches
from trajmill.stages.rollout.branch import BranchPoint, PlannedBranch, branch_point, choose_points
from trajmill.stages.rollout.episode import run_episode
from trajmill.stages.rollout.worker import run_attempts

GOOD, NEUTRAL, HARMFUL = StepLabel.GOOD, StepLabel.NEUTRAL, StepLabel.HARMFUL


def failed(*labels: StepLabel, first_error: int | None = None, name: str = "t", asked: Query | None = None) -> Episode:
    steps = [step(index, TAP) for index in range(len(labels))]
    made = episode(steps, name=name, asked=asked, correct=False, labels=labels)
    assert made.judgement is not None
    judgement = made.judgement.model_copy(update={"first_error_step": first_error})
    return made.model_copy(update={"judgement": judgement})


def test_a_branch_goes_on_before_the_first_error_else_after_the_last_good_step() -> None:
    screens = blank_screens()
    point = branch_point(failed(GOOD, GOOD, HARMFUL, GOOD, first_error=2), screens)
    assert point is not None and [each.index for each in point.steps] == [0, 1]
    assert point.look == "s2", "without a tree the screen is its pixels"
    point = branch_point(failed(GOOD, NEUTRAL, GOOD, NEUTRAL), screens)
    assert point is not None and len(point.steps) == 3
    assert branch_point(failed(HARMFUL, GOOD, first_error=0), screens) is None
    assert branch_point(failed(NEUTRAL, StepLabel.UNKNOWN), screens) is None
    assert branch_point(episode([step(0, TAP)], correct=True, labels=[GOOD]), screens) is None


def test_each_query_without_a_success_has_one_point_the_farthest_first() -> None:
    lengths = (("a", 2), ("a", 3), ("b", 4), ("c", 5))
    attempts = [failed(*[GOOD] * steps, name=str(steps), asked=query(name)) for name, steps in lengths]
    chosen = choose_points(attempts, {"c"}, blank_screens(), most=5)
    assert [(each.query.query_id, len(each.point.steps)) for each in chosen] == [("b", 4), ("a", 3)]
    assert choose_points(attempts, {"c"}, blank_screens(), most=1) == chosen[:1]
    planned = plan_branches(chosen, 3, run_seed=0, round_number=1, per_point=2)
    assert [(each.query.query_id, each.attempt) for each in planned] == [("b", 0), ("b", 1), ("a", 0)]
    assert len({each.seed for each in planned}) == 3
    assert {each.purpose for each in planned} == {Purpose.BRANCH}


PRESSED, START = look(True), look(False)
FINISH = ToyAgent(press_and_finish)


async def parent(does: Action = Click(x=5, y=5)) -> Episode:
    """An episode that does the same again and again."""
    attempt = Attempt(toy_query(), Purpose.TRAIN, 0, 7)
    return (await run_episode(attempt, ToyAgent(lambda _: does), ToyEnvironment(), Limits(), ORIGIN)).episode


def point_of(parent: Episode, steps: int, end: Observation) -> BranchPoint:
    key = look_of(end.screen.screen_id, end.elements, end.screen.size, True)
    return BranchPoint(parent.trajectory.trajectory_id, parent.trajectory.seed, parent.steps[:steps], key)


async def branched(
    point: BranchPoint, factory: EnvironmentFactory, count: int = 1, at_once: int = 1
) -> list[FinishedAttempt]:
    done: list[FinishedAttempt] = []

    async def record(made: FinishedAttempt) -> None:
        done.append(made)

    planned = plan_branches([PlannedBranch(toy_query(), point)], count, 0, 1, per_point=count)
    await run_attempts(planned, lambda _: FINISH, factory, Limits(), ORIGIN, record, at_once)
    return done


async def test_a_branch_is_a_trajectory_with_the_steps_of_its_parent() -> None:
    walked = await parent()
    (made,) = await branched(point_of(walked, 2, PRESSED), ToyFactory())
    trajectory, steps = made.episode.trajectory, made.episode.steps
    assert (trajectory.parent_id, trajectory.branched_at) == (walked.trajectory.trajectory_id, 2)
    assert (trajectory.reward, trajectory.stop_reason, trajectory.steps) == (1.0, StopReason.AGENT_DONE, 3)
    assert trajectory.purpose is Purpose.BRANCH and trajectory.trajectory_id != walked.trajectory.trajectory_id
    own = {"trajectory_id": trajectory.trajectory_id, "made_by": trajectory.made_by}
    assert steps[:2] == tuple(each.model_copy(update=own) for each in walked.steps[:2])
    assert [each.action_kind for each in steps] == ["click", "click", "terminate"]


async def test_a_branch_that_reaches_another_screen_is_void_and_says_so_in_one_line() -> None:
    walked = await parent(Wait())
    other = look_of("elsewhere", None, PRESSED.screen.size, True)
    point = point_of(walked, 1, START)
    (made,) = await branched(BranchPoint(point.parent_id, point.seed, point.steps, other), ToyFactory())
    trajectory = made.episode.trajectory
    assert (trajectory.status, trajectory.reward, trajectory.steps) == ("failed", None, 0)
    assert made.failure is not None and made.failure.attempts == 3
    assert "at step 1: doing its steps again led to another screen (before); the branch is void" in made.failure.message
    assert "\n" not in made.failure.message and trajectory.parent_id == point.parent_id


Elements = tuple[UIElement, ...] | None


@dataclass
class RestorableToy(ToyEnvironment):
    did: list[str] = field(default_factory=list)
    restores: list[Elements] = field(default_factory=list)
    """The elements of screens that are restored instead of that of the snapshot; None if it is on another device."""

    async def reset(self, query: Query, seed: int) -> Observation:
        self.did.append(f"reset {seed}")
        return await super().reset(query, seed)

    async def step(self, action: Action) -> Observation:
        self.did.append(action.kind)
        return await super().step(action)

    async def snapshot(self) -> bool:
        return self.pressed

    async def restore(self, snapshot: object) -> Observation | None:
        self.did.append(f"restore {snapshot}")
        self.pressed = bool(snapshot)
        shown = self.restores.pop() if self.restores else (BUTTON,)
        return None if shown is None else replace(look(self.pressed), elements=shown)

    __hash__ = ToyEnvironment.__hash__


async def test_the_steps_of_a_parent_are_done_once_where_its_state_can_be_copied() -> None:
    walked, environment = await parent(), RestorableToy()
    made = await branched(point_of(walked, 2, PRESSED), ToyFactory([environment]), count=3)
    assert environment.did == ["reset 7", "click", "click", *("terminate", "restore True") * 2, "terminate"]
    assert [each.episode.trajectory.reward for each in made] == [1.0] * 3
    assert len({each.episode.trajectory.trajectory_id for each in made}) == 3
    assert all(each.episode.steps[1].screen_after == "after" for each in made)
    several = [RestorableToy() for _ in range(3)]
    await branched(point_of(walked, 2, PRESSED), ToyFactory(list(several)), count=3, at_once=3)
    assert sorted(each.did[0] for each in several) == ["reset 7", "restore True", "restore True"]


@pytest.mark.parametrize("lost", [None, (BUTTON, BUTTON)], ids=["elsewhere", "another screen"])
async def test_where_the_snapshot_is_not_or_restores_another_screen_the_steps_are_done_again(lost: Elements) -> None:
    walked, environment = await parent(), RestorableToy(restores=[lost])
    made = await branched(point_of(walked, 1, PRESSED), ToyFactory([environment]), count=2)
    did = ["reset 7", "click", "terminate"]
    assert environment.did == [*did, "restore True", *did]
    assert [each.episode.trajectory.reward for each in made] == [1.0, 1.0]
    noted = made[1].earlier_failure
    assert "its snapshot led to another screen" in noted.message if noted else lost is None
