"""An episode read against the path of its query: what the path does on the graph of the app, and the query's goal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, permutations
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.observation import Observation, ScreenReader
from trajmill.schemas.tables.query import Query
from trajmill.stages.critics.app_graph.episode_on_graph import (
    Act,
    AskedFor,
    GraphState,
    GraphStep,
    act_of,
    asked_for,
    held_on,
    names_at,
    observation_of,
    operated,
    value_on,
    with_act,
)
from trajmill.stages.critics.app_graph.reading import Left, Problem, Ways
from trajmill.stages.critics.replay import SeenStep, replay
from trajmill.stages.environments import screen_goal
from trajmill.stages.environments.screen_goal import is_shown, targets
from trajmill.stages.graphs.base import AppGraph
from trajmill.stages.graphs.network import walkable
from trajmill.stages.graphs.recognise import is_on, page_on, recognises

_MOST_ORDERED = 4
"""Up to so many acts are tried in any order; more only in that of the path."""
_CHECKPOINTS = TypeAdapter(tuple[screen_goal.Checkpoint, ...])
_ANY_GOAL = TypeAdapter(dict[str, Any])


class PathReading(NamedTuple):
    """An episode on an app's graph, read against the path of its query."""

    graph: AppGraph
    query: Query
    asked: AskedFor
    taken: tuple[GraphStep, ...]
    screens: tuple[Observation, ...]
    """The first screen, then the screen after each step."""
    states: tuple[GraphState, ...]
    """The state before the first step, then after each step."""

    @property
    def steps(self) -> tuple[SeenStep, ...]:
        return tuple(each.seen for each in self.taken)

    def problems(self) -> list[Problem]:
        """Return all that is wrong.

        Raises JudgeFailure if nothing is wrong for certain, but the graph does not describe what a step did, or the end
        cannot be judged (see `_end_problems`).
        """
        problems = list(_way_problems(self))
        try:
            problems += map(Problem, _end_problems(self))
        except JudgeFailure:
            if not problems:
                raise
        unknown = next((each for each in self.taken if not each.known and not each.seen.outcome.same), None)
        if not problems and unknown is not None:
            raise JudgeFailure(f"{self.query.task}: the graph does not know what step {unknown.seen.index} did")
        return problems

    def left(self) -> list[Left]:
        # Keep the ways that do nothing else: those of the graph, and those that only the episode shows (a Back key).
        network, wanted = walkable(self.graph), {act.name for act in self.asked.acts}
        for page, to, key, each in tuple[Any, ...](network.edges(keys=True, data="transition")):
            act = act_of(page, each)
            if act is not None and act.name not in wanted:
                network.remove_edge(page, to, key)
        for step in self.taken:
            if step.page and step.page_after and (step.transition is None or step.transition.to != step.page_after):
                network.add_edge(step.page, step.page_after)
        ways_in = ((page, each.by) for page, each in self.graph.transitions() if act_of(page, each) is None)
        lists = {by: page for page, by in ways_in if by in self.graph.pages[page].slots}
        ways = Ways(network)
        return [_left_after(self, at, ways, lists) for at in range(len(self.states))]

    def use_of(self, at: int) -> str:
        step = self.taken[at]
        named = {each.target for each in self.query.path if each.page.partition(".")[2] == step.page}
        is_needed = step.page == step.page_after and not named.isdisjoint(names_at(self.screens[at], step.seen))
        return "It pressed what the task needs." if is_needed else ""


def follow(episode: Episode, screens: ScreenReader, graphs: Mapping[str, AppGraph]) -> PathReading:
    """Follow an episode on its app's graph. Raises JudgeFailure for a missing screen, or pages of no graph."""
    query = episode.query
    graph = graphs.get(query.apps[0]) if query.apps else None
    names = {f"{graph.app}.{page}" for page in graph.pages} if graph else set()
    if graph is None or not query.pages or not names.issuperset(query.pages):
        raise JudgeFailure(f"{query.task}: no graph has its pages; judge it by a model or by its own check")
    replayed = replay(episode, screens)
    if not replayed:
        raise JudgeFailure(f"{query.task}: the agent did nothing")
    ids = (episode.steps[0].screen_before, *(step.screen_after for step in episode.steps))
    seen = tuple(observation_of(screen_id, screens) for screen_id in ids)
    held, opened = dict[str, str](), dict[str, str]()
    steps, states = list[GraphStep](), list[GraphState]()
    for each in replayed:
        outcome = each.outcome
        before, after = (observation_of(state.screen_id, screens) for state in (outcome.before, outcome.after))
        page = page_on(graph, before)
        page_after = page if outcome.same else page_on(graph, after)
        held |= held_on(graph, page, before)
        step = operated(graph, each, page, page_after, before)
        stood = dict(held)
        states = states or [GraphState(page, {}, stood)]
        held |= held_on(graph, page_after, after)
        if not outcome.same:
            step = with_act(graph, step, stood, opened, before, after)
        steps.append(step)
        states.append(GraphState(page_after or page or states[-1].page, dict(opened), dict(held)))
    return PathReading(graph, query, asked_for(graph, query), tuple(steps), seen, tuple(states))


