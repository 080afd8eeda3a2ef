"""The channels and the step critic that judge by annotations and ask no model.

A query that was made from a graph with annotated pages has its annotations itself; other queries are judged by the
graph of their app. Each channel reads the whole episode, so either can judge alone. Both read the same trees and the
same annotations, so they are no independent evidence. A problem is certain: where the graph is silent, `JudgeFailure`
is raised, and the trajectory stays unjudged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, permutations
from math import inf
from typing import Any, ClassVar, NamedTuple

import networkx as nx
from pydantic import TypeAdapter, ValidationError

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.query import Query
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.annotated.episode import Problem
from trajmill.stages.critics.annotated.step_critic import (
    GOOD,
    HARMFUL,
    NEUTRAL,
    AnnotatedStepCritic,
    Opinion,
    find_problems,
    plain_opinion,
)
from trajmill.stages.critics.annotated.task import annotated_task, is_annotated
from trajmill.stages.critics.app_graph.episode_on_graph import (
    Act,
    GraphEpisode,
    GraphState,
    GraphStep,
    act_of,
    follow,
    names_at,
    value_on,
)
from trajmill.stages.critics.judge import Judge
from trajmill.stages.critics.trees.replay import replay
from trajmill.stages.critics.voting import FULL, StepResult, Vote, single_vote, vote_of
from trajmill.stages.environments import screen_goal
from trajmill.stages.environments.screen_goal import is_shown, targets
from trajmill.stages.graphs.base import AppGraph
from trajmill.stages.graphs.network import walkable
from trajmill.stages.graphs.recognise import is_on, page_on, recognises

_MOST_ORDERED = 4
"""Up to so many acts are tried in any order; more only in that of the path."""
_CHECKPOINTS = TypeAdapter(tuple[screen_goal.Checkpoint, ...])
_ANY_GOAL = TypeAdapter(dict[str, Any])


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
        """Vote on a finished episode. Raises JudgeFailure for unknown or insufficient annotations, or a missing screen.

        In a correct trajectory, the steps that did not help are redundant. In an incorrect one, the first step with a
        problem is the error, else the first harmful step, else the last one, because it ended an unfinished task.
        """
        if _is_judged_by_graph(episode.query, self.graphs):
            problems = problems_of(follow(episode, screens, self.graphs))
        else:
            problems = find_problems(annotated_task(episode.query), replay(episode, screens))
        harmful = [step.index for step in steps if step.label is HARMFUL]
        neutral = [step.index for step in steps if step.label is NEUTRAL]
        if not problems:
            reason = "all that was asked was done where it belongs, and nothing else"
            return vote_of(self, True, reason, tuple(sorted(harmful + neutral)))
        with_step = sorted(problem.step for problem in problems if problem.step is not None)
        error = next(iter([*with_step, *harmful, *(step.index for step in steps[-1:])]), None)
        return vote_of(self, False, "; ".join(problem.text for problem in problems), tuple(neutral), error)


@dataclass(frozen=True)
class StepCriticByGraph:
    graphs: Mapping[str, AppGraph]

    @property
    def version(self) -> str:
        return f"{AnnotatedStepCritic.version}|graph-step-3" if self.graphs else AnnotatedStepCritic.version

    async def judge(self, episode: Episode, screens: ScreenReader) -> list[StepResult]:
        """Judge each step by whether less of the task is left after it, over all ways on the graph.

        Raises JudgeFailure if a screen is missing, or the graph has not the pages of the query.
        """
        if not _is_judged_by_graph(episode.query, self.graphs):
            return await AnnotatedStepCritic().judge(episode, screens)
        if not episode.steps:
            return []
        followed = follow(episode, screens, self.graphs)
        # Where one can go by no other acts: on the graph, and in ways that only the episode shows, such as a Back key.
        ways, wanted = walkable(followed.graph), {act.name for act in followed.asked.acts}
        for page, to, key, each in tuple[Any, ...](ways.edges(keys=True, data="transition")):
            act = act_of(page, each)
            if act is not None and act.name not in wanted:
                ways.remove_edge(page, to, key)
        for step in followed.steps:
            if step.page and step.page_after and (step.transition is None or step.transition.to != step.page_after):
                ways.add_edge(step.page, step.page_after)
        left = [_left_after(followed, at, ways) for at in range(len(followed.states))]
        opinions = (_opinion(followed, at, before, after) for at, (before, after) in enumerate(pairwise(left)))
        return [opinion.on(step.seen) for step, opinion in zip(followed.steps, opinions, strict=True)]


def annotated_judge(graphs: Mapping[str, AppGraph] | None = None) -> Judge:
    """Return the judge that needs no model: it reads the annotations of a query, or the graph of its app."""
    known = graphs or {}
    channels = (single_vote(GraphChannel(channel, known)) for channel in (Channel.TEXT, Channel.MULTIMODAL))
    return Judge(StepCriticByGraph(known), tuple(channels))


def _is_judged_by_graph(query: Query, graphs: Mapping[str, AppGraph]) -> bool:
    return not is_annotated(query) and any(app in graphs for app in query.apps)


class _Left(NamedTuple):
    """What is left of a task; an earlier field counts more."""

    unasked: int
    acts: int
    transitions: float
    """The fewest on the graph, past each page on which something is left; infinite if it has no such way."""
    values: int


def _left_after(episode: GraphEpisode, at: int, ways: nx.MultiDiGraph[str]) -> _Left:
    asked, state, pages = episode.asked, episode.states[at], episode.graph.pages
    unasked, acts = acts_after(episode.steps[:at], asked.acts)
    wanted = {*asked.settings.items(), *(pair for act in acts for pair in act.values.items())}
    first = {name: value for each in reversed(episode.states) for name, value in each.held.items()}
    to_do, to_set = list(acts), len({name for name, _ in wanted} - set(state.held))
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
    return _Left(len(unasked), len(acts), way, to_set)


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
    try:
        plain = plain_opinion(step.seen, partial(problems_of, episode))
    except JudgeFailure:
        return Opinion(NEUTRAL, "The graph does not tell whether everything was done.")
    if plain is not None:
        return plain
    if step.destroys:
        return Opinion(HARMFUL, "It did something destructive.")
    if after != before:
        return Opinion(GOOD, "Less is left.") if after < before else Opinion(HARMFUL, "More is left than before.")
    named = {each.target for each in episode.query.path if each.page.partition(".")[2] == step.page}
    if step.page == step.page_after and named & names_at(episode.screens[at], step.seen):
        return Opinion(GOOD, "It pressed what the task needs.")
    return Opinion(NEUTRAL, "It only looked, or the graph does not tell what it is for.")


def problems_of(episode: GraphEpisode) -> list[Problem]:
    """Return all that is wrong with an episode; empty if it did what its query asks.

    Raises JudgeFailure if nothing is wrong for certain, but the graph does not describe what a step did, or the end
    cannot be judged (see `_end_problems`).
    """
    problems = list(_way_problems(episode))
    try:
        problems += map(Problem, _end_problems(episode))
    except JudgeFailure:
        if not problems:
            raise
    unknown = next((each for each in episode.steps if not each.known and not each.seen.outcome.same), None)
    if not problems and unknown is not None:
        raise JudgeFailure(f"{episode.query.task}: the graph does not know what step {unknown.seen.index} did")
    return problems


def _way_problems(episode: GraphEpisode) -> Iterator[Problem]:
    """Yield what was done on the way and is no part of the task, and what the task asks for and was never done.

    The agent may take any way to the pages of the task. Each act must be done with the values that the task asks for.
    """

    def shown(act: Act) -> str:
        values = ", ".join(f"{name} {value!r}" for name, value in act.values.items())
        return f"{act.name!r} with {values}" if values else repr(act.name)

    for each in episode.steps:
        if each.destroys:
            yield Problem("it did something destructive", each.seen.index)
    unasked, left = acts_after(episode.steps, episode.asked.acts)
    for at, act in unasked.items():
        yield Problem(f"it did {shown(act)}, which nobody asked for", at)
    for act in left:
        yield Problem(f"it did not do {shown(act)}")
    for slot, item in episode.asked.opened.items():
        if episode.states[-1].opened.get(slot) != item:
            yield Problem(f"it did not open {item!r} last")
    # Settings that were changed on a page, which nobody asked for and which stand at the end.
    first: dict[str, tuple[int, str]] = {}
    for step, (before, after) in zip(episode.steps, pairwise(episode.states), strict=True):
        if step.page is not None and step.page == step.page_after and step.transition is None:
            changed = {name: old for name, old in before.held.items() if after.held[name] != old}
            first = {name: (step.seen.index, old) for name, old in changed.items()} | first
    for slot, (index, old) in first.items():
        value = episode.states[-1].held[slot]
        if value != old and (slot, value.strip()) not in episode.asked.given:
            yield Problem(f"it set {slot} to {value!r}, which nobody asked for", index)


def acts_after(steps: Sequence[GraphStep], asked: Sequence[Act]) -> tuple[dict[int, Act], list[Act]]:
    """Return by step the acts that nobody asked for and that were not taken back, and the asked ones that are left.

    An act is done if its values stood where they belong.
    """
    left, done, unasked = list(asked), dict[int, Act](), dict[int, Act]()
    for step in steps:
        if step.act is None:
            continue
        taken_back = next((at for at, act in reversed(done.items()) if act.name == step.act.name), None)
        if step.undone and taken_back is not None:
            del done[taken_back]
        else:
            done[step.seen.index] = step.act
    for index, act in done.items():
        values = {name: value.strip() for name, value in act.values.items()}
        same = (each for each in left if each.name == act.name)
        match = next((e for e in same if all(values.get(k) == v.strip() for k, v in e.values.items())), None)
        if match is None:
            unasked[index] = act
        else:
            left.remove(match)
    return unasked, left


def _end_problems(episode: GraphEpisode) -> Iterator[str]:
    """Yield what is missing at the end: the page, a value in its place, an effect, or the report that it is done.

    Raises JudgeFailure if the last screen is not in the graph, or the goal cannot be read or is about something that no
    screen shows.
    """
    graph, query, end, last, asked = episode.graph, episode.query, episode.end, episode.screens[-1], episode.asked
    if not episode.steps[-1].seen.action.ends:
        yield "the agent did not say that it was done"
        return
    if not recognises(graph.pages[end].recognise, last):
        other = page_on(graph, last)
        if other is None:
            raise JudgeFailure(f"{query.task}: the graph does not know the last screen")
        yield f"it ended on the page {other!r}, not on {end!r}"
        return
    elements, slots = last.elements or (), graph.pages[end].slots
    for name, wanted in asked.settings.items():
        value = value_on(slots[name], targets(elements)) if name in slots else None
        if value is None or value.strip() != wanted.strip():
            yield f"{name} is not {wanted!r} at the end"
    for each in asked.shown_at(end):
        if not is_on(each, elements):
            yield f"{each.text or each.id or each.role!r} does not stand at the end"
    try:
        goal: dict[str, Any] = _ANY_GOAL.validate_json(query.goal)
        pathway = _CHECKPOINTS.validate_python(goal.pop(screen_goal.PATHWAY, ()))
        keys = [key for key in (screen_goal.KEY, screen_goal.LACKING) if key in goal]
        demanded = screen_goal.ScreenGoal.model_validate({key: goal.pop(key) for key in keys})
    except ValidationError as error:
        raise JudgeFailure(f"{query.task}: goal: {error.errors()[0]['msg']}") from error
    if goal and not any(each.transition.goal for each in asked.taken):
        raise JudgeFailure(f"{query.task}: its goal is about more than screens; judge it by its own check")
    yield from (f"{_named(each)} does not stand at the end" for each in demanded.showing if not is_shown(last, each))
    yield from (f"{_named(each)} still stands at the end" for each in demanded.lacking if is_shown(last, each))
    left = list(pathway)
    for screen in episode.screens:
        while left and left[0].device in (None, query.platform) and screen_goal.holds_on(screen, left[0]):
            left.pop(0)
    if left:
        yield f"answer {len(pathway) - len(left) + 1} of {len(pathway)} was not seen in its turn"


def _named(showing: screen_goal.Showing) -> str:
    name = showing.text or showing.target or showing.id or showing.role
    return f"{name} = {showing.value!r}" if showing.value is not None else repr(name)
