"""Follows an episode on the graph of its app: pages, operated elements, transitions, and the values of slots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from trajmill.schemas.actions import PressKeys, TypeText, pressed_point
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation, ScreenHandle, ScreenReader, UIElement
from trajmill.schemas.tables.query import Query
from trajmill.stages.critics.app_graph.path_on_graph import Act, is_act, name_of, slots_of
from trajmill.stages.critics.trees.replay import SeenStep, replay
from trajmill.stages.environments.screen_goal import targets
from trajmill.stages.graphs.base import AppGraph, GraphPage, GraphSlot, GraphTransition, Mark, SlotKind
from trajmill.stages.graphs.network import marks_on_way
from trajmill.stages.graphs.operations import OFF, ON
from trajmill.stages.graphs.recognise import filled, is_on, page_on


def value_on(slot: GraphSlot, elements: Mapping[str, UIElement]) -> str | None:
    """The value of a slot on a screen; None if the screen does not show it.

    Args:
        slot: a slot; lists have no value, because an item that is pressed need not stay marked.
        elements: the elements of the screen by their names in paths.
    """
    match slot.kind:
        case SlotKind.LIST:
            return None
        case SlotKind.FIELD | SlotKind.SLIDER:
            found = elements.get(slot.target)
            return None if found is None else found.value
        case SlotKind.SWITCH:
            found = elements.get(slot.target)
            return None if found is None else ON if _is_marked(found) else OFF
        case SlotKind.CHOICE if slot.opens:
            opener = elements.get(slot.opens)
            return None if opener is None else _chosen(slot, opener)
        case SlotKind.CHOICE:
            options = {value: elements.get(slot.target_of(value)) for value in slot.values}
            return next((value for value, option in options.items() if option and _is_marked(option)), None)


def values_on(page: GraphPage, elements: Mapping[str, UIElement]) -> dict[str, str]:
    """By slot, the values that a screen of a page shows."""
    found = {name: value_on(slot, elements) for name, slot in page.slots.items()}
    return {name: value for name, value in found.items() if value is not None}


def is_same(one: str, other: str) -> bool:
    """Whether two values are equal; white space at their ends does not count."""
    return one.strip() == other.strip()


def _is_marked(element: UIElement) -> bool:
    return "checked" in element.states or "selected" in element.states


def _chosen(slot: GraphSlot, opener: UIElement) -> str:
    shown = [opener.value, opener.text]
    return next((value for value in slot.values if slot.shown_for(value) in shown), opener.value or opener.text)


class GraphStep(NamedTuple):
    """One step of an episode on its graph."""

    seen: SeenStep
    page: str | None
    """The page before; None if the graph does not know it."""
    page_after: str | None
    transition: GraphTransition | None
    """The transition that was taken; None for any other action."""
    known: bool
    """Whether the graph tells what the operated element is for."""
    marks: frozenset[Mark]
    """Warnings on what was operated."""
    act: Act | None = None
    """What was done; None for going to a page, or for what changed nothing."""
    undone: bool = False
    """Whether it took back what the act does."""

    @property
    def destroys(self) -> bool:
        """Whether something destructive was operated and had an effect."""
        return Mark.DESTRUCTIVE in self.marks and not self.seen.outcome.same


class GraphState(NamedTuple):
    """What has been seen of the app up to a step."""

    page: str | None
    """The last page that the graph knows; None before the first one."""
    opened: Mapping[str, str]
    """By slot of kind list, the item that was opened last."""
    held: Mapping[str, str]
    """By slot, the value that was seen last."""


class GraphEpisode(NamedTuple):
    """An episode and the graph of its app."""

    graph: AppGraph
    query: Query
    steps: tuple[GraphStep, ...]
    screens: tuple[Observation, ...]
    """The first screen, then the screen after each step."""
    states: tuple[GraphState, ...]
    """The state before the first step, then after each step."""

    @property
    def last(self) -> Observation:
        """The last screen."""
        return self.screens[-1]

    @property
    def end(self) -> str:
        """The page on which the query's path ends."""
        return self.query.pages[-1].partition(".")[2]


def follow(episode: Episode, screens: ScreenReader, graphs: Mapping[str, AppGraph]) -> GraphEpisode:
    """Follow an episode on the graph of its app.

    Raises:
        JudgeFailure: the query was not made from one of the graphs, or a screen is missing.
    """
    query = episode.query
    graph = graphs.get(query.apps[0]) if query.apps else None
    names = {f"{graph.app}.{page}" for page in graph.pages} if graph else set()
    if graph is None or not query.pages or not names.issuperset(query.pages):
        raise JudgeFailure(f"{query.task}: no graph has its pages; judge it by a model or by its own check")
    replayed = replay(episode, screens)
    if not replayed:
        raise JudgeFailure(f"{query.task}: the agent did nothing")
    follower = _Follower(graph, screens)
    steps = tuple(map(follower.step, replayed))
    ids = (episode.steps[0].screen_before, *(step.screen_after for step in episode.steps))
    seen = tuple(_observation(screen_id, screens) for screen_id in ids)
    return GraphEpisode(graph, query, steps, seen, tuple(follower.states))


