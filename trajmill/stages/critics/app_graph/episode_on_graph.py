"""An episode and the path of its query on the graph of the app: pages, acts, and the values of slots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from trajmill.schemas.actions import PressKeys, TypeText, pressed_point
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation, ScreenHandle, ScreenReader, UIElement
from trajmill.schemas.tables.query import PathStep, Query
from trajmill.stages.critics.replay import SeenStep
from trajmill.stages.environments.screen_goal import targets
from trajmill.stages.graphs.base import PLACE, AppGraph, Feature, GraphPage, GraphSlot, GraphTransition, Mark, SlotKind
from trajmill.stages.graphs.network import marks_on_way
from trajmill.stages.graphs.operations import OFF, ON
from trajmill.stages.graphs.recognise import filled, is_marked, is_on


class Act(NamedTuple):
    name: str
    """The operated element or slot, or the pressed keys, whatever page they are on."""
    values: Mapping[str, str]
    """By slot, the values that it is done with, and the items that were opened before."""
    page: str


class AskedFor(NamedTuple):
    """What a path does beside going from page to page."""

    end: str
    """The page on which it ends."""
    acts: tuple[Act, ...]
    opened: Mapping[str, str]
    """By slot of kind list, the item that is opened last."""
    settings: Mapping[str, str]
    """By slot of the last page, the value that is set there and needs no further act."""
    given: frozenset[tuple[str, str]]
    """All pairs of slot and value on the way."""
    shown: tuple[Feature, ...]
    """What must stand on the last screen: what the last transitions show there, and all values given."""
    has_own_goal: bool
    """Whether it makes more than screens show."""
    taken: tuple[tuple[str, GraphTransition, Mapping[str, str]], ...]
    """The transitions on the way, each with its page and the values that it reads."""


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


def observation_of(screen_id: str, screens: ScreenReader) -> Observation:
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
    if slot.kind is SlotKind.CHOICE and not slot.opens:
        options = {value: elements.get(slot.target_of(value)) for value in slot.values}
        return next((value for value, option in options.items() if option and is_marked(option)), None)
    found = elements.get(slot.opens or slot.target)
    if found is None or slot.kind is SlotKind.LIST:
        return None
    if slot.kind is SlotKind.SWITCH:
        return ON if is_marked(found) else OFF
    if slot.kind in (SlotKind.CHOICE, SlotKind.KEYPAD):
        shown = (found.value, found.text)
        return next((value for value in slot.values if slot.shown_for(value) in shown), found.value or found.text)
    return found.value


def held_on(graph: AppGraph, page: str | None, observation: Observation) -> dict[str, str]:
    elements, slots = targets(observation.elements or ()), graph.pages[page].slots if page is not None else {}
    values = {name: value_on(slot, elements) for name, slot in slots.items()}
    return {name: value for name, value in values.items() if value is not None}


def with_act(
    graph: AppGraph, step: GraphStep, held: Mapping[str, str], opened: dict[str, str], *seen: Observation
) -> GraphStep:
    """Return a step with its act; an item that only leads to a page is added to `opened`."""
    page, transition = step.page, step.transition
    if page is None or transition is None:
        return step
    slot, names = graph.pages[page].slots.get(transition.by), names_at(seen[0], step.seen)
    picked = [value for value in slot.values if slot.target_of(value) in names] if slot and slot.is_picked else []
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


def operated(
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
    operated = _operated_on(spec, names)
    marks = frozenset(mark for by in operated & spec.elements.keys() for mark in spec.elements[by].marks if not keys)
    able = [each for each in spec.transitions if each.keys.casefold() == keys and (keys or each.by in operated)]
    # If several fit, prefer for keys the one of the focused element, and for a form the one that reads most fields.
    able.sort(key=lambda each: each.by not in operated if keys else -len(each.slots) * each.submits)
    taken = next((each for each in able if not keys and each.to == page_after), able[0] if able else None)
    if keys:
        for_sliders = {key for slot in spec.slots.values() for key in slot.keys.values()}
        known = taken is not None or isinstance(action, TypeText) or keys in for_sliders
    else:
        known = bool(operated) or (not names and (action is None or pressed_point(action) is None))
    marks |= marks_on_way(graph, page, taken) if taken else frozenset()
    return GraphStep(step, page, page_after, taken, known, marks)


def _operated_on(page: GraphPage, names: set[str]) -> set[str]:
    """Return the elements and slots of a page to which names in paths belong."""
    options = {name: {*slot.targets.values(), *map(slot.target_of, slot.values)} for name, slot in page.slots.items()}
    slots = {name for name, slot in page.slots.items() if names & {slot.target, slot.opens, *options[name]}}
    # An open list lies over what else is at the point.
    opened = {name for name, slot in page.slots.items() if slot.opens and names & options[name]}
    return opened or slots | {name for name, each in page.elements.items() if each.target in names}


def asked_for(graph: AppGraph, query: Query) -> AskedFor:
    """Return what the path of a query does beside going from page to page."""
    taken = list[tuple[str, GraphTransition, dict[str, str]]]()
    acts, opened, values = list[Act](), dict[str, str](), dict[str, str]()
    names = [step.page.partition(".")[2] for step in query.path]
    for at, (name, to) in enumerate(zip(names, (*names[1:], *names[-1:]), strict=True)):
        if name not in graph.pages:
            continue
        page, step = graph.pages[name], query.path[at]
        values |= _given(page, step, query.path[at - 1].target if at else "")
        transition = _way_of(page, step, to, values)
        if transition is None:
            continue
        if transition.submits:
            values = {**{slot: page.slots[slot].default for slot in transition.slots}, **values}
        taken.append((name, transition, values))
        act = act_of(name, transition, values, opened)
        if act is not None:
            acts.append(act)
        elif transition.by in values:
            opened[transition.by] = values[transition.by]
        values = {}
    given = frozenset(pair for each in (*(read for _, _, read in taken), values) for pair in each.items())
    app, _, end = query.path[-1].page.partition(".") if query.path else ("", "", "")
    shown = tuple(_shown_at_end(taken, end if app == graph.app else ""))
    own_goal = any(transition.goal for _, transition, _ in taken)
    return AskedFor(end, tuple(acts), opened, values, given, shown, own_goal, tuple(taken))


def _way_of(page: GraphPage, step: PathStep, to: str, values: Mapping[str, str]) -> GraphTransition | None:
    """Return the transition of a step after which the path goes on at a page; None if it is a part of another one."""
    able = [each for each in page.transitions if each.operation == step.operation and _operates(page, each, step)]
    # If one button sends a form in several ways, take the one whose fields are closest to those that were given.
    able.sort(key=lambda each: len(set(each.slots) ^ values.keys()) if each.submits else 0)
    return next((each for each in able if each.to == to), able[0] if able else None)


def _shown_at_end(taken: Sequence[tuple[str, GraphTransition, Mapping[str, str]]], end: str) -> Iterator[Feature]:
    """Yield what the last screen shows of what was done, the last first: all of the last page, and values given."""
    is_last, needed = True, set[str]()
    for page, transition, values in reversed(taken):
        # A later act may have changed the result of one that was only its precondition.
        stays = is_last and transition.by not in needed
        yield from (filled(each, values) for each in transition.shows if stays or PLACE.search(each.text or ""))
        needed |= set(transition.after)
        is_last = is_last and page == end


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
            case "tap" if slot.kind is SlotKind.KEYPAD and step.text in slot.values:
                values = [step.text]
            case "tap" if slot.kind is SlotKind.SWITCH and slot.target == step.target:
                values = [OFF if slot.default == ON else ON]
            case "tap" | "hold" if slot.is_picked:
                values = [value for value in slot.values if slot.target_of(value) == step.target]
        found |= {name: values[-1]} if values else {}
    return found


def _operates(page: GraphPage, transition: GraphTransition, step: PathStep) -> bool:
    if transition.operation == "key":
        return step.text == transition.keys
    if (transition.operation == "hold") != (step.operation == "hold"):
        return False
    if transition.by in page.elements:
        return step.target == page.elements[transition.by].target
    slot = page.slots.get(transition.by)
    return slot is not None and step.target in {slot.target_of(value) for value in slot.values}
