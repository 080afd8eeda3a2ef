"""Walks the annotated path of its query; what it does is what guidance is written from (paper 6.4)."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.query import Query
from stages.agents.base import Decision, EpisodeView
from stages.environments.simulated.walker import Position, Walker

_STEP, _UPWARDS = "step", "upwards"


@dataclass(frozen=True, slots=True)
class ReferenceAgent:
    """Knows the path of one query of the simulator; how far it has come stands in its decisions' role outputs."""

    query: Query
    name: str = "reference"
    model_version: str = "reference"

    async def act(self, episode: EpisodeView) -> Decision:
        """The next action of the walk.

        Raises:
            ValueError: the observation has no accessibility tree.
        """
        walker = Walker(self.query.path, self.query.platform)
        position = _position(episode)
        move = walker.next_action(episode.observation, position)
        step = self.query.path[position.step] if position.step < len(self.query.path) else None
        said = f"{step.operation} {step.text or step.target}".strip() if step else "the path is walked"
        return Decision(
            thought=f"The annotated path says: {said}.",
            action=move.action,
            conclusion=f"Followed the path: {said}.",
            role_outputs={_STEP: str(move.position.step), _UPWARDS: str(int(move.position.upwards))},
        )


def _position(episode: EpisodeView) -> Position:
    if not episode.history:
        return Position()
    said = episode.history[-1].role_outputs
    return Position(int(said[_STEP]), said[_UPWARDS] == "1")