class _Follower:
    """Follows the steps of one episode, and remembers the values that its screens showed."""

    def __init__(self, graph: AppGraph, screens: ScreenReader) -> None:
        self._graph, self._screens = graph, screens
        self._held: dict[str, str] = {}
        self._opened: dict[str, str] = {}
        self.states: list[GraphState] = []

    def step(self, step: SeenStep) -> GraphStep:
        """Follow the next step."""
        found = self._followed(step)
        last = found.page_after or found.page or self.states[-1].page
        self.states.append(GraphState(last, dict(self._opened), dict(self._held)))
        return found

    def _followed(self, step: SeenStep) -> GraphStep:
        before, after = (_observation(s.screen_id, self._screens) for s in (step.outcome.before, step.outcome.after))
        page = page_on(self._graph, before)
        page_after = page if step.outcome.same else page_on(self._graph, after)
        self._look(page, before)
        found = self._operated(step, page, page_after, before)
        held = dict(self._held)
        self.states = self.states or [GraphState(page, {}, held)]
        self._look(page_after, after)
        if step.outcome.same or page is None or found.transition is None:
            return found
        return self._with_act(found, page, held, before, after)

    def _look(self, page: str | None, observation: Observation) -> None:
        if page is not None:
            self._held |= values_on(self._graph.pages[page], targets(observation.elements or ()))

    def _with_act(
        self, step: GraphStep, page: str, held: Mapping[str, str], before: Observation, after: Observation
    ) -> GraphStep:
        transition = step.transition
        assert transition is not None
        slot = self._graph.pages[page].slots.get(transition.by)
        values = slot.values if slot and slot.kind in (SlotKind.LIST, SlotKind.CHOICE) else ()
        picked = [value for value in values if slot and slot.target_of(value) in names_at(before, step.seen)]
        pressed = {transition.by: picked[0]} if picked else {}
        if not is_act(page, transition):
            self._opened |= pressed
            return step
        own = {name: held[name] for name in slots_of(transition) if name in held} | pressed
        action = step.seen.action.parsed
        if isinstance(action, TypeText) and transition.by in own:  # typed and sent in one action
            own[transition.by] = action.text if action.clear else own[transition.by] + action.text
        act = Act(name_of(transition), {**self._opened, **own}, page)
        undone = _stands(transition, own, before) and not _stands(transition, own, after)
        return step._replace(act=act, undone=undone)

    def _operated(self, step: SeenStep, page: str | None, page_after: str | None, before: Observation) -> GraphStep:
        """The step with the transition that it took."""
        graph, action = self._graph, step.action.parsed
        point = pressed_point(action) if action is not None else None
        names = names_at(before, step)
        if page is None:
            opens = bool(names & {each.target for each in graph.opening})
            return GraphStep(step, None, page_after, None, opens or step.outcome.same, frozenset())
        keys = _keys(step)
        if keys:
            taken = _by_keys(graph, page, keys, before)
            marks = marks_on_way(graph, page, taken) if taken else frozenset()
            for_sliders = {key for slot in graph.pages[page].slots.values() for key in slot.keys.values()}
            known = taken is not None or not isinstance(action, PressKeys) or keys in for_sliders
            return GraphStep(step, page, page_after, taken, known, marks)
        if not names:
            return GraphStep(step, page, page_after, None, point is None, frozenset())
        parts = _parts_named(graph, page, names)
        able = [each for each in graph.pages[page].transitions if each.by in parts and not each.keys]
        taken = next((each for each in able if each.to == page_after), able[0] if able else None)
        elements = [each for name, each in graph.pages[page].elements.items() if name in parts]
        marks = frozenset(mark for each in elements for mark in each.marks)
        marks |= marks_on_way(graph, page, taken) if taken else frozenset()
        return GraphStep(step, page, page_after, taken, bool(parts), marks)


def _stands(transition: GraphTransition, values: Mapping[str, str], observation: Observation) -> bool:
    """Whether a screen shows all effects of a transition; False without any effect."""
    elements = observation.elements or ()
    shows = all(is_on(filled(each, values), elements) for each in transition.shows)
    lacks = not any(is_on(filled(each, values), elements) for each in transition.lacks)
    return bool(transition.shows or transition.lacks) and shows and lacks


def _keys(step: SeenStep) -> str:
    """The keys that a step presses; empty for none."""
    match step.action.parsed:
        case PressKeys(keys=keys):
            return "+".join(keys).casefold()
        case TypeText(enter=True):
            return "enter"
        case _:
            return ""


def _by_keys(graph: AppGraph, page: str, keys: str, before: Observation) -> GraphTransition | None:
    """The transition that keys take; of several, the one of the element that has the focus."""
    spec = graph.pages[page]
    found = [each for each in spec.transitions if each.operation == "key" and each.keys.casefold() == keys]
    named = targets(before.elements or ())
    focused = {name for name, element in named.items() if "focused" in element.states}
    own = {name: element.target for name, element in spec.elements.items()}
    own |= {name: slot.target for name, slot in spec.slots.items()}
    return next((each for each in found if own.get(each.by, "") in focused), found[0] if found else None)


def names_at(before: Observation, step: SeenStep) -> set[str]:
    """The names in paths of all elements at the pressed point; a label and its button may both be there."""
    point = pressed_point(step.action.parsed) if step.action.parsed is not None else None
    if point is None:
        return set()
    named = targets(before.elements or ())
    return {name for name, element in named.items() if element.bounds.contains(*point)}


def _parts_named(graph: AppGraph, page: str, names: set[str]) -> set[str]:
    """The elements and slots of a page that have one of these names in paths."""
    spec = graph.pages[page]
    found = {name for name, element in spec.elements.items() if element.target in names}
    for name, slot in spec.slots.items():
        pressed = {slot.target, slot.opens, *(slot.target_of(value) for value in slot.values)}
        if pressed & names:
            found.add(name)
    return found


def _observation(screen_id: str, screens: ScreenReader) -> Observation:
    try:
        elements = screens.elements(screen_id)
    except KeyError as error:
        raise JudgeFailure(f"screen {error} is not stored") from error
    # The size is not read, since nothing asks for it.
    return Observation(ScreenHandle(screen_id, Size(0, 0), lambda: screens.image(screen_id)), elements, "")
