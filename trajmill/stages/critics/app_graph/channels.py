"""The channels and the step critic that judge by annotations and ask no model.

A query that was made from a graph with annotated pages has its annotations itself; other queries are judged by the
graph of their app. Each channel reads the whole episode, so either can judge alone. Both read the same trees and the
same annotations, so they are no independent evidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from math import inf
from typing import Any, ClassVar, NamedTuple

import networkx as nx

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.verdict import Channel, StepLabel
from trajmill.stages.critics.annotated.problems import find_problems
from trajmill.stages.critics.annotated.step_critic import AnnotatedStepCritic, Opinion, result_of
from trajmill.stages.critics.annotated.task import annotated_task, is_annotated
from trajmill.stages.critics.app_graph.episode_on_graph import GraphEpisode, GraphState, follow, names_at
from trajmill.stages.critics.app_graph.path_on_graph import Act, act_of
from trajmill.stages.critics.app_graph.problems import GraphProblem, acts_after, problems_of
from trajmill.stages.critics.base import StepResult, Vote, vote_of
from trajmill.stages.critics.judge import Judge
from trajmill.stages.critics.trees.replay import replay
from trajmill.stages.critics.voting import FULL, single_vote
from trajmill.stages.graphs.base import AppGraph
from trajmill.stages.graphs.network import walkable

GOOD, NEUTRAL, HARMFUL = StepLabel.GOOD, StepLabel.NEUTRAL, StepLabel.HARMFUL
_MOST_ORDERED = 4
"""Up to so many acts are tried in any order; more only in that of the path."""


class _Left(NamedTuple):
    """What is left of a task; an earlier field counts more."""

    unasked: int
    """Acts that nobody asked for and that were not taken back."""
    acts: int
    transitions: float
    """The fewest on the graph, past each page on which something is left; infinite if it has no such way."""
    values: int


def _judge_steps(episode: GraphEpisode) -> list[StepResult]:
    """Judge each step by whether less of the task is left after it, over all ways on the graph."""
    # Where one can go by no other acts: on the graph, and in ways that only the episode shows, such as a Back key.
    ways, wanted = walkable(episode.graph), {act.name for act in episode.asked.acts}
    for page, to, key, each in tuple[Any, ...](ways.edges(keys=True, data="transition")):
        act = act_of(page, each)
        if act is not None and act.name not in wanted:
            ways.remove_edge(page, to, key)
    for step in episode.steps:
        if step.page and step.page_after and (step.transition is None or step.transition.to != step.page_after):
            ways.add_edge(step.page, step.page_after)
    left = [_left_after(episode, at, ways) for at in range(len(episode.states))]
    opinions = [_opinion(episode, at, before, after) for at, (before, after) in enumerate(pairwise(left))]
    return [result_of(step.seen, opinion) for step, opinion in zip(episode.steps, opinions, strict=True)]


def _left_after(episode: GraphEpisode, at: int, ways: nx.MultiDiGraph[str]) -> _Left:
    """Return what is left of the task after the first `at` steps."""
    asked, state, pages = episode.asked, episode.states[at], episode.graph.pages
    acts = acts_after(episode.steps[:at], asked.acts)
    wanted = {*asked.settings.items(), *(pair for act in acts.left for pair in act.values.items())}
    first = {name: value for each in reversed(episode.states) for name, value in each.held.items()}
    to_do, to_set = list(acts.left), len({name for name, _ in wanted} - set(state.held))
    for name, value in state.held.items():
        aims = [each.strip() for slot, each in wanted if slot == name]
        if not aims and value != first[name] and (name, value.strip()) not in asked.given:
            there = next(page for page in (state.page, *pages) if page in pages and name in pages[page].slots)
            to_do.append(Act("", {}, there))
        aims = aims or [first[name].strip(), *(each for slot, each in asked.given if slot == name)]
        if value.strip() not in aims:  # a beginning of a value, or none, is nearer to it than another value
            to_set += 1 if value == first[name] or any(each.startswith(value.strip()) for each in aims) else 2
    orders, end = permutations(to_do) if len(to_do) <= _MOST_ORDERED else [to_do], Act("", asked.opened, episode.end)
    way = min(_transitions(episode.graph, ways, state, (*order, end)) for order in orders)
    return _Left(len(acts.unasked), len(acts.left), way, to_set)


def _transitions(graph: AppGraph, ways: nx.MultiDiGraph[str], state: GraphState, acts: Sequence[Act]) -> float:
    """Return the fewest transitions past the pages of acts, and before each past the lists of the items it needs."""
    ways_in = [(page, each) for page, each in graph.transitions() if act_of(page, each) is None]
    lists = {each.by: page for page, each in ways_in if each.by in graph.pages[page].slots}
    stops, opened = [state.page or ""], dict(state.opened)
    for act in acts:
        other = {name: item for name, item in act.values.items() if name in lists and opened.get(name) != item}
        stops += [*map(lists.__getitem__, other), act.page]
        opened |= other
    try:
        return float(sum(nx.shortest_path_length(ways, *leg) for leg in pairwise(stops)))
    except (nx.NetworkXNoPath, nx.NodeNotFound):
        return inf


def _opinion(episode: GraphEpisode, at: int, before: _Left, after: _Left) -> Opinion:
    step = episode.steps[at]
    if step.seen.action.parsed is None:
        return Opinion(HARMFUL, "The reply was no action.")
    if step.seen.action.kind in ("terminate", "answer"):
        if not step.seen.action.ends:
            return Opinion(HARMFUL, "It gave up.")
        try:
            problems = problems_of(episode)
        except JudgeFailure:
            return Opinion(NEUTRAL, "The graph does not tell whether everything was done.")
        if problems:
            return Opinion(HARMFUL, f"It ended though {problems[0].text}.")
        return Opinion(GOOD, "Everything had been done.")
    if step.seen.outcome.same:
        return Opinion(NEUTRAL, "Nothing visible came of it.")
    if step.destroys:
        return Opinion(HARMFUL, "It did something destructive.")
    if after != before:
        return Opinion(GOOD, "Less is left.") if after < before else Opinion(HARMFUL, "More is left than before.")
    targets = {each.target for each in episode.query.path if each.page.partition(".")[2] == step.page}
    if step.page == step.page_after and targets & names_at(episode.screens[at], step.seen):
        return Opinion(GOOD, "It pressed what the task needs.")
    return Opinion(NEUTRAL, "It only looked, or the graph does not tell what it is for.")


def _is_judged_by_graph(query: Query, graphs: Mapping[str, AppGraph]) -> bool:
    return not is_annotated(query) and any(app in graphs for app in query.apps)


@dataclass(frozen=True)
class GraphChannel:
    """Votes Correct if it finds no problem."""

    channel: Channel
    graphs: Mapping[str, AppGraph]
    """By app, its graph; without it, only queries with annotated pages are judged."""
    resolution: ClassVar[str] = FULL

    @property
    def version(self) -> str:
        return f"graph-{self.channel}-2"

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        """Vote on a finished episode.

        In a correct trajectory, the steps that did not help are redundant. In an incorrect one, the first step with a
        problem is the error, else the first harmful step, else the last one, because it ended an unfinished task.

        Raises:
            JudgeFailure: the annotations of the query are unknown or insufficient, or a screen is missing.
        """
        query = episode.query
        if _is_judged_by_graph(query, self.graphs):
            problems = problems_of(follow(episode, screens, self.graphs))
        else:
            problems = [GraphProblem(text) for text in find_problems(annotated_task(query), replay(episode, screens))]
        harmful = [step.index for step in steps if step.label is HARMFUL]
        neutral = [step.index for step in steps if step.label is NEUTRAL]
        if not problems:
            reason = "all that was asked was done where it belongs, and nothing else"
            return vote_of(self, True, reason, tuple(sorted(harmful + neutral)))
        with_step = [problem.step for problem in problems if problem.step is not None]
        last = [step.index for step in steps[-1:]]
        error = next(iter([*sorted(with_step), *harmful, *last]), None)
        return vote_of(self, False, "; ".join(problem.text for problem in problems), tuple(neutral), error)


@dataclass(frozen=True)
class StepCriticByGraph:
    """Judges single steps by the annotations of the query, or by the graph of its app."""

    graphs: Mapping[str, AppGraph]

    @property
    def version(self) -> str:
        return f"{AnnotatedStepCritic.version}|graph-step-3" if self.graphs else AnnotatedStepCritic.version

    async def judge(self, episode: Episode, screens: ScreenReader) -> list[StepResult]:
        """Judge each step of an episode.

        Raises:
            JudgeFailure: a screen is missing, or the graph has not the pages of the query.
        """
        if _is_judged_by_graph(episode.query, self.graphs):
            return _judge_steps(follow(episode, screens, self.graphs)) if episode.steps else []
        return await AnnotatedStepCritic().judge(episode, screens)


def annotated_judge(graphs: Mapping[str, AppGraph] | None = None) -> Judge:
    """Return the judge that needs no model: it reads the annotations of a query, or the graph of its app."""
    known = graphs or {}
    channels = (single_vote(GraphChannel(channel, known)) for channel in (Channel.TEXT, Channel.MULTIMODAL))
    return Judge(StepCriticByGraph(known), tuple(channels))
