"""Judges single steps by the graph of a live app: on a path to the task, of no use, or harmful."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import networkx as nx

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.critics.app_graph.episode_on_graph import GraphEpisode, GraphStep, follow
from trajmill.stages.critics.app_graph.problems import end_problems, way_problems
from trajmill.stages.critics.base import StepResult, at_most_words
from trajmill.stages.graphs.base import AppGraph
from trajmill.stages.graphs.network import walkable

GOOD, NEUTRAL, HARMFUL = StepLabel.GOOD, StepLabel.NEUTRAL, StepLabel.HARMFUL


@dataclass(frozen=True)
class GraphStepCritic:
    """Compares each step with the graph."""

    graphs: Mapping[str, AppGraph]
    """By app, its graph."""
    version: ClassVar[str] = "graph-step-1"

    async def judge(self, episode: Episode, screens: ScreenReader) -> list[StepResult]:
        """Judge each step of an episode.

        Raises:
            JudgeFailure: the query was not made from a graph, or a screen is missing.
        """
        if not episode.steps:
            return []
        followed = follow(episode, screens, self.graphs)
        harmful = _harmful(followed)
        return [_result(followed, step, harmful.get(step.seen.index)) for step in followed.steps]


def _harmful(episode: GraphEpisode) -> dict[int, str]:
    """By index, why a step is harmful."""
    try:
        return {problem.step: problem.text for problem in way_problems(episode) if problem.step is not None}
    except JudgeFailure:
        return {}


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
        problems = end_problems(episode)
    except JudgeFailure:
        return NEUTRAL, "The graph does not tell whether everything was done."
    return (HARMFUL, f"It ended though {problems[0].text}.") if problems else (GOOD, "Everything had been done.")
