"""A small run with real screens and made-up figures, written through the warehouse's own API."""

import json
import random
from typing import Any

from tests.records import record
from tests.warehouse.samples import at_origin, commit_rows, judgement, query, stage_run, trajectory
from trajmill.schemas.actions import Action, Click, SystemButton, Terminate, action_to_json
from trajmill.schemas.errors import FailureClass
from trajmill.schemas.observation import Observation
from trajmill.schemas.record import Row
from trajmill.schemas.tables.failure import Failure
from trajmill.schemas.tables.policy_version import JudgeQuality, PolicyVersion, RoundSummary, SplitSuccess, StageCount
from trajmill.schemas.tables.query import Query, Split
from trajmill.schemas.tables.screen import Screen
from trajmill.schemas.tables.trajectory import Purpose, Step
from trajmill.schemas.tables.verdict import Channel, StepLabel, StepVerdict, TrajectoryVerdict
from trajmill.stages.environments.simulated.environment import SimulatedEnvironment
from trajmill.stages.environments.simulated.world import shared_world
from trajmill.warehouse.layout import StageRun, Warehouse

RUN = "run-a"
HOSTILE = 'Order <script>alert("pizza")</script> & two [bold]drinks[/bold]'
STEPS = 5
STAGES = ("generate", "rollout", "judge", "guide", "rollout_guided", "derive", "release", "train", "evaluate")


def write_run(warehouse: Warehouse, rounds: int = 2) -> None:
    """Commit rounds of a run whose success rises."""
    environment = SimulatedEnvironment(shared_world(()), query("q", stage_run()).platform)
    known: set[str] = set()
    for number in range(1, rounds + 1):
        at = stage_run(number=number, run_id=RUN)
        rows: list[Row] = [_query(place, at) for place in range(3)] if number == 1 else []
        for place in range(3):
            rows += _attempt(environment, at, place, Purpose.TRAIN, solved=number > 1 and place < 2, known=known)
        rows += _attempt(environment, at, 2, Purpose.GUIDED, solved=True, known=known)
        lost = {"stage": "rollout", "input_id": "query-1", "failure_class": FailureClass.ENVIRONMENT, "attempts": 3}
        failure = Failure(message="the simulated device crashed (injected fault)", **lost, **at_origin(at))
        commit_rows(warehouse, at, *rows, _summary(at, rounds), policy_version(at, rounds), failure)


def _query(place: int, at: StageRun) -> Query:
    changes = {"instruction": HOSTILE if place < 2 else f"Open the app number {place} and look around"}
    return query(f"query-{place}", at, Split.TRAIN).model_copy(update=changes)


def _attempt(
    environment: SimulatedEnvironment, at: StageRun, place: int, purpose: Purpose, solved: bool, known: set[str]
) -> list[Row]:
    number = at.round * 100 + place * 10 + (purpose is Purpose.GUIDED)
    values = {"purpose": purpose, "reward": 1.0 if solved else 0.0, "steps": STEPS, "model_version": "p-1"}
    row = trajectory(number, at, f"query-{place}", **values)
    rows: list[Row] = [row, judgement(row.trajectory_id, at, correct=solved or place == 2)]
    common: dict[str, Any] = {"trajectory_id": row.trajectory_id, **at_origin(at)}
    reason = "It shows what was asked for." if solved else "Nothing was ordered."
    for channel in (Channel.TEXT, Channel.MULTIMODAL):
        rows.append(record(TrajectoryVerdict, channel=channel, correct=solved, reason=reason, **common))
    chance = random.Random(number)
    seen = environment.reset_now(_query(place, at), number)
    rows += _screen(seen, at, known)
    for index in range(STEPS):
        action = _action(seen, index, chance)
        after = environment.step_now(action)
        said = {
            "thought": f"Step {index}: <img src=x onerror=alert(1)>",
            "conclusion": f"I pressed something on {seen.app or 'the launcher'} <b>now</b>.",
        }
        screens = (seen.screen.screen_id, after.screen.screen_id)
        taken = step(index, action, screens, "", target=None, **common)
        apps = {"app_before": seen.app, "app_after": after.app, "role_outputs": "{}"}
        label = (StepLabel.GOOD, StepLabel.NEUTRAL, StepLabel.HARMFUL)[index % 3]
        why = {"analysis": "Because of the screen.", "summary": "Pressed something."}
        verdict = StepVerdict(index=index, label=label, **why, **common)
        rows += [*_screen(after, at, known), taken.model_copy(update=said | apps), verdict]
        seen = after
    return rows


