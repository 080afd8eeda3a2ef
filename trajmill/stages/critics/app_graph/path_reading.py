"""An episode read against the path of its query on the graph of the app: pages, acts, and the values of slots."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise, permutations
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from trajmill.schemas.actions import PressKeys, TypeText, pressed_point
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation, ScreenHandle, ScreenReader, UIElement
from trajmill.schemas.tables.query import PathStep, Query
from trajmill.stages.critics.app_graph.reading import Left, Problem, Ways
from trajmill.stages.critics.trees.replay import SeenStep, replay
from trajmill.stages.environments import screen_goal
from trajmill.stages.environments.screen_goal import is_shown, targets
from trajmill.stages.graphs.base import AppGraph, Feature, GraphPage, GraphSlot, GraphTransition, Mark, SlotKind
from trajmill.stages.graphs.network import marks_on_way, walkable
from trajmill.stages.graphs.operations import OFF, ON
from trajmill.stages.graphs.recognise import filled, is_on, page_on, recognises

_MOST_ORDERED = 4
"""Up to so many acts are tried in any order; more only in that of the path."""
_CHECKPOINTS = TypeAdapter(tuple[screen_goal.Checkpoint, ...])
_ANY_GOAL = TypeAdapter(dict[str, Any])
_PLACE = re.compile(r"\{[a-z0-9][a-z0-9_-]*\}")


class Act(NamedTuple):
    name: str
    """The operated element or slot, or the pressed keys, whatever page they are on."""
    values: Mapping[str, str]
    """By slot, the values that it is done with, and the items that were opened before."""
    page: str


class TakenTransition(NamedTuple):
    page: str
    transition: GraphTransition
    values: Mapping[str, str]


class AskedFor(NamedTuple):
    """What a path does beside going from page to page."""

    taken: tuple[TakenTransition, ...]
    acts: tuple[Act, ...]
    opened: Mapping[str, str]
    """By slot of kind list, the item that is opened last."""
    settings: Mapping[str, str]
    """By slot of the last page, the value that is set there and needs no further act."""
    given: frozenset[tuple[str, str]]
    """All pairs of slot and value on the way."""

    def shown_at(self, end: str) -> Iterator[Feature]:
        """Yield what must stand on the last screen: what the last transitions show there, and all values given."""
        is_last = True
        for page, transition, values in reversed(self.taken):
            yield from (filled(each, values) for each in transition.shows if is_last or _PLACE.search(each.text or ""))
            is_last = is_last and page == end


class GraphStep(NamedTuple):
    seen: SeenStep
    page: str | None
    """The page before; None if it is not in the graph."""
    page_after: str | None
    transition: GraphTransition | None
    """The transition that was taken; None for any other action."""
    known: bool
    """The graph describes the operated element."""
    marks: frozenset[Mark] = frozenset()
    act: Act | None = None
    """What was done; None for going to a page, or for what changed nothing."""
    undone: bool = False
    """It took back what the act does."""

    @property
    def destroys(self) -> bool:
        return Mark.DESTRUCTIVE in self.marks and not self.seen.outcome.same


class GraphState(NamedTuple):
    page: str | None
    """The last page that is in the graph; None before the first one."""
    opened: Mapping[str, str]
    """By slot of kind list, the item that was opened last."""
    held: Mapping[str, str]


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

    @property
    def end(self) -> str:
        """The page on which the query's path ends."""
        return self.query.pages[-1].partition(".")[2]

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
        # Where one can go by no other acts: on the graph, and in ways that only the episode shows, such as a Back key.
        network, wanted = walkable(self.graph), {act.name for act in self.asked.acts}
        for page, to, key, each in tuple[Any, ...](network.edges(keys=True, data="transition")):
            act = act_of(page, each)
            if act is not None and act.name not in wanted:
                network.remove_edge(page, to, key)
        for step in self.taken:
            if step.page and step.page_after and (step.transition is None or step.transition.to != step.page_after):
                network.add_edge(step.page, step.page_after)
        ways = Ways(network)
        return [_left_after(self, at, ways) for at in range(len(self.states))]

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
    seen = tuple(_observation(screen_id, screens) for screen_id in ids)
    held, opened = dict[str, str](), dict[str, str]()
    steps, states = list[GraphStep](), list[GraphState]()
    for each in replayed:
        outcome = each.outcome
        before, after = (_observation(state.screen_id, screens) for state in (outcome.before, outcome.after))
        page = page_on(graph, before)
        page_after = page if outcome.same else page_on(graph, after)
        held |= _held(graph, page, before)
        step = _operated(graph, each, page, page_after, before)
        stood = dict(held)
        states = states or [GraphState(page, {}, stood)]
        held |= _held(graph, page_after, after)
        if not outcome.same:
            step = _with_act(graph, step, stood, opened, before, after)
        steps.append(step)
        states.append(GraphState(page_after or page or states[-1].page, dict(opened), dict(held)))
    return PathReading(graph, query, asked_for(graph, query.path), tuple(steps), seen, tuple(states))


