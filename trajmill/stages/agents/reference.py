"""Agents for demonstrations: one walks its query's annotated path, one reads the rows of the screen aloud.

Guidance is written from the walk (paper 6.4). Rows of the accessibility tree are thoughts that a model learns to write
from pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from trajmill.schemas.actions import Action, Click, Scroll, Swipe, pressed_point
from trajmill.schemas.dialects.read_aloud import rows_aloud
from trajmill.schemas.dialects.user_text import compose
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import PathStep, Query, Source
from trajmill.stages.agents.base import Agent, Decision, EpisodeView
from trajmill.stages.agents.path_walk import PathwayPosition, next_pathway_move
from trajmill.stages.environments.simulated.reference_path import Position, Walker


def rows_before(action: Action, elements: Sequence[UIElement], below: str = "") -> str:
    """The rows that lead to an action: up to the one that a click presses, all of them before scrolling, else none.

    Args:
        action: what is done next.
        elements: the screen's tree, in reading order; what can be pressed is a row.
        below: the label that is scrolled to; empty if it is not known.
    """
    rows = [element for element in elements if element.clickable]
    if isinstance(action, Swipe | Scroll):
        return rows_aloud([_label(row) for row in rows], below)
    point = pressed_point(action)
    if not isinstance(action, Click) or point is None:
        return ""
    pressed = next((at for at, row in enumerate(rows) if row.bounds.contains(*point)), None)
    return "" if pressed is None else rows_aloud([_label(row) for row in rows[: pressed + 1]], _label(rows[pressed]))


def _label(row: UIElement) -> str:
    # The buttons of a stepper say plus and minus; what they change stands beside them.
    return f"{row.value} {row.text}" if row.role == "stepper_button" else row.text


@dataclass(frozen=True, slots=True)
class ReadingAloud:
    """Acts as another agent does."""

    agent: Agent

    @property
    def name(self) -> str:
        return self.agent.name

    @property
    def model_version(self) -> str:
        return self.agent.model_version

    async def act(self, episode: EpisodeView) -> Decision:
        """The agent's decision; a thought is written only where there are an action and an accessibility tree.

        Raises:
            ModelFailure: its model did not answer.
        """
        decision = await self.agent.act(episode)
        elements = episode.observation.elements
        if decision.action is None or elements is None:
            return decision
        return replace(decision, thought=rows_before(decision.action, elements))


_STEP, _UPWARDS, _WAITS = "step", "upwards", "waits"
_IN_REAL_PROGRAMS = frozenset({Source.IMPORTED, Source.PATHWAY, Source.ATOMIC, Source.GRAPH, Source.CAUSAL})


class _Move(NamedTuple):
    action: Action
    step: int
    """Index of the operation after it."""
    kept: dict[str, str]
    """Further state for the next decision."""


@dataclass(frozen=True, slots=True)
class ReferenceAgent:
    """Knows the path of one query, and stores its position on the path in the role outputs of its decisions.

    Paths of the simulated world are walked by a walker that knows its pages; all others by element ids alone.
    """

    query: Query
    demonstrates: bool = False
    """Whether its steps are to be learned from: they have a prompt, and thoughts that read the rows of the screen."""
    name: str = "reference"
    model_version: str = "reference"

    async def act(self, episode: EpisodeView) -> Decision:
        """The next action of the walk. Raises ValueError if the observation has no accessibility tree."""
        last = episode.history[-1].role_outputs if episode.history else {}
        at = int(last.get(_STEP, "0"))
        walk = self._by_ids if self.query.source in _IN_REAL_PROGRAMS else self._by_pages
        move = walk(episode, at, last)
        # An element that is visible already needs no scrolling.
        done = max(at, move.step - 1)
        step = self.query.path[done] if done < len(self.query.path) else None
        said = f"{step.operation} {step.text or step.target}".strip() if step else "the path is walked"
        decision = Decision(
            thought=f"The annotated path says: {said}.",
            action=move.action,
            conclusion=f"Followed the path: {said}.",
            role_outputs={_STEP: str(move.step), **move.kept},
        )
        return self._demonstrated(decision, move, episode) if self.demonstrates else decision

    def _by_pages(self, episode: EpisodeView, at: int, last: dict[str, str]) -> _Move:
        walker = Walker(self.query.path, self.query.platform)
        move = walker.next_action(episode.observation, Position(at, last.get(_UPWARDS) == "1"))
        return _Move(move.action, move.position.step, {_UPWARDS: str(int(move.position.upwards))})

    def _by_ids(self, episode: EpisodeView, at: int, last: dict[str, str]) -> _Move:
        position = PathwayPosition(at, int(last.get(_WAITS, "0")), last.get(_UPWARDS) == "1")
        move = next_pathway_move(self.query.path, self.query.platform, episode.observation, position)
        upwards = {_UPWARDS: "1"} if move.position.upwards else {}
        return _Move(move.action, move.position.step, {_WAITS: str(move.position.waits), **upwards})

    def _demonstrated(self, decision: Decision, move: _Move, episode: EpisodeView) -> Decision:
        said = compose(episode.instruction, None, [past.conclusion for past in episode.history])
        sought = _label_of(self.query.path[move.step]) if move.step < len(self.query.path) else ""
        thought = rows_before(move.action, episode.observation.elements or (), sought)
        return replace(decision, thought=thought, prompt=said)


def _label_of(step: PathStep) -> str:
    """The label of what a step presses, as far as its target names it: an app, or an item of a list."""
    if step.operation == "open":
        return step.target
    *place, item = step.target.split("/")
    return item if len(place) > 1 else ""
