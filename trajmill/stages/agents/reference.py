"""Agents for demonstrations: one walks its query's annotated path, one reads the rows of the screen aloud.

Guidance is written from the walk (paper 6.4). Rows of the accessibility tree are thoughts that a model learns to write
from pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trajmill.schemas.actions import Action, Click, Scroll, Swipe, pressed_point
from trajmill.schemas.dialects.read_aloud import rows_aloud
from trajmill.schemas.dialects.user_text import compose
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import PathStep, Query, Source
from trajmill.stages.agents.base import Agent, Decision, EpisodeView
from trajmill.stages.agents.path_walk import WalkPosition, next_pathway_move
from trajmill.stages.environments.simulated.reference_path import Position, Walker


def rows_before(action: Action, elements: Sequence[UIElement], below: str = "") -> str:
    """Return the rows that lead to an action: up to the one that a click presses, all of them before scrolling.

    Clickable elements, in reading order, are rows. `below` is the label that is scrolled to, empty if unknown.
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


@dataclass(frozen=True, slots=True)
class ReferenceAgent:
    """Walks the path of one query, and stores its position on the path in the role outputs of its decisions.

    Paths of the simulated world are walked by a walker that knows its pages; all others by element ids alone.
    """

    query: Query
    demonstrates: bool = False
    """Whether its steps are to be learned from: they have a prompt, and thoughts that read the rows of the screen."""
    name: str = "reference"
    model_version: str = "reference"

    async def act(self, episode: EpisodeView) -> Decision:
        """Return the next action of the walk. Raises ValueError if the observation has no accessibility tree."""
        path, platform, screen = self.query.path, self.query.platform, episode.observation
        last = episode.history[-1].role_outputs if episode.history else {}
        at, upwards = int(last.get(_STEP, "0")), last.get(_UPWARDS) == "1"
        if self.query.source in _IN_REAL_PROGRAMS:
            moved = next_pathway_move(path, platform, screen, WalkPosition(at, int(last.get(_WAITS, "0")), upwards))
            action, step = moved.action, moved.position.step
            kept = {_WAITS: str(moved.position.waits)} | ({_UPWARDS: "1"} if moved.position.upwards else {})
        else:
            walked = Walker(path, platform).next_action(screen, Position(at, upwards))
            action, step = walked.action, walked.position.step
            kept = {_UPWARDS: str(int(walked.position.upwards))}
        # An element that is visible already needs no scrolling.
        done = max(at, step - 1)
        taken = f"{path[done].operation} {path[done].text or path[done].target}".strip() if done < len(path) else ""
        taken = taken or "the path is walked"
        thought, prompt = f"The annotated path says: {taken}.", ""
        if self.demonstrates:
            prompt = compose(episode.instruction, None, [past.conclusion for past in episode.history])
            thought = rows_before(action, screen.elements or (), _label_of(path[step]) if step < len(path) else "")
        outputs = {_STEP: str(step), **kept}
        return Decision(thought, action, f"Followed the path: {taken}.", prompt=prompt, role_outputs=outputs)


def _label_of(step: PathStep) -> str:
    """Return the label of what a step presses, if its target names it: an app, or an item of a list."""
    if step.operation == "open":
        return step.target
    *place, item = step.target.split("/")
    return item if len(place) > 1 else ""