def _observation(screen_id: str, screens: ScreenReader) -> Observation:
    # Nothing reads the size.
    handle = ScreenHandle(screen_id, Size(0, 0), partial(screens.image, screen_id))
    return Observation(handle, screens.elements(screen_id), "")


def names_at(before: Observation, step: SeenStep) -> set[str]:
    """Return the names in paths of all elements at the pressed point, e.g. a label and its button."""
    point = pressed_point(step.action.parsed) if step.action.parsed is not None else None
    if point is None:
        return set()
    return {name for name, each in targets(before.elements or ()).items() if each.bounds.contains(*point)}


def value_on(slot: GraphSlot, elements: Mapping[str, UIElement]) -> str | None:
    """Return the value of a slot on a screen, from its elements by their names in paths; None if it does not show it.

    A list has no value: an item that is pressed need not stay marked.
    """

    def is_marked(element: UIElement) -> bool:
        return "checked" in element.states or "selected" in element.states

    if slot.kind is SlotKind.CHOICE and not slot.opens:
        options = {value: elements.get(slot.target_of(value)) for value in slot.values}
        return next((value for value, option in options.items() if option and is_marked(option)), None)
    found = elements.get(slot.opens or slot.target)
    if found is None or slot.kind is SlotKind.LIST:
        return None
    if slot.kind is SlotKind.SWITCH:
        return ON if is_marked(found) else OFF
    if slot.kind is SlotKind.CHOICE:
        shown = (found.value, found.text)
        return next((value for value in slot.values if slot.shown_for(value) in shown), found.value or found.text)
    return found.value


def _held(graph: AppGraph, page: str | None, observation: Observation) -> dict[str, str]:
    elements, slots = targets(observation.elements or ()), graph.pages[page].slots if page is not None else {}
    values = {name: value_on(slot, elements) for name, slot in slots.items()}
    return {name: value for name, value in values.items() if value is not None}


def _with_act(
    graph: AppGraph, step: GraphStep, held: Mapping[str, str], opened: dict[str, str], *seen: Observation
) -> GraphStep:
    """Return a step with its act; an item that only leads to a page is added to `opened`."""
    page, transition = step.page, step.transition
    if page is None or transition is None:
        return step
    slot, names, pressed = graph.pages[page].slots.get(transition.by), names_at(seen[0], step.seen), {}
    if slot is not None and slot.kind in (SlotKind.LIST, SlotKind.CHOICE):
        picked = [value for value in slot.values if slot.target_of(value) in names]
        pressed = {transition.by: picked[0]} if picked else {}
    if act_of(page, transition) is None:
        opened |= pressed
        return step
    own = {name: held[name] for name in (*transition.slots, transition.by) if name in held} | pressed
    action = step.seen.action.parsed
    if isinstance(action, TypeText) and transition.by in own:  # typed and sent in one action
        own[transition.by] = action.text if action.clear else own[transition.by] + action.text

    def stands(observation: Observation) -> bool:
        """Whether a screen shows all effects of the transition; False without any effect."""
        elements = observation.elements or ()
        shows = all(is_on(filled(each, own), elements) for each in transition.shows)
        lacks = not any(is_on(filled(each, own), elements) for each in transition.lacks)
        return bool(transition.shows or transition.lacks) and shows and lacks

    undone = stands(seen[0]) and not stands(seen[1])
    return step._replace(act=act_of(page, transition, own, opened), undone=undone)


def _operated(
    graph: AppGraph, step: SeenStep, page: str | None, page_after: str | None, before: Observation
) -> GraphStep:
    action, names = step.action.parsed, names_at(before, step)
    if page is None:
        opens = bool(names & {each.target for each in graph.opening})
        return GraphStep(step, None, page_after, None, opens or step.outcome.same)
    spec = graph.pages[page]
    keys = "enter" if isinstance(action, TypeText) and action.enter else ""
    keys = "+".join(action.keys).casefold() if isinstance(action, PressKeys) else keys
    if keys:  # they go to the element that has the focus
        names = {name for name, each in targets(before.elements or ()).items() if "focused" in each.states}
    operated = {name for name, each in spec.elements.items() if each.target in names}
    marks = frozenset(mark for name in operated for mark in spec.elements[name].marks if not keys)
    for name, slot in spec.slots.items():
        operated |= {name} if names & {slot.target, slot.opens, *map(slot.target_of, slot.values)} else set()
    able = [each for each in spec.transitions if each.keys.casefold() == keys and (keys or each.by in operated)]
    # Of several ways, keys take that of the element, and a form is sent in the way that reads most of it.
    able.sort(key=lambda each: each.by not in operated if keys else -len(each.slots) * each.submits)
    taken = next((each for each in able if not keys and each.to == page_after), able[0] if able else None)
    if keys:
        for_sliders = {key for slot in spec.slots.values() for key in slot.keys.values()}
        known = taken is not None or isinstance(action, TypeText) or keys in for_sliders
    else:
        known = bool(operated) or (not names and (action is None or pressed_point(action) is None))
    marks |= marks_on_way(graph, page, taken) if taken else frozenset()
    return GraphStep(step, page, page_after, taken, known, marks)


