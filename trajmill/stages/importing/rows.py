"""Makes rows of a recording: its query, its trajectory, its steps, and its screens as observations."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from trajmill.schemas.actions import Action, Answer, Terminate, action_to_json, ends_episode, pressed_point
from trajmill.schemas.dialects.gui_owl_v3 import dialect_for
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation, ScreenHandle
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.query import RECORDED, Query, Source, Split
from trajmill.schemas.tables.step import Step
from trajmill.schemas.tables.trajectory import Purpose, StopReason, Trajectory
from trajmill.schemas.text import storable
from trajmill.stages.agents.base import Decision
from trajmill.stages.importing.base import BadRecordingError, RecordedScreen, RecordedStep, Recording
from trajmill.stages.rollout.episode import storable_decision, target_element

_LONGEST_INSTRUCTION = 10_000
_MOST_STEPS = 1_000


class ImportedRows(NamedTuple):
    """The rows of one recording."""

    query: Query
    trajectory: Trajectory
    steps: tuple[Step, ...]
    observations: tuple[Observation, ...]
    """Its screens; one that repeats is listed again."""


def rows_of(recording: Recording, layout: str, origin: Origin) -> ImportedRows:
    """The rows of a recording; equal recordings give equal ids.

    Raises:
        BadRecordingError: it has no instruction, no step, or far too many.
    """
    instruction = " ".join(storable(recording.instruction).split())
    if not instruction or len(instruction) > _LONGEST_INSTRUCTION:
        raise BadRecordingError(f"its instruction has {len(instruction):,} characters")
    if not 0 < len(recording.steps) <= _MOST_STEPS:
        raise BadRecordingError(f"it has {len(recording.steps):,} steps")
    decisions = _decisions(recording, instruction)
    observations = _observations(recording)
    query = _query(recording, layout, instruction, origin)
    screens = [observation.screen.screen_id for observation in observations]
    actions = [None if decision.action is None else action_to_json(decision.action) for decision in decisions]
    trajectory_id = content_id("imported", query.query_id, actions, screens)
    common = origin.common(made_by=f"import.{layout}/1")
    steps = tuple(
        Step.model_validate(
            {
                "trajectory_id": trajectory_id,
                "index": index,
                "screen_before": before.screen.screen_id,
                "screen_after": after.screen.screen_id,
                "app_before": before.app,
                "app_after": after.app,
                "thought": decision.thought,
                "action": action,
                "action_kind": decision.action.kind if decision.action is not None else "unparsed",
                "conclusion": decision.conclusion,
                "raw_response": decision.raw_response,
                "target": target_element(decision.action, before),
                "role_outputs": "{}",
                "prompt": decision.prompt,
                "guided": False,
            }
            | common
        )
        for index, (decision, action, before, after) in enumerate(
            zip(decisions, actions, observations, observations[1:], strict=False)
        )
    )
    trajectory = _trajectory(recording, layout, query, trajectory_id, decisions, common)
    return ImportedRows(query, trajectory, steps, observations)


def _decisions(recording: Recording, instruction: str) -> list[Decision]:
    """The steps as decisions; the prompt of each is the one that an agent of ours would have had."""
    dialect, past, decisions = dialect_for(recording.platform), list[str](), list[Decision]()
    for step in recording.steps:
        prompt = dialect.task_text(instruction, None, past)
        made = Decision(step.thought, _fitting(step), step.conclusion, raw_response=step.raw, prompt=prompt)
        decisions.append(storable_decision(made))
        past.append(decisions[-1].conclusion)
    return decisions


def _fitting(step: RecordedStep) -> Action | None:
    """The action; None if it lies outside the screen, which no agent can repeat."""
    point = pressed_point(step.action) if step.action is not None else None
    if point is not None and not (0 <= point[0] < step.screen.width and 0 <= point[1] < step.screen.height):
        return None
    return step.action


def _observations(recording: Recording) -> tuple[Observation, ...]:
    """The screens before each action and the one after the last, which is the one before it if there is none."""
    screens = [step.screen for step in recording.steps]
    return tuple(map(_observation, [*screens, recording.last or screens[-1]]))


def _observation(screen: RecordedScreen) -> Observation:
    picture = hashlib.blake2b(screen.image, digest_size=16).hexdigest()
    screen_id = content_id("recorded", picture, screen.elements)
    handle = ScreenHandle(screen_id, Size(screen.width, screen.height), lambda: screen.image)
    return Observation(handle, screen.elements, storable(screen.app))


def _query(recording: Recording, layout: str, instruction: str, origin: Origin) -> Query:
    task = storable(recording.task) or layout
    return Query(
        query_id=Query.make_id(recording.platform, task, (), "{}", instruction),
        platform=recording.platform,
        apps=tuple(map(storable, recording.apps)),
        source=Source.IMPORTED,
        task=task,
        raw_instruction=instruction,
        instruction=instruction,
        phrasing=layout,
        pages=(),
        page_descriptions=(),
        slots=(),
        path=(),
        start_state="{}",
        goal="{}",
        difficulty=_difficulty(len(recording.steps)),
        max_steps=len(recording.steps),
        split=Split.TRAIN,
        validation=RECORDED,
        **origin.common(made_by=f"import.{layout}/1"),
    )


def _difficulty(steps: int) -> int:
    """1 to 3 by the length of the recording."""
    return 1 if steps <= 5 else 2 if steps <= 12 else 3


def _trajectory(
    recording: Recording,
    layout: str,
    query: Query,
    trajectory_id: str,
    decisions: Sequence[Decision],
    common: dict[str, object],
) -> Trajectory:
    last = decisions[-1].action
    ended = last is not None and ends_episode(last)
    return Trajectory.model_validate(
        {
            "trajectory_id": trajectory_id,
            "query_id": query.query_id,
            "agent": storable(recording.agent),
            "model_version": f"import.{layout}",
            "environment": layout,
            "seed": 0,
            "attempt": 0,
            "purpose": Purpose.IMPORTED,
            "guidance_id": None,
            "status": "finished",
            "stop_reason": StopReason.AGENT_DONE if ended else StopReason.STEP_LIMIT,
            "failure_class": None,
            "failure_message": None,
            "answer": _answer(last),
            "reward": None,
            "steps": len(decisions),
            "input_tokens": 0,
            "output_tokens": 0,
            "wall_ms": 0.0,
            "environment_ms": 0.0,
        }
        | common
    )


def _answer(last: Action | None) -> str | None:
    match last:
        case Answer(text=text):
            return text
        case Terminate(status=status):
            return status
        case _:
            return None