def step(index: int, action: Action, screens: tuple[str, str], words: str, **more: Any) -> Step:
    """A step all of whose texts are `words`; `more` has its trajectory, its target and its origin."""
    values: dict[str, Any] = dict.fromkeys(("app_before", "thought", "conclusion", "raw_response", "prompt"), words)
    values |= {"screen_before": screens[0], "screen_after": screens[1], "app_after": "mail", "guided": False}
    values |= {"action": action_to_json(action), "action_kind": action.kind}
    return Step(index=index, role_outputs=json.dumps({"planner": words}), **values, **more)


def _action(seen: Observation, index: int, chance: random.Random) -> Action:
    if index == STEPS - 1:
        return Terminate(status="success")
    pressable = [element for element in seen.elements or () if element.clickable]
    if not pressable:
        return SystemButton(button="Back")
    point = chance.choice(pressable).bounds.center
    return Click(x=point.x, y=point.y)


def _screen(seen: Observation, at: StageRun, known: set[str]) -> list[Row]:
    handle = seen.screen
    if handle.screen_id in known:
        return []
    known.add(handle.screen_id)
    size, elements = handle.size._asdict(), seen.elements or ()
    return [Screen(screen_id=handle.screen_id, image=handle.encode(), elements=elements, **size, **at_origin(at))]


def _success(number: int, rounds: int) -> tuple[SplitSuccess, ...]:
    goals = {"train": 58, "heldout_slots": 51, "heldout_phrasings": 42, "heldout_apps": 17}
    share = 1 - (1 - number / rounds) ** 2
    return tuple(SplitSuccess(split=name, queries=60, successes=round(goal * share)) for name, goal in goals.items())


def _summary(at: StageRun, rounds: int) -> RoundSummary:
    stages = [
        StageCount(stage=stage, rows_in=600 - 40 * place, rows_out=560 - 40 * place, seconds=1.5 + place, cost=0.0)
        for place, stage in enumerate(STAGES)
        if at.round == 1 or stage != "generate"
    ]
    counts = ("true_positive", "false_positive", "true_negative", "false_negative")
    judge = {"trajectory": (240, 6, 310, 9), "text": (245, 30, 286, 4), "step": (900, 80, 700, 60)}
    qualities = (JudgeQuality(level=level, **dict(zip(counts, each, strict=True))) for level, each in judge.items())
    return RoundSummary(
        policy_before=f"policy-{at.round - 1}",
        policy_after=f"policy-{at.round}",
        stages=tuple(stages),
        success_before=_success(at.round - 1, rounds),
        success_after=_success(at.round, rounds),
        judge=tuple(qualities),
        trained=True,
        reference_paths_used=10 * at.round,
        release=f"release-{at.round}",
        **at_origin(at),
    )


def policy_version(at: StageRun, rounds: int) -> PolicyVersion:
    return PolicyVersion(
        model_version=f"policy-{at.round}",
        parent=f"policy-{at.round - 1}",
        release=f"release-{at.round}",
        recipe="{}",
        updates=120 * at.round,
        success=_success(at.round, rounds),
        promoted=at.round != 2,
        reason="held-out success rose by 12 points" if at.round != 2 else "held-out success fell by 3 points",
        **at_origin(at),
    )
