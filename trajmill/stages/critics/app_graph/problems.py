"""Finds what is wrong with an episode by the graph of its app, and by what its query asks for.

A problem is certain. Where the graph is silent, `JudgeFailure` is raised, and the trajectory stays unjudged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from trajmill.schemas.errors import JudgeFailure
from trajmill.stages.critics.app_graph.episode_on_graph import GraphEpisode, GraphStep, value_on
from trajmill.stages.critics.app_graph.path_on_graph import Act
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

_CHECKPOINTS = TypeAdapter(tuple[Checkpoint, ...])
_ANY_GOAL = TypeAdapter(dict[str, Any])


class GraphProblem(NamedTuple):
    """Something that is wrong for certain."""

    text: str
    step: int | None = None
    """Index of the step; None for what is missing at the end."""


def problems_of(episode: GraphEpisode) -> list[GraphProblem]:
    """Return all that is wrong with an episode; empty if it did what its query asks.

    Raises:
        JudgeFailure: nothing is wrong for certain, but a step did something that the graph does not describe, or the
            end cannot be judged (see `_end_problems`).
    """
    problems = list(_way_problems(episode))
    try:
        problems += map(GraphProblem, _end_problems(episode))
    except JudgeFailure:
        if not problems:
            raise
    unknown = next((each for each in episode.steps if not each.known and not each.seen.outcome.same), None)
    if not problems and unknown is not None:
        raise JudgeFailure(f"{episode.query.task}: the graph does not know what step {unknown.seen.index} did")
    return problems


def _way_problems(episode: GraphEpisode) -> Iterator[GraphProblem]:
    """Yield what was done on the way and is no part of the task, and what the task asks for and was never done.

    The agent may take any way to the pages of the task. Each act must be done with the values that the task asks for.
    """
    for each in episode.steps:
        if each.destroys:
            yield GraphProblem("it did something destructive", each.seen.index)
    acts = acts_after(episode.steps, episode.asked.acts)
    for at, act in acts.unasked.items():
        yield GraphProblem(f"it did {_shown(act)}, which nobody asked for", at)
    for act in acts.left:
        yield GraphProblem(f"it did not do {_shown(act)}")
    for slot, item in episode.asked.opened.items():
        if episode.states[-1].opened.get(slot) != item:
            yield GraphProblem(f"it did not open {item!r} last")
    # Settings that were changed on a page, which nobody asked for and which stand at the end.
    first: dict[str, tuple[int, str]] = {}
    for step, (before, after) in zip(episode.steps, pairwise(episode.states), strict=True):
        if step.page is not None and step.page == step.page_after and step.transition is None:
            changed = {name: old for name, old in before.held.items() if after.held[name] != old}
            first = {name: (step.seen.index, old) for name, old in changed.items()} | first
    for slot, (index, old) in first.items():
        value = episode.states[-1].held[slot]
        if value != old and (slot, value.strip()) not in episode.asked.given:
            yield GraphProblem(f"it set {slot} to {value!r}, which nobody asked for", index)


def _end_problems(episode: GraphEpisode) -> Iterator[str]:
    """Yield what is missing at the end: the page, a value in its place, an effect, or the report that it is done.

    Raises:
        JudgeFailure: the graph does not know the last screen, or the goal cannot be read or is about something that no
            screen shows.
    """
    graph, end, last, asked = episode.graph, episode.end, episode.screens[-1], episode.asked
    if not episode.steps[-1].seen.action.ends:
        yield "the agent did not say that it was done"
        return
    if not recognises(graph.pages[end].recognise, last):
        other = page_on(graph, last)
        if other is None:
            raise JudgeFailure(f"{episode.query.task}: the graph does not know the last screen")
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
    yield from _unmet(episode)


class ActsAfter(NamedTuple):
    """How the acts of some steps compare with what is asked for."""

    unasked: Mapping[int, Act]
    """By step, the acts that nobody asked for and that were not taken back."""
    left: tuple[Act, ...]


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
    values = {name: value.strip() for name, value in done.values.items()}
    return asked.name == done.name and all(values.get(name) == value.strip() for name, value in asked.values.items())


def _shown(act: Act) -> str:
    values = ", ".join(f"{name} {value!r}" for name, value in act.values.items())
    return f"{act.name!r} with {values}" if values else repr(act.name)


def _unmet(episode: GraphEpisode) -> Iterator[str]:
    """Yield what the goal of the query demands of the screens and is not so."""
    query, last = episode.query, episode.screens[-1]
    try:
        goal: dict[str, Any] = _ANY_GOAL.validate_json(query.goal)
        pathway = _CHECKPOINTS.validate_python(goal.pop(PATHWAY, ()))
        wanted = ScreenGoal.model_validate({key: goal.pop(key) for key in (KEY, LACKING) if key in goal})
    except ValidationError as error:
        raise JudgeFailure(f"{query.task}: goal: {error.errors()[0]['msg']}") from error
    if goal and not any(each.transition.goal for each in episode.asked.taken):
        raise JudgeFailure(f"{query.task}: its goal is about more than screens; judge it by its own check")
    yield from (f"{_named(each)} does not stand at the end" for each in wanted.showing if not is_shown(last, each))
    yield from (f"{_named(each)} still stands at the end" for each in wanted.lacking if is_shown(last, each))
    left = list(pathway)
    for screen in episode.screens:
        while left and left[0].device in (None, query.platform) and holds_on(screen, left[0]):
            left.pop(0)
    if left:
        yield f"answer {len(pathway) - len(left) + 1} of {len(pathway)} was not seen in its turn"


def _named(wanted: Showing) -> str:
    name = wanted.text or wanted.target or wanted.id or wanted.role
    return f"{name} = {wanted.value!r}" if wanted.value is not None else repr(name)
