"""The operations of a graph as steps of a path, which agents and checks walk in any environment."""

from __future__ import annotations

from collections.abc import Mapping

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import PathStep, Platform, Query, Source
from trajmill.stages.environments.tasks import bare_query
from trajmill.stages.graphs.base import AppGraph, GraphPage, GraphSlot, GraphTransition, SlotKind

ON, OFF = "on", "off"
"""The values of a switch."""
_NO_ROW = Origin(round=0, run_id="", code_version="")


def graph_start(graph: AppGraph) -> Query:
    """A query for which a reset brings the app into its start state; it becomes no row."""
    return bare_query(graph.platform, graph.app, graph.start_json, Source.DAG, _NO_ROW, made_by="graph-1")


def set_slot(graph: AppGraph, page: str, slot: str, value: str) -> tuple[PathStep, ...]:
    """The steps that give a slot of a page a value; none for a switch that has it by default.

    Raises:
        KeyError: there is no such page or slot.
    """
    spec, where = graph.pages[page].slots[slot], f"{graph.app}.{page}"
    if spec.kind is SlotKind.SWITCH and value == (spec.default or OFF):
        return ()
    if spec.kind is SlotKind.KEYPAD:
        *keys, last = (PathStep(page=where, operation="tap", target=spec.targets[key]) for key in keys_of(value))
        return (*keys, last.model_copy(update={"text": value}))
    press = PathStep(page=where, operation="tap", target=spec.target_of(value))
    first = _scroll_to(graph, page, spec.opens or press.target)
    if spec.kind is SlotKind.FIELD:
        return (*first, press, PathStep(page=where, operation="replace", target=press.target, text=value))
    if spec.kind is SlotKind.SLIDER:
        return (*first, press, PathStep(page=where, operation="key", target="", text=spec.keys[value]))
    if spec.opens:
        return (*first, PathStep(page=where, operation="tap", target=spec.opens), press)
    return (*first, press)


def keys_of(total: str) -> str:
    """The keys of a keypad that work out a sum, such as `48 + 27`."""
    return f"{total.replace(' ', '')}="


def take(
    graph: AppGraph, page: str, transition: GraphTransition, values: Mapping[str, str] | None = None
) -> tuple[PathStep, ...]:
    """Return the steps of a transition: what comes before it on the page, its slots, then its own operation.

    A slot without a value in `values` gets its first one. Raises KeyError if the transition names no element or slot of
    the page, or a slot that has no value.
    """
    first = [step for name in transition.after for step in _stay(graph, page, name, values)]
    return (*first, *_operate(graph, page, transition, values))


def staying(page: GraphPage, name: str) -> dict[str, GraphTransition | None]:
    """Return what can be operated without leaving a page, with its transition; None for a switch or a field."""
    alone = [slot for slot, each in page.slots.items() if each.kind in (SlotKind.SWITCH, SlotKind.FIELD)]
    transitions = {each.by: each for each in reversed(page.transitions) if each.to == name and not each.after}
    return {**dict.fromkeys(alone), **transitions}


def _stay(graph: AppGraph, page: str, by: str, values: Mapping[str, str] | None) -> tuple[PathStep, ...]:
    spec = graph.pages[page]
    transition = staying(spec, page)[by]
    if transition is not None:
        return _operate(graph, page, transition, values)
    if spec.slots[by].kind is SlotKind.FIELD:
        return set_slot(graph, page, by, _value(spec.slots, by, values))
    target = spec.slots[by].target
    return (*_scroll_to(graph, page, target), PathStep(page=f"{graph.app}.{page}", operation="tap", target=target))


def _operate(
    graph: AppGraph, page: str, transition: GraphTransition, values: Mapping[str, str] | None
) -> tuple[PathStep, ...]:
    slots = graph.pages[page].slots
    where = f"{graph.app}.{page}"
    steps = [step for name in transition.slots for step in set_slot(graph, page, name, _value(slots, name, values))]
    target = _pressed(graph, page, transition.by, values) if transition.by else ""
    opens = slots[transition.by].opens if transition.by in slots else ""
    if opens:
        steps += [*_scroll_to(graph, page, opens), PathStep(page=where, operation="tap", target=opens)]
    if transition.operation != "key":
        if graph.platform is Platform.PHONE and steps:  # the keyboard may cover the element
            steps.append(PathStep(page=where, operation="scroll", target=target))
        else:
            steps += _scroll_to(graph, page, target)
        return (*steps, PathStep(page=where, operation=transition.operation, target=target))
    if target and not steps:  # the key goes to the element, which must have the focus
        steps += [*_scroll_to(graph, page, target), PathStep(page=where, operation="tap", target=target)]
    return (*steps, PathStep(page=where, operation="key", target="", text=transition.keys))


def _scroll_to(graph: AppGraph, page: str, target: str) -> tuple[PathStep, ...]:
    """On a page that is longer than the screen: scroll until the element is there."""
    if not graph.pages[page].scrolls:
        return ()
    return (PathStep(page=f"{graph.app}.{page}", operation="scroll", target=target),)


def _pressed(graph: AppGraph, page: str, by: str, values: Mapping[str, str] | None) -> str:
    slots = graph.pages[page].slots
    return slots[by].target_of(_value(slots, by, values)) if by in slots else graph.pages[page].elements[by].target


def _value(slots: Mapping[str, GraphSlot], name: str, values: Mapping[str, str] | None) -> str:
    wanted = (values or {}).get(name)
    if wanted is not None:
        return wanted
    offered = [each for each in slots[name].values if each != slots[name].default]
    if not offered:
        raise KeyError(name)
    return offered[0]
