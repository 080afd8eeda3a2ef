"""The two channels that judge by the graph of a live app: one reads the way, the other the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.verdict import Channel, StepLabel
from trajmill.stages.critics.app_graph.episode_on_graph import follow
from trajmill.stages.critics.app_graph.problems import GraphProblem, end_problems, way_problems
from trajmill.stages.critics.base import StepResult, TrajectoryCritic, Vote, vote_of
from trajmill.stages.critics.rule import FULL
from trajmill.stages.graphs.base import AppGraph


@dataclass(frozen=True)
class GraphWayChannel:
    """Votes Correct if nothing destructive, and nothing that nobody asked for, was done on any way to the end."""

    graphs: Mapping[str, AppGraph]
    """By app, its graph."""
    channel: ClassVar[Channel] = Channel.TEXT
    resolution: ClassVar[str] = FULL
    version: ClassVar[str] = "graph-way-1"

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        """Vote on a finished episode.

        Raises:
            JudgeFailure: the graph does not tell, or a screen is missing.
        """
        problems = way_problems(follow(episode, screens, self.graphs))
        return _vote(self, problems, steps, "every step belongs to the task or leads to its pages")


@dataclass(frozen=True)
class GraphEndChannel:
    """Votes Correct if the page of the task is reached and its values stand there."""

    graphs: Mapping[str, AppGraph]
    """By app, its graph."""
    channel: ClassVar[Channel] = Channel.MULTIMODAL
    resolution: ClassVar[str] = FULL
    version: ClassVar[str] = "graph-end-1"

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        """Vote on a finished episode.

        Raises:
            JudgeFailure: the graph does not tell, or a screen is missing.
        """
        problems = end_problems(follow(episode, screens, self.graphs))
        return _vote(self, problems, steps, "the page of the task is reached, and its values stand there")


def _vote(critic: TrajectoryCritic, problems: Sequence[GraphProblem], steps: Sequence[StepResult], reason: str) -> Vote:
    neutral = tuple(step.index for step in steps if step.label is StepLabel.NEUTRAL)
    if not problems:
        return vote_of(critic, True, reason, neutral)
    last = steps[-1].index if steps else None
    first = min((problem.step for problem in problems if problem.step is not None), default=last)
    return vote_of(critic, False, "; ".join(problem.text for problem in problems), neutral, first)
