"""Attempts of mixed quality at queries with an annotated path: right walks, and walks with one kind of mistake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from trajmill.schemas.actions import Action, Click, Terminate, TypeText
from trajmill.schemas.tables.query import PathStep, Query
from trajmill.stages.agents.base import Decision, EpisodeView
from trajmill.stages.agents.reference import next_move
from trajmill.stages.environments.simulated.reference_path import WalkPosition

ATTEMPTS: Final = (
    "right",
    "immediate",
    "one step",
    "cut short",
    "step left out",
    "wrong value",
    "mistyped",
    "corrected",
    "detour",
    "other task",
    "other first",
    "twice",
    "other order",
    "random",
)
"""The kinds of attempts; `corrected` and `detour` do what the query asks, `other order` and others may do it."""
_RANDOM = "random"
_WAITS = 2
_RANDOM_STEPS = 6


def attempted_path(
    kind: str, query: Query, others: Sequence[Query], detour: Sequence[PathStep], rng: Random
) -> tuple[PathStep, ...] | None:
    """The path of an attempt; None if there is no such attempt at the query.

    Args:
        kind: one of `ATTEMPTS`.
        query: the query.
        others: other queries of the same app.
        detour: steps from the first page to another one and back.
        rng: decides which step or other query is taken.
    """
    *steps, finish = query.path
    texts = [at for at, step in enumerate(steps) if step.operation == "replace"]
    same_task = [other for other in others if other.task == query.task and other.slots != query.slots]
    other = rng.choice(others)
    match kind:
        case "right":
            return query.path
        case "immediate":
            return (finish,)
        case "one step" if len(steps) > 1:
            return (steps[0], finish)
        case "cut short" if len(steps) > 2:
            return (*steps[: rng.randint(1, len(steps) - 1)], finish)
        case "step left out" if len(steps) > 1:
            left_out = rng.randrange(len(steps))
            return (*steps[:left_out], *steps[left_out + 1 :], finish)
        case "wrong value" if same_task:
            return rng.choice(same_task).path
        case "mistyped" if texts:
            return tuple(_typed(step, step.text[:-1]) if at in texts else step for at, step in enumerate(query.path))
        case "corrected" if texts:
            first, step = texts[0], steps[texts[0]]
            return (*steps[:first], _typed(step, f"{step.text}x"), *query.path[first:])
        case "detour" if detour:
            return (*detour, *query.path)
        case "other task":
            return other.path
        case "other first":
            return (*other.path[:-1], *query.path)
        case "twice" if steps:
            return (*steps, steps[-1], finish)
        case "other order" if len(steps) > 1:
            first, second = rng.sample(range(len(steps)), 2)
            steps[first], steps[second] = steps[second], steps[first]
            return (*steps, finish)
        case "random":
            return (PathStep(page=finish.page, operation=_RANDOM, target=""),)
        case _:
            return None


@dataclass(frozen=True)
class PathWalker:
    """Walks the path of a query; where it cannot go on, it says that it is done. Clicks at random without a path."""

    query: Query
    name: str = "walker"
    model_version: str = "walker"

    async def act(self, episode: EpisodeView) -> Decision:
        """The next action."""
        if self.query.path[0].operation == _RANDOM:
            return Decision("", _random_action(episode), "")
        at = int(episode.history[-1].role_outputs["step"]) if episode.history else 0
        waits = int(episode.history[-1].role_outputs["waits"]) if episode.history else 0
        move = next_move(self.query.path, episode.observation, WalkPosition(at, waits), self.query.platform)
        stuck = move.position.waits > _WAITS or move.action == Terminate(status="failure")
        action = Terminate(status="success") if stuck else move.action
        outputs = {"step": str(move.position.step), "waits": str(move.position.waits)}
        return Decision("", action, "", role_outputs=outputs)


def _typed(step: PathStep, text: str) -> PathStep:
    return step.model_copy(update={"text": text})


def _random_action(episode: EpisodeView) -> Action:
    rng = Random(f"{episode.seed} {len(episode.history)}")
    pressable = [element for element in episode.observation.elements or () if element.clickable]
    if not pressable or len(episode.history) >= _RANDOM_STEPS:
        return Terminate(status="success")
    focused = any("focused" in element.states for element in episode.observation.elements or ())
    if focused and rng.random() < 0.5:
        return TypeText(text=rng.choice(("Lathe", "Mill")), clear=True, enter=rng.random() < 0.5)
    return Click(**dict(zip("xy", rng.choice(pressable).bounds.center, strict=True)))
