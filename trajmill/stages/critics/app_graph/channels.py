"""The channels that judge by annotations and ask no model.

A query that was made from a graph with annotated pages has its annotations itself; other queries are judged by the
graph of their app. Each channel looks at the whole episode, so that either can judge alone. Both read the same trees
and the same annotations, so they are no independent evidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import networkx as nx

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.verdict import Channel, StepLabel
from trajmill.stages.critics.annotated.problems import find_problems
from trajmill.stages.critics.annotated.step_critic import AnnotatedStepCritic
from trajmill.stages.critics.annotated.task import annotated_task, is_annotated
from trajmill.stages.critics.app_graph.episode_on_graph import GraphEpisode, GraphStep, follow
from trajmill.stages.critics.app_graph.problems import GraphProblem, problems_of, way_problems
from trajmill.stages.critics.base import StepResult, Vote, at_most_words, vote_of
from trajmill.stages.critics.judge import Judge
from trajmill.stages.critics.trees.replay import replay
from trajmill.stages.critics.voting import FULL, single_vote
from trajmill.stages.graphs.base import AppGraph
from trajmill.stages.graphs.network import walkable

GOOD, NEUTRAL, HARMFUL = StepLabel.GOOD, StepLabel.NEUTRAL, StepLabel.HARMFUL


@dataclass(frozen=True)
class GraphStepCritic:
    """Compares each step with the graph."""

    graphs: Mapping[str, AppGraph]
    """By app, its graph."""
    version: ClassVar[str] = "graph-step-2"

    async def judge(self, episode: Episode, screens: ScreenReader) -> list[StepResult]:
        """Judge each step of an episode.

        Raises:
            JudgeFailure: the query was not made from a graph, or a screen is missing.
        """
        if not episode.steps:
            return []
        followed = follow(episode, screens, self.graphs)
        harmful = {problem.step: problem.text for problem in way_problems(followed) if problem.step is not None}
        return [_result(followed, step, harmful.get(step.seen.index)) for step in followed.steps]


def _result(episode: GraphEpisode, step: GraphStep, harm: str | None) -> StepResult:
    label, why = (HARMFUL, harm) if harm else _opinion(episode, step)
    caption = step.seen.caption
    return StepResult(step.seen.index, f"{caption} {why}", at_most_words(caption), label)


def _opinion(episode: GraphEpisode, step: GraphStep) -> tuple[StepLabel, str]:
    if step.seen.action.parsed is None:
        return HARMFUL, "The reply was no action."
    if step.seen.action.kind in ("terminate", "answer"):
        return _ending(episode, step)
    if step.seen.outcome.same:
        return NEUTRAL, "Nothing visible came of it."
    if step.page == step.page_after or step.act:
        return GOOD, "It did something of the task."
    return _going(episode, step)


def _going(episode: GraphEpisode, step: GraphStep) -> tuple[StepLabel, str]:
    """Whether a change of pages leads towards a page of the task."""
    on_path = {page.partition(".")[2] for page in episode.query.pages}
    if step.page_after in on_path:
        return GOOD, "It came to a page of the task."
    ways = walkable(episode.graph)
    if step.page_after is not None and nx.has_path(ways, step.page_after, episode.end):
        return NEUTRAL, "It went to a page from which the task can be done."
    return NEUTRAL, "The graph does not tell what it is for."


def _ending(episode: GraphEpisode, step: GraphStep) -> tuple[StepLabel, str]:
    if not step.seen.action.ends:
        return HARMFUL, "It gave up."
    try:
        missing = [problem for problem in problems_of(episode) if problem.step is None]
    except JudgeFailure:
        return NEUTRAL, "The graph does not tell whether everything was done."
    return (HARMFUL, f"It ended though {missing[0].text}.") if missing else (GOOD, "Everything had been done.")


@dataclass(frozen=True)
class GraphChannel:
    """Votes Correct if it finds no problem."""

    channel: Channel
    version: str
    graphs: Mapping[str, AppGraph]
    """By app, its graph; without it, only queries with annotated pages are judged."""
    resolution: ClassVar[str] = FULL

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        """Vote on a finished episode.

        In a correct trajectory, the steps that did not help are redundant. In an incorrect one, the first step with a
        problem is the error, else the first harmful step, else the last one, because it ended an unfinished task.

        Raises:
            JudgeFailure: the annotations of the query are not known or do not tell, or a screen is missing.
        """
        problems = self._problems(episode, screens)
        harmful = [step.index for step in steps if step.label is StepLabel.HARMFUL]
        neutral = [step.index for step in steps if step.label is StepLabel.NEUTRAL]
        if not problems:
            return vote_of(
                self,
                True,
                "all that was asked was done where it belongs, and nothing else",
                tuple(sorted(harmful + neutral)),
            )
        last = steps[-1].index if steps else None
        first = min((problem.step for problem in problems if problem.step is not None), default=None)
        error = first if first is not None else harmful[0] if harmful else last
        return vote_of(self, False, "; ".join(problem.text for problem in problems), tuple(neutral), error)

    def _problems(self, episode: Episode, screens: ScreenReader) -> Sequence[GraphProblem]:
        query = episode.query
        if not is_annotated(query) and any(app in self.graphs for app in query.apps):
            return problems_of(follow(episode, screens, self.graphs))
        return [GraphProblem(text, None) for text in find_problems(annotated_task(query), replay(episode, screens))]


@dataclass(frozen=True)
class StepCriticByGraph:
    """Judges single steps by the annotations of the query, or by the graph of its app."""

    graphs: Mapping[str, AppGraph]

    @property
    def version(self) -> str:
        """The versions of both critics."""
        return (
            f"{AnnotatedStepCritic.version}|{GraphStepCritic.version}" if self.graphs else AnnotatedStepCritic.version
        )

    async def judge(self, episode: Episode, screens: ScreenReader) -> list[StepResult]:
        """Judge each step of an episode.

        Raises:
            JudgeFailure: a screen is missing, or the graph has not the pages of the query.
        """
        query = episode.query
        if not is_annotated(query) and any(app in self.graphs for app in query.apps):
            return await GraphStepCritic(self.graphs).judge(episode, screens)
        return await AnnotatedStepCritic().judge(episode, screens)


def graph_channel(channel: Channel, graphs: Mapping[str, AppGraph]) -> GraphChannel:
    """The critic of a channel."""
    return GraphChannel(channel, f"graph-{channel}-2", graphs)


def annotated_judge(graphs: Mapping[str, AppGraph] | None = None) -> Judge:
    """The judge that needs no model: it reads the annotations of a query, or the graph of its app."""
    known = graphs or {}
    channels = (graph_channel(channel, known) for channel in (Channel.TEXT, Channel.MULTIMODAL))
    return Judge(StepCriticByGraph(known), tuple(map(single_vote, channels)))
