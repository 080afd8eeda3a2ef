"""The two channels that judge by the graph of a live app: one reads the way, the other the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.verdict import Channel, StepLabel
from trajmill.stages.critics.app_graph.episode_on_graph import GraphEpisode, follow
from trajmill.stages.critics.app_graph.problems import GraphProblem, end_problems, way_problems
from trajmill.stages.critics.base import StepResult, TrajectoryCritic, Vote, vote_of
from trajmill.stages.critics.rule import FULL
from trajmill.stages.graphs.base import AppGraph


@dataclass(frozen=True)
class GraphChannel:
    """Votes Correct if it finds no problem."""

    graphs: Mapping[str, AppGraph]
    """By app, its graph."""
    channel: Channel
    version: str
    problems: Callable[[GraphEpisode], Sequence[GraphProblem]]
    """Finds what is wrong; raises JudgeFailure if the graph does not tell."""
    praise: str
    """What it says of an episode without a problem."""
    resolution: ClassVar[str] = FULL

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        """Vote on a finished episode.

        Raises:
            JudgeFailure: the graph does not tell, or a screen is missing.
        """
        return _vote(self, self.problems(follow(episode, screens, self.graphs)), steps, self.praise)


def way_channel(graphs: Mapping[str, AppGraph]) -> GraphChannel:
    """Votes Correct if nothing destructive, and nothing that nobody asked for, was done on any way to the end."""
    praise = "every step belongs to the task or leads to its pages"
    return GraphChannel(graphs, Channel.TEXT, "graph-way-1", way_problems, praise)


def end_channel(graphs: Mapping[str, AppGraph]) -> GraphChannel:
    """Votes Correct if the page of the task is reached and its values stand there."""
    praise = "the page of the task is reached, and its values stand there"
    return GraphChannel(graphs, Channel.MULTIMODAL, "graph-end-1", end_problems, praise)


def _vote(critic: TrajectoryCritic, problems: Sequence[GraphProblem], steps: Sequence[StepResult], reason: str) -> Vote:
    neutral = tuple(step.index for step in steps if step.label is StepLabel.NEUTRAL)
    if not problems:
        return vote_of(critic, True, reason, neutral)
    last = steps[-1].index if steps else None
    first = min((problem.step for problem in problems if problem.step is not None), default=last)
    return vote_of(critic, False, "; ".join(problem.text for problem in problems), neutral, first)
