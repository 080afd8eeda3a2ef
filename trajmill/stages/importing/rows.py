"""Makes rows of a recording: its query, its trajectory, its steps, and its screens as observations."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple, Self

from trajmill.schemas.actions import action_to_json, pressed_point
from trajmill.schemas.dialects.families import ANY
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation, ScreenHandle
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.query import RECORDED, Query, Split
from trajmill.schemas.tables.trajectory import Purpose, Step, Trajectory
from trajmill.schemas.text import storable
from trajmill.stages.agents.base import Decision
from trajmill.stages.environments.tasks import own_query
from trajmill.stages.importing.base import BadRecordingError, RecordedScreen, Recording
from trajmill.stages.queries.leaks import comparable, has_own_words
from trajmill.stages.rollout.episode import answer_of, recorded_rows, storable_decision

_LONGEST_INSTRUCTION = 10_000
_MOST_STEPS = 1_000


@dataclass(frozen=True)
class HeldOut:
    """The instructions and apps that nothing may be learned from."""

    instructions: frozenset[str]
    apps: frozenset[str]

    @classmethod
    def of(cls, queries: Iterable[Query], apps: Collection[str]) -> Self:
        heldout = (query for query in queries if query.split is not Split.TRAIN and has_own_words(query))
        return cls(frozenset(comparable(query.instruction) for query in heldout), frozenset(apps))

    def reason(self, query: Query) -> str:
        """Return why a query may not be learned from; empty if it may."""
        if comparable(query.instruction) in self.instructions:
            return "its instruction is that of a held-out query"
        held = sorted(self.apps.intersection(query.apps))
        return f"its app {held[0]!r} is held out" if held else ""


class ImportedRows(NamedTuple):
    query: Query
    trajectory: Trajectory
    steps: tuple[Step, ...]
    observations: tuple[Observation, ...]
    """Its screens; one that repeats is listed again."""


def rows_of(recording: Recording, layout: str, origin: Origin) -> ImportedRows:
    """Make the rows of a recording; raises BadRecordingError without an instruction or steps, or with too many."""
    instruction = " ".join(storable(recording.instruction).split())
    if not instruction or len(instruction) > _LONGEST_INSTRUCTION:
        raise BadRecordingError(
            f"its instruction has {len(instruction):,} characters; 1 to {_LONGEST_INSTRUCTION:,} are read"
        )
    if not 0 < len(recording.steps) <= _MOST_STEPS:
        raise BadRecordingError(f"it has {len(recording.steps):,} steps; 1 to {_MOST_STEPS:,} are read")
    decisions = _decisions(recording, instruction)
    acting = [step.screen for step in recording.steps]
    observations = tuple(map(_observation, [*acting, recording.last or acting[-1]]))
    made_by = f"import.{layout}/1"
    common = origin.common(made_by=made_by)
    task, count = storable(recording.task) or layout, len(recording.steps)
    query = own_query(
        recording.platform,
        task,
        instruction,
        "{}",
        origin,
        made_by,
        apps=tuple(map(storable, recording.apps)),
        phrasing=layout,
        difficulty=1 if count <= 5 else 2 if count <= 12 else 3,
        max_steps=count,
        validation=RECORDED,
    )
    screen_ids = [observation.screen.screen_id for observation in observations]
    actions = [None if decision.action is None else action_to_json(decision.action) for decision in decisions]
    trajectory_id = content_id("imported", query.query_id, actions, screen_ids)
    fields = {
        "query_id": query.query_id,
        "agent": storable(recording.agent),
        "model_version": f"import.{layout}",
        "environment": layout,
        "purpose": Purpose.IMPORTED,
        "answer": answer_of(decisions[-1].action),
        "reward": recording.reward,
    }
    trajectory, steps = recorded_rows(trajectory_id, decisions, observations, fields | common)
    return ImportedRows(query, trajectory, steps, observations)


def _decisions(recording: Recording, instruction: str) -> list[Decision]:
    """Return the steps as decisions, with the prompts that an agent of ours would have had.

    An action outside the screen becomes None: no agent can repeat it.
    """
    dialect, past, decisions = ANY.dialect(recording.platform), list[str](), list[Decision]()
    for step in recording.steps:
        action, screen = step.action, step.screen
        point = pressed_point(action) if action is not None else None
        if point is not None and not (0 <= point[0] < screen.width and 0 <= point[1] < screen.height):
            action = None
        made = Decision(
            step.thought,
            action,
            step.conclusion,
            raw_response=step.raw,
            # No step without a prompt is learned.
            prompt="" if step.is_context else dialect.task_text(instruction, None, past),
            role_outputs=dict(step.role_outputs),
            reply_tokens=step.tokens,
        )
        decisions.append(storable_decision(made))
        past.append(decisions[-1].conclusion)
    return decisions


def _observation(screen: RecordedScreen) -> Observation:
    picture = hashlib.blake2b(screen.image, digest_size=16).hexdigest()
    screen_id = content_id("recorded", picture, screen.elements)
    handle = ScreenHandle(screen_id, Size(screen.width, screen.height), lambda: screen.image)
    return Observation(handle, screen.elements, storable(screen.app))
