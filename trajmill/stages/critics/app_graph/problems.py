"""Finds what is wrong with an episode by the graph of its app, and by what its query asks for.

A problem is certain. Where the graph does not tell, `JudgeFailure` says so, and the trajectory stays unjudged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.observation import Observation
from trajmill.schemas.tables.query import Query
from trajmill.stages.critics.app_graph.episode_on_graph import GraphEpisode, GraphStep, is_same, value_on
from trajmill.stages.critics.app_graph.path_on_graph import Act, asked_for, transitions_of, wanted_features
from trajmill.stages.environments.screen_goal import (
    KEY,
    LACKING,
    PATHWAY,
    Checkpoint,
    ScreenGoal,
    Showing,
    holds_on,
    is_shown,
    targets,
)
from trajmill.stages.graphs.recognise import is_on, page_on, recognises


class GraphProblem(NamedTuple):
    """Something that is wrong for certain."""

    text: str
    step: int | None
    """Index of the step; None for what is missing at the end."""


def problems_of(episode: GraphEpisode) -> list[GraphProblem]:
    """All that is wrong with an episode; empty if it did what its query asks.

    Raises:
        JudgeFailure: nothing is wrong for certain, but a step did something that the graph does not know, or the end
            cannot be judged (see `end_problems`).
    """
    problems = way_problems(episode)
    try:
        problems += end_problems(episode)
    except JudgeFailure:
        if not problems:
            raise
    if not problems:
        for step in episode.steps:
            if not step.known and not step.seen.outcome.same:
                raise JudgeFailure(f"{episode.query.task}: the graph does not know what step {step.seen.index} did")
    return problems


def way_problems(episode: GraphEpisode) -> list[GraphProblem]:
    """What was done on the way and is no part of the task, and what the task asks for and was never done.

    The agent may take any way to the pages of the task. Each act must be done with the values that the task asks for.
    """
    problems = [
        GraphProblem("it did something destructive", each.seen.index) for each in episode.steps if each.destroys
    ]
    asked = asked_for(episode.graph, episode.query.path)
    acts = acts_after(episode.steps, asked.acts)
    problems += [GraphProblem(f"it did {_shown(act)}, which nobody asked for", at) for at, act in acts.unasked.items()]
    problems += [GraphProblem(f"it did not do {_shown(act)}", None) for act in acts.left]
    for slot, item in asked.opened.items():
        if episode.states[-1].opened.get(slot) != item:
            problems.append(GraphProblem(f"it did not open {item!r} last", None))
    return [*problems, *_changed_settings(episode, asked.given)]


def end_problems(episode: GraphEpisode) -> list[GraphProblem]:
    """What is missing at the end: the page, a value in its place, an effect, or the word that the task is done.

    Raises:
        JudgeFailure: the graph does not know the last screen, or the goal cannot be read or is about something that no
            screen shows.
    """
    if not episode.steps[-1].seen.action.ends:
        return [GraphProblem("the agent did not say that it was done", None)]
    graph, end = episode.graph, episode.end
    if not recognises(graph.pages[end].recognise, episode.last):
        other = page_on(graph, episode.last)
        if other is None:
            raise JudgeFailure(f"{episode.query.task}: the graph does not know the last screen")
        return [GraphProblem(f"it ended on the page {other!r}, not on {end!r}", None)]
    return [GraphProblem(text, None) for text in chain(_unset(episode), _lacking_effects(episode), _unmet(episode))]


class ActsAfter(NamedTuple):
    """How the acts of some steps compare with what is asked for."""

    unasked: Mapping[int, Act]
    """By step, the acts that nobody asked for and that were not taken back."""
    left: tuple[Act, ...]
    """The acts that are still to be done."""


def acts_after(steps: Sequence[GraphStep], asked: Sequence[Act]) -> ActsAfter:
    """Compare what steps have done with the acts that are asked for."""
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
        match = next((each for each in left if _is_done(each, act)), None)
        if match is None:
            unasked[index] = act
        else:
            left.remove(match)
    return ActsAfter(unasked, tuple(left))


def _is_done(asked: Act, done: Act) -> bool:
    """Whether an act is the wanted one; its values stood where they belong when it was done."""
    values = done.values
    return asked.name == done.name and all(
        name in values and is_same(values[name], value) for name, value in asked.values.items()
    )


def _shown(act: Act) -> str:
    values = ", ".join(f"{name} {value!r}" for name, value in act.values.items())
    return f"{act.name!r} with {values}" if values else repr(act.name)


def _changed_settings(episode: GraphEpisode, asked: frozenset[tuple[str, str]]) -> Iterator[GraphProblem]:
    """The slots that were given another value, which nobody asked for and which stands at the end."""
    first: dict[str, tuple[int, str]] = {}
    for step, (before, after) in zip(episode.steps, pairwise(episode.states), strict=True):
        if step.page is not None and step.page == step.page_after and step.transition is None:
            changed = {name: old for name, old in before.held.items() if after.held[name] != old}
            first = {name: (step.seen.index, old) for name, old in changed.items()} | first
    for slot, (index, old) in first.items():
        value = episode.states[-1].held[slot]
        if value != old and (slot, value.strip()) not in asked:
            yield GraphProblem(f"it set {slot} to {value!r}, which nobody asked for", index)


def _unset(episode: GraphEpisode) -> Iterator[str]:
    """The values that do not stand where they were to be set."""
    elements = targets(episode.last.elements or ())
    slots = episode.graph.pages[episode.end].slots
    for name, wanted in asked_for(episode.graph, episode.query.path).settings.items():
        value = value_on(slots[name], elements) if name in slots else None
        if value is None or not is_same(value, wanted):
            yield f"{name} is not {wanted!r} at the end"


def _lacking_effects(episode: GraphEpisode) -> Iterator[str]:
    elements = episode.last.elements or ()
    for each in wanted_features(episode.graph, episode.query.path, episode.end):
        if not is_on(each, elements):
            yield f"{each.text or each.id or each.role!r} does not stand at the end"


def _unmet(episode: GraphEpisode) -> Iterator[str]:
    """What the goal says of the screens and is not so."""
    goal = _goal_of(episode.query)
    if goal.own and not any(each.transition.goal for each in transitions_of(episode.graph, episode.query.path)):
        raise JudgeFailure(f"{episode.query.task}: its goal is about more than screens; judge it by its own check")
    last = episode.last
    yield from (f"{_named(each)} does not stand at the end" for each in goal.last.showing if not is_shown(last, each))
    yield from (f"{_named(each)} still stands at the end" for each in goal.last.lacking if is_shown(last, each))
    seen = _checkpoints_seen(goal.pathway, episode.screens, episode.query)
    if seen < len(goal.pathway):
        yield f"answer {seen + 1} of {len(goal.pathway)} was not seen in its turn"


class _Goal(NamedTuple):
    """What the goal of a query says of screens, and what else it says."""

    last: ScreenGoal
    pathway: tuple[Checkpoint, ...]
    own: Mapping[str, Any]


def _goal_of(query: Query) -> _Goal:
    try:
        goal: dict[str, Any] = _ANY_GOAL.validate_json(query.goal)
        pathway = _CHECKPOINTS.validate_python(goal.pop(PATHWAY, ()))
        last = ScreenGoal.model_validate({key: goal.pop(key) for key in (KEY, LACKING) if key in goal})
    except ValidationError as error:
        raise JudgeFailure(f"{query.task}: goal: {error.errors()[0]['msg']}") from error
    return _Goal(last, pathway, goal)


def _checkpoints_seen(pathway: Sequence[Checkpoint], screens: Sequence[Observation], query: Query) -> int:
    """How many answers of a causal pathway were seen, one after the other."""
    seen = 0
    for screen in screens:
        while (
            seen < len(pathway) and pathway[seen].device in (None, query.platform) and holds_on(screen, pathway[seen])
        ):
            seen += 1
    return seen


def _named(wanted: Showing) -> str:
    name = wanted.text or wanted.target or wanted.id or wanted.role
    return f"{name} = {wanted.value!r}" if wanted.value is not None else repr(name)


_CHECKPOINTS = TypeAdapter(tuple[Checkpoint, ...])
_ANY_GOAL = TypeAdapter(dict[str, Any])