def asked_for(graph: AppGraph, path: Sequence[PathStep]) -> AskedFor:
    """Return what an annotated path does beside going from page to page."""
    taken: list[TakenTransition] = []
    acts: list[Act] = []
    opened: dict[str, str] = {}
    given: set[tuple[str, str]] = set()
    values: dict[str, str] = {}
    names = [step.page.partition(".")[2] for step in path]
    for at, (name, step) in enumerate(zip(names, path, strict=True)):
        page = graph.pages.get(name)
        if page is None:
            continue
        values |= _given(page, step, path[at - 1].target if at else "")
        able = [each for each in page.transitions if each.operation == step.operation and _operates(page, each, step)]
        to = names[at + 1] if at + 1 < len(names) else name
        # A form can be sent by one button in several ways: that which takes what was given, and little else.
        able.sort(key=lambda each: len(set(each.slots) ^ values.keys()) if each.submits else 0)
        transition = next((each for each in able if each.to == to), able[0] if able else None)
        if transition is None:
            continue
        if transition.submits:
            values = {**{slot: page.slots[slot].default for slot in transition.slots}, **values}
        taken.append(TakenTransition(name, transition, values))
        given |= set(values.items())
        act = act_of(name, transition, values, opened)
        if act is not None:
            acts.append(act)
        elif transition.by in values:
            opened[transition.by] = values[transition.by]
        values = {}
    return AskedFor(tuple(taken), tuple(acts), opened, values, frozenset(given | set(values.items())))


def act_of(
    page: str,
    transition: GraphTransition,
    values: Mapping[str, str] | None = None,
    opened: Mapping[str, str] | None = None,
) -> Act | None:
    """Return what a transition does beside going to another page; None for nothing."""
    stays = transition.to == page and bool(transition.shows or transition.lacks)
    if not (transition.slots or transition.goal or stays):
        return None
    own = {name: values[name] for name in (*transition.slots, transition.by) if values and name in values}
    return Act(transition.by or transition.keys, {**(opened or {}), **own}, page)


def _given(page: GraphPage, step: PathStep, pressed_before: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, slot in page.slots.items():
        values: list[str] = []
        match step.operation:
            case "type" | "replace" if slot.target == step.target:
                values = [step.text]
            case "key" if slot.target == pressed_before:
                values = [value for value, key in slot.keys.items() if key == step.text]
            case "tap" if slot.kind is SlotKind.SWITCH and slot.target == step.target:
                values = [OFF if slot.default == ON else ON]
            case "tap" if slot.kind in (SlotKind.LIST, SlotKind.CHOICE):
                values = [value for value in slot.values if slot.target_of(value) == step.target]
        found |= {name: values[-1]} if values else {}
    return found


def _operates(page: GraphPage, transition: GraphTransition, step: PathStep) -> bool:
    if transition.operation == "key":
        return step.text == transition.keys
    if transition.by in page.elements:
        return step.target == page.elements[transition.by].target
    slot = page.slots.get(transition.by)
    return slot is not None and step.target in {slot.target_of(value) for value in slot.values}


def _left_after(episode: PathReading, at: int, ways: Ways) -> Left:
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
        if value.strip() not in aims:  # a beginning of a value, or none, is nearer to it than another value
            to_set += 1 if value == first[name] or any(each.startswith(value.strip()) for each in aims) else 2
    orders, end = permutations(to_do) if len(to_do) <= _MOST_ORDERED else [to_do], Act("", asked.opened, episode.end)
    way = min(ways.past(_stops(episode.graph, state, (*order, end))) for order in orders)
    destroyed = sum(each.destroys for each in episode.taken[:at])
    return Left(destroyed + len(unasked), len(acts), way, to_set)


def _stops(graph: AppGraph, state: GraphState, acts: Sequence[Act]) -> list[str]:
    """Return the pages to pass: those of acts, and before each the lists of the items that it needs."""
    ways_in = [(page, each) for page, each in graph.transitions() if act_of(page, each) is None]
    lists = {each.by: page for page, each in ways_in if each.by in graph.pages[page].slots}
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
    # Settings that were changed on a page, which nobody asked for and which stand at the end.
    first: dict[str, tuple[int, str]] = {}
    for step, (before, after) in zip(episode.taken, pairwise(episode.states), strict=True):
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


def _end_problems(episode: PathReading) -> Iterator[str]:
    """Yield what is missing at the end: the page, a value in its place, an effect, or the report that it is done.

    Raises JudgeFailure if the last screen is not in the graph, or the goal cannot be read or is about something that no
    screen shows.
    """
    graph, query, end, last, asked = episode.graph, episode.query, episode.end, episode.screens[-1], episode.asked
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
