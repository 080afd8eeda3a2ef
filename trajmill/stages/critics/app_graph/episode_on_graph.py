"""Follows an episode on the graph of its app: pages, operated elements, transitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trajmill.schemas.actions import PressKeys, pressed_point
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation, ScreenHandle, ScreenReader, UIElement
from trajmill.schemas.tables.query import Query
from trajmill.stages.critics.trees.replay import SeenStep, replay
from trajmill.stages.environments.element_names import targets
from trajmill.stages.graphs.base import AppGraph, GraphTransition, Mark
from trajmill.stages.graphs.network import marks_on_way
from trajmill.stages.graphs.recognise import page_on

_FROM_GRAPHS_AT = "."


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

    @property
    def act(self) -> str:
        """What was done, whatever page it was done on; empty for going to a page, or for what changed nothing."""
        transition = self.transition
        if transition is None or self.seen.outcome.same:
            return ""
        return act_of(self.page or "", transition)


class GraphEpisode(NamedTuple):
    """An episode and the graph of its app."""

    graph: AppGraph
    query: Query
    steps: tuple[GraphStep, ...]
    last: Observation
    """The last screen."""

    @property
    def end(self) -> str:
        """The page on which the query's path ends."""
        return self.query.pages[-1].partition(".")[2]


def act_of(page: str, transition: GraphTransition) -> str:
    """Names what a transition does beside going to another page; empty if it does nothing else."""
    stays = transition.to == page and bool(transition.shows or transition.lacks or transition.goal)
    return (transition.by or transition.keys) if transition.slots or stays else ""


def follow(episode: Episode, screens: ScreenReader, graphs: Mapping[str, AppGraph]) -> GraphEpisode:
    """Follow an episode on the graph of its app.

    Raises:
        JudgeFailure: the query was not made from one of the graphs, or a screen is missing.
    """
    query = episode.query
    graph = graphs.get(query.apps[0]) if query.apps else None
    if graph is None or not query.pages or not all(_is_page(graph, page) for page in query.pages):
        raise JudgeFailure(f"{query.task}: no graph has its pages; judge it by a model or by its own check")
    replayed = replay(episode, screens)
    if not replayed:
        raise JudgeFailure(f"{query.task}: the agent did nothing")
    steps = tuple(_graph_step(graph, step, screens) for step in replayed)
    return GraphEpisode(graph, query, steps, _observation(episode.steps[-1].screen_after, screens))


def _is_page(graph: AppGraph, page: str) -> bool:
    app, _, name = page.partition(_FROM_GRAPHS_AT)
    return app == graph.app and name in graph.pages


def _graph_step(graph: AppGraph, step: SeenStep, screens: ScreenReader) -> GraphStep:
    before = _observation(step.outcome.before.screen_id, screens)
    page = page_on(graph, before)
    after = page if step.outcome.same else page_on(graph, _observation(step.outcome.after.screen_id, screens))
    action = step.action.parsed
    point = pressed_point(action) if action is not None else None
    names = _names_at(before.elements or (), point) if point is not None else set()
    if page is None:
        opens = bool(names & {each.target for each in graph.opening})
        return GraphStep(step, None, after, None, opens or step.outcome.same, frozenset())
    if isinstance(action, PressKeys):
        taken = _by_keys(graph, page, action.keys)
        marks = marks_on_way(graph, page, taken) if taken else frozenset()
        known = taken is not None or _moves_slider(graph, page, action.keys)
        return GraphStep(step, page, after, taken, known, marks)
    if not names:
        return GraphStep(step, page, after, None, point is None, frozenset())
    parts = _parts_named(graph, page, names)
    taken = next((each for each in graph.pages[page].transitions if each.by in parts and not each.keys), None)
    marks = _marks(graph, page, parts) | (marks_on_way(graph, page, taken) if taken else frozenset())
    return GraphStep(step, page, after, taken, bool(parts), marks)


def _by_keys(graph: AppGraph, page: str, keys: Sequence[str]) -> GraphTransition | None:
    pressed = "+".join(key.casefold() for key in keys)
    transitions = graph.pages[page].transitions
    return next((each for each in transitions if each.operation == "key" and each.keys.casefold() == pressed), None)


def _moves_slider(graph: AppGraph, page: str, keys: Sequence[str]) -> bool:
    """Whether keys give a slider of the page a value."""
    return "+".join(keys).casefold() in {key for slot in graph.pages[page].slots.values() for key in slot.keys.values()}


def _names_at(elements: tuple[UIElement, ...], point: tuple[int, int]) -> set[str]:
    """The names in paths of all elements at a point; a label and its button may both be there."""
    return {name for name, element in targets(elements).items() if element.bounds.contains(*point)}


def _parts_named(graph: AppGraph, page: str, names: set[str]) -> set[str]:
    """The elements and slots of a page that have one of these names in paths."""
    spec = graph.pages[page]
    found = {name for name, element in spec.elements.items() if element.target in names}
    for name, slot in spec.slots.items():
        pressed = {slot.target, slot.opens, *(slot.target_of(value) for value in slot.values)}
        if pressed & names:
            found.add(name)
    return found


def _marks(graph: AppGraph, page: str, known: set[str]) -> frozenset[Mark]:
    elements = graph.pages[page].elements
    return frozenset(mark for name in known if name in elements for mark in elements[name].marks)


def _observation(screen_id: str, screens: ScreenReader) -> Observation:
    try:
        elements = screens.elements(screen_id)
    except KeyError as error:
        raise JudgeFailure(f"screen {error} is not stored") from error
    # The size is not read, since nothing asks for it.
    return Observation(ScreenHandle(screen_id, Size(0, 0), lambda: screens.image(screen_id)), elements, "")