def _left_after(episode: PathReading, at: int, ways: Ways, lists: Mapping[str, str]) -> Left:
    """Return what is left after some steps; `lists` has the page of each slot whose items only lead on."""
    asked, state, pages = episode.asked, episode.states[at], episode.graph.pages
    unasked, acts = acts_after(episode.taken[:at], asked.acts)
    wanted = {*asked.settings.items(), *(pair for act in acts for pair in act.values.items())}
    first = {name: value for each in reversed(episode.states) for name, value in each.held.items()}
    to_do, to_set = list(acts), len({name for name, _ in wanted} - set(state.held))
    for name, value in state.held.items():
        aims = [each.strip() for slot, each in wanted if slot == name]
        if not aims and value != first[name] and (name, value.strip()) not in asked.given:
            there = next(page for page in (state.page, *pages) if page in pages and name in pages[page].slots)
            to_do.append(Act("", {}, there))
        aims = aims or [first[name].strip(), *(each for slot, each in asked.given if slot == name)]
        if value.strip() not in aims:
            to_set += 1 if any(_leads_to(each, value.strip(), first[name]) for each in aims) else 2
    orders, end = permutations(to_do) if len(to_do) <= _MOST_ORDERED else [to_do], Act("", asked.opened, asked.end)
    way = min(ways.past(_stops(lists, state, (*order, end))) for order in orders)
    destroyed = sum(each.destroys for each in episode.taken[:at])
    return Left(destroyed + len(unasked), len(acts), way, to_set)


def _leads_to(aim: str, value: str, first: str) -> bool:
    """Whether a value is no farther from an aim than the first one: itself, a beginning, or a number towards it."""
    if aim.isdecimal() and value.isdecimal() and first.strip().isdecimal():
        return abs(int(aim) - int(value)) <= abs(int(aim) - int(first))
    return value == first.strip() or aim.startswith(value)


def _stops(lists: Mapping[str, str], state: GraphState, acts: Sequence[Act]) -> list[str]:
    """Return the pages to pass: those of acts, and before each the lists of the items that it needs."""
    stops, opened = [state.page or ""], dict(state.opened)
    for act in acts:
        other = {name: item for name, item in act.values.items() if name in lists and opened.get(name) != item}
        stops += [*map(lists.__getitem__, other), act.page]
        opened |= other
    return stops


def _way_problems(episode: PathReading) -> Iterator[Problem]:
    """Yield what was done on the way and is no part of the task, and what the task asks for and was never done.

    The agent may take any way to the pages of the task. Each act must be done with the values that the task asks for.
    """

    def shown(act: Act) -> str:
        values = ", ".join(f"{name} {value!r}" for name, value in act.values.items())
        return f"{act.name!r} with {values}" if values else repr(act.name)

    for each in episode.taken:
        if each.destroys:
            yield Problem("it did something destructive", each.seen.index)
    unasked, left = acts_after(episode.taken, episode.asked.acts)
    for at, act in unasked.items():
        yield Problem(f"it did {shown(act)}, which nobody asked for", at)
    for act in left:
        yield Problem(f"it did not do {shown(act)}")
    for slot, item in episode.asked.opened.items():
        if episode.states[-1].opened.get(slot) != item:
            yield Problem(f"it did not open {item!r} last")
    # Settings that nobody asked for, were changed on a page, and still stand at the end.
    first: dict[str, tuple[int, str, str]] = {}
    for step, (before, after) in zip(episode.taken, pairwise(episode.states), strict=True):
        if step.page is not None and step.page == step.page_after and step.transition is None:
            changed = {name: old for name, old in before.held.items() if after.held[name] != old}
            first = {name: (step.seen.index, old, step.page) for name, old in changed.items()} | first
    for slot, (index, old, page) in first.items():
        value = next(each.held[slot] for each in reversed(episode.states) if each.page == page)
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


def _end_problems(episode: PathReading) -> Iterator[str]:
    """Yield what is missing at the end: the page, a value in its place, an effect, or the report that it is done.

    Raises JudgeFailure if the last screen is not in the graph, or the goal cannot be read or is about something that no
    screen shows.
    """
    graph, query, last, asked = episode.graph, episode.query, episode.screens[-1], episode.asked
    end = asked.end
    if not episode.taken[-1].seen.action.ends:
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
    for each in asked.shown:
        if not is_on(each, elements):
            yield f"{each.text or each.id or each.role!r} does not stand at the end"
    try:
        goal: dict[str, Any] = _ANY_GOAL.validate_json(query.goal)
        pathway = _CHECKPOINTS.validate_python(goal.pop(screen_goal.PATHWAY, ()))
        keys = [key for key in (screen_goal.KEY, screen_goal.LACKING) if key in goal]
        demanded = screen_goal.ScreenGoal.model_validate({key: goal.pop(key) for key in keys})
    except ValidationError as error:
        raise JudgeFailure(f"{query.task}: goal: {error.errors()[0]['msg']}") from error
    if goal and not asked.has_own_goal:
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
