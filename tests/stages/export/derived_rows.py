"""Rows of every derived kind, made by the derivers themselves from walks in the simulator."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tests.records import record
from tests.stages.derive.samples import COMMON, ORIGIN
from tests.stages.export.walks import SeenScreens
from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.example import Example
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.query import Query
from trajmill.stages.curate.leaks import NearLeaks
from trajmill.stages.curate.spec import CurateSpec
from trajmill.stages.derive.collected import Maker
from trajmill.stages.derive.kind_spec import KindSpec, TaskSources, Tools
from trajmill.stages.derive.spec import DERIVE_KINDS, DerivePromptFiles

_ROLES: Final[Mapping[str, int]] = {"manager": 1, "worker": 1, "state_tracker": 0, "planner": 2}
"""Roles that say something at each step, with the number of screens that they are shown."""
_NEEDS_A_MODEL = "reasoning"


class DerivedRow(NamedTuple):
    episode: Episode
    example: Example


def derived_rows(walks: Sequence[Episode], screens: SeenScreens, each: int) -> list[DerivedRow]:
    """At most so many rows of each variant of each kind; screens that derivers make are added to `screens`."""
    found: list[DerivedRow] = []
    for kind in DERIVE_KINDS.kinds():
        source = "step" if kind == _NEEDS_A_MODEL else kind
        seen: dict[str | None, int] = {}
        for row in _of_kind(source, walks, screens):
            variant = row.example.variant
            seen[variant] = seen.get(variant, 0) + 1
            if seen[variant] <= each:
                # A row of `reasoning` is a step with another thought.
                found.append(row._replace(example=row.example.model_copy(update={"kind": kind})))
    return found


def _of_kind(kind: str, walks: Sequence[Episode], screens: SeenScreens) -> Iterator[DerivedRow]:
    def keep(screen: Observation) -> None:
        screens.seen[screen.screen.screen_id] = screen

    asked = [walk.query for walk in walks]
    for walk in map(_with_roles, walks):
        maker = Maker(kind, "test", ORIGIN)
        tools = Tools(maker, screens, keep, DerivePromptFiles().load(), of_tasks=_alone(asked))
        made = asyncio.run(DERIVE_KINDS.default_spec(kind, KindSpec).open(tools).derive(walk, None))
        yield from (DerivedRow(walk, example) for example in made.examples)


def _alone(queries: Sequence[Query]) -> TaskSources:
    return TaskSources({}, {}, NearLeaks(list(queries), CurateSpec()))


def _with_roles(walk: Episode) -> Episode:
    trajectory = walk.trajectory.model_copy(update={"model_version": "policy-1"})
    calls = [_call(walk, step.index, role, shown) for step in walk.steps[:-1] for role, shown in _ROLES.items()]
    return walk.model_copy(update={"calls": tuple(calls), "trajectory": trajectory})


def _call(walk: Episode, index: int, role: str, shown: int) -> ModelCall:
    steps = walk.steps[index], walk.steps[index + 1]
    parts: list[object] = [f"What is next at step {index}?"]
    parts += [{"screen": step.screen_before} for step in steps[:shown]]
    messages = [{"role": "system", "content": [f"You are the {role}."]}, {"role": "user", "content": parts}]
    return record(
        ModelCall,
        call_id=f"{role}{index}",
        trajectory_id=walk.trajectory.trajectory_id,
        step_index=index,
        role=role,
        messages=json.dumps(messages),
        response=f"I continue with step {index}.",
        **COMMON,
    )
