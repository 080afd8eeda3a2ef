"""The channels and the step critic that judge by annotations and ask no model.

There is one judge with two readings of an episode. A query whose pages are annotated says itself what it wants: by its
constraints, and by its instruction where it has none; neither its path nor its goal is read, and the names of its pages
are in the trees. Of a query that was sampled from an app's graph only the path says what it wants, and only the graph
tells which page a screen shows. Each channel reads the whole episode, so either can judge alone. Both read the same
trees and annotations, so they are no independent evidence. A problem is certain: where the annotations are silent,
`JudgeFailure` is raised, and the trajectory stays unjudged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.verdict import Channel, StepLabel
from trajmill.stages.critics.app_graph.annotated_reading import AnnotatedReading
from trajmill.stages.critics.app_graph.annotations import annotated_task, is_annotated
from trajmill.stages.critics.app_graph.path_reading import follow
from trajmill.stages.critics.app_graph.reading import Reading, first_error, opinions_on, opinions_without_task
from trajmill.stages.critics.judge import Judge
from trajmill.stages.critics.replay import replay
from trajmill.stages.critics.voting import FULL, StepResult, Vote, single_vote, vote_of
from trajmill.stages.graphs.base import AppGraph


@dataclass(frozen=True)
class GraphChannel:
    """Votes Correct if it finds no problem."""

    channel: Channel
    graphs: Mapping[str, AppGraph]
    """By app, its graph; without it, only queries with annotated pages are judged."""
    resolution: ClassVar[str] = FULL

    @property
    def version(self) -> str:
        return f"graph-{self.channel}-7"

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        """Vote on a finished episode. Raises JudgeFailure for unknown or insufficient annotations, or a missing screen.

        In a correct trajectory, the steps that did not help are redundant. In an incorrect one, the first step with a
        problem is the error, else `first_error`.
        """
        problems = read(episode, screens, self.graphs).problems()
        neutral = tuple(step.index for step in steps if step.label is StepLabel.NEUTRAL)
        if not problems:
            redundant = tuple(step.index for step in steps if step.label in (StepLabel.HARMFUL, StepLabel.NEUTRAL))
            reason = "all that was asked was done where it belongs, and nothing else"
            return vote_of(self, True, reason, redundant)
        error = min((each.step for each in problems if each.step is not None), default=first_error(steps))
        return vote_of(self, False, "; ".join(problem.text for problem in problems), neutral, error)


@dataclass(frozen=True)
class StepCriticByGraph:
    graphs: Mapping[str, AppGraph]
    version: ClassVar[str] = "graph-step-9"

    async def judge(self, episode: Episode, screens: ScreenReader) -> list[StepResult]:
        """Judge each step by whether less of the task is left after it, over all ways.

        Raises JudgeFailure if a screen is missing, or the graph has not the pages of the query.
        """
        if not episode.steps:
            return []
        is_known = is_annotated(episode.query) or _has_graph(episode.query, self.graphs)
        reading = read(episode, screens, self.graphs) if is_known else None
        steps = reading.steps if reading is not None else replay(episode, screens)
        opinions = opinions_on(reading) if reading is not None else opinions_without_task(steps)
        return [opinion.on(step) for step, opinion in zip(steps, opinions, strict=True)]


def read(episode: Episode, screens: ScreenReader, graphs: Mapping[str, AppGraph]) -> Reading:
    """Read an episode against the annotations of its query, else against its path on the graph of its app.

    Raises JudgeFailure for unknown annotations or pages, or a missing screen.
    """
    if _has_graph(episode.query, graphs) and not is_annotated(episode.query):
        return follow(episode, screens, graphs)
    return AnnotatedReading(annotated_task(episode.query), replay(episode, screens))


def _has_graph(query: Query, graphs: Mapping[str, AppGraph]) -> bool:
    return any(app in graphs for app in query.apps)


def annotated_judge(graphs: Mapping[str, AppGraph] | None = None) -> Judge:
    """Return the judge that needs no model: it reads the annotations of a query, or the graph of its app."""
    known = graphs or {}
    channels = (single_vote(GraphChannel(channel, known)) for channel in (Channel.TEXT, Channel.MULTIMODAL))
    return Judge(StepCriticByGraph(known), tuple(channels))
