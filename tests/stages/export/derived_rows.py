"""Rows of every derived kind, made by the derivers themselves from walks in the simulator."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tests.records import record
from tests.stages.critics.phone import queries_of, walk_of
from tests.stages.derive.samples import COMMON, ORIGIN, verdicts
from trajmill.schemas.actions import Terminate, action_to_json
from trajmill.schemas.dialects.user_text import end_to_end_prompt
from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import Platform, Query
from trajmill.schemas.tables.screen import ObservedScreens
from trajmill.schemas.tables.trajectory import Purpose
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.curate.leaks import NearLeaks
from trajmill.stages.curate.spec import CurateSpec
from trajmill.stages.derive.collected import Maker
from trajmill.stages.derive.kind_spec import KindSpec, TaskSources, Tools
from trajmill.stages.derive.spec import DERIVE_KINDS, DerivePromptFiles

_ROLES: Final[Mapping[str, int]] = {"manager": 1, "worker": 1, "state_tracker": 0, "planner": 2}
"""Roles that say something at each step, with the number of screens that they are shown."""
_LIKE: Final[Mapping[str, str]] = {"reasoning": "step", "grounding_rl": "grounding"}
"""Kinds that need a model, by the kind whose rows look like theirs."""


class DerivedRow(NamedTuple):
    episode: Episode
    example: Example


def derived_rows(walks: Sequence[Episode], screens: SeenScreens, each: int) -> list[DerivedRow]:
    """At most so many rows of each variant of each kind; screens that derivers make are added to `screens`."""
    found: list[DerivedRow] = []
    for kind in DERIVE_KINDS.kinds():
        source = _LIKE.get(kind, kind)
        seen: dict[str | None, int] = {}
        for row in _of_kind(source, walks, screens):
            variant = row.example.variant
            seen[variant] = seen.get(variant, 0) + 1
            if seen[variant] <= each:
                found.append(row._replace(example=row.example.model_copy(update={"kind": kind})))
    return found


def _of_kind(kind: str, walks: Sequence[Episode], screens: SeenScreens) -> Iterator[DerivedRow]:
    def keep(screen: Observation) -> None:
        screens.seen[screen.screen.screen_id] = screen

    leaks = NearLeaks([walk.query for walk in walks], CurateSpec())
    for success in map(_with_roles, walks):
        walk = _that_ends_early(success) if kind == "forks" else success
        alone = TaskSources({walk.trajectory.trajectory_id: (success,)} if kind == "forks" else {}, {}, leaks)
        tools = Tools(Maker(kind, "test", ORIGIN), screens, keep, DerivePromptFiles().load(), of_tasks=alone)
        made = asyncio.run(DERIVE_KINDS.default_spec(kind, KindSpec).open(tools).derive(walk, None))
        yield from (DerivedRow(walk, example) for example in made.examples)


def _that_ends_early(walk: Episode) -> Episode:
    *before, last = walk.steps[:3]
    says = {"action": action_to_json(Terminate(status="failure")), "screen_after": last.screen_before}
    steps = (*before, last.model_copy(update=says | {"action_kind": "terminate", "raw_response": ""}))
    assert walk.judgement is not None
    failed = walk.judgement.model_copy(update={"correct": False})
    return walk.model_copy(update={"steps": steps, "judgement": failed, "step_verdicts": ()})


def _with_roles(walk: Episode) -> Episode:
    trajectory = walk.trajectory.model_copy(update={"model_version": "policy-1"})
    calls = [_call(walk, step.index, role, shown) for step in walk.steps[:-1] for role, shown in _ROLES.items()]
    right = {"reason": "seen", "correct": True, "redundant_steps": [], "first_error_step": None}
    calls.append(_call(walk, 0, "critic.multimodal", 2, json.dumps(right)))
    return walk.model_copy(update={"calls": tuple(calls), "trajectory": trajectory})


def _call(walk: Episode, index: int, role: str, shown: int, response: str = "") -> ModelCall:
    steps = walk.steps[index], walk.steps[index + 1]
    parts: list[object] = [f"What is next at step {index}?"]
    parts += [{"screen": step.screen_before} for step in steps[:shown]]
    messages = [{"role": "system", "content": [f"You are the {role}."]}, {"role": "user", "content": parts}]
    named = {"call_id": f"{role}{index}", "trajectory_id": walk.trajectory.trajectory_id, "step_index": index}
    said = {"role": role, "messages": json.dumps(messages), "response": response or f"I continue with step {index}."}
    return record(ModelCall, **named | said | COMMON)


class SeenScreens(ObservedScreens):
    def __init__(self) -> None:
        self.seen: dict[str, Observation] = {}
        super().__init__(self.seen)


def walks(screens: SeenScreens, each: int) -> list[Episode]:
    """So many walks on each platform; what is seen is added to the screens."""
    queries = asyncio.run(queries_of(60, seed=0))

    def walk(query: Query) -> Episode:
        walked = asyncio.run(walk_of(query))
        screens.seen.update(walked.observations)
        return _as_learned(walked.episode)

    platforms = [[query for query in queries if query.platform is platform] for platform in Platform]
    return [walk(query) for chosen in platforms for query in chosen[:each]]


def _as_learned(episode: Episode) -> Episode:
    said = [step.conclusion for step in episode.steps]
    steps = [
        step.model_copy(update={"prompt": end_to_end_prompt(episode.query.instruction, None, said[:number])})
        for number, step in enumerate(episode.steps)
    ]
    judged = verdicts(episode.trajectory.trajectory_id, True, [StepLabel.GOOD] * len(steps))
    learned = {"trajectory": episode.trajectory.model_copy(update={"purpose": Purpose.TRAIN}), "steps": tuple(steps)}
    return episode.model_copy(update=learned | judged)
