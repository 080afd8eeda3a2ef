"""The operations of a graph as steps of a path, which agents and checks walk in any environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from trajmill.schemas.record import Origin
from trajmill.schemas.tables.query import PathStep, Platform, Query, Source
from trajmill.stages.environments.tasks import bare_query
from trajmill.stages.graphs.base import AppGraph, GraphPage, GraphTransition, SlotKind

ON, OFF = "on", "off"
BOX_OF = "box of "
"""How the name of a switch begins that is named after its row, in a table or a list of tasks."""
_NO_ROW = Origin(round=0, run_id="", code_version="")


def graph_start(graph: AppGraph) -> Query:
    """A query for which a reset brings the app into its start state; it becomes no row."""
    return bare_query(graph.platform, graph.app, graph.start_json, Source.DAG, _NO_ROW, made_by="graph-1")


def set_slot(graph: AppGraph, page: str, slot: str, value: str) -> tuple[PathStep, ...]:
    """The steps that give a slot a value; none for a switch that has it by default. Raises KeyError if missing."""
    return _OnPage(graph, page, {slot: value}).setting(slot)


def take(
    graph: AppGraph, page: str, transition: GraphTransition, values: Mapping[str, str] | None = None
) -> tuple[PathStep, ...]:
    """Return the steps of a transition: what comes before it on the page, its slots, then its own operation.

    A slot without a value in `values` gets its first one. Raises KeyError if the transition names no element or slot of
    the page, or a slot that has no value.
    """
    here = _OnPage(graph, page, values or {})
    first = [step for name in transition.after for step in here.staying(name)]
    return (*first, *here.taking(transition))


def keys_of(total: str) -> str:
    """The keys of a keypad that work out a sum, such as `48 + 27`."""
    return f"{total.replace(' ', '')}="


def staying(page: GraphPage, name: str) -> dict[str, GraphTransition | None]:
    """Return what can be operated without leaving a page, with its transition; None for a switch or a field."""
    alone = [slot for slot, each in page.slots.items() if each.kind in (SlotKind.SWITCH, SlotKind.FIELD)]
    transitions = {each.by: each for each in reversed(page.transitions) if each.to == name and not each.after}
    return {**dict.fromkeys(alone), **transitions}


class _OnPage(NamedTuple):
    graph: AppGraph
    name: str
    values: Mapping[str, str]
    """By slot, the value that it gets."""

    @property
    def page(self) -> GraphPage:
        return self.graph.pages[self.name]

    def setting(self, slot: str) -> tuple[PathStep, ...]:
        spec, value = self.page.slots[slot], self._value(slot)
        if spec.kind is SlotKind.SWITCH and value == (spec.default or OFF):
            return ()
        if spec.kind is SlotKind.KEYPAD:
            *keys, last = (self._step("tap", spec.targets[key]) for key in keys_of(value))
            return (*keys, last.model_copy(update={"text": value}))
        target = spec.target_of(value)
        if spec.kind is SlotKind.FIELD:
            return (*self._pressing(target), self._step("replace", target, value))
        if spec.kind is SlotKind.SLIDER:
            return (*self._pressing(target), self._step("key", "", spec.keys[value]))
        return (*self._pressing(spec.opens), self._step("tap", target)) if spec.opens else self._pressing(target)

    def staying(self, by: str) -> tuple[PathStep, ...]:
        """The steps by which an element or a slot of the page is operated without leaving it."""
        transition = staying(self.page, self.name)[by]
        if transition is not None:
            return self.taking(transition)
        slot = self.page.slots[by]
        return self.setting(by) if slot.kind is SlotKind.FIELD else self._pressing(slot.target)

    def taking(self, transition: GraphTransition) -> tuple[PathStep, ...]:
        slot = self.page.slots.get(transition.by)
        steps = [step for name in transition.slots for step in self.setting(name)]
        target = self._target(transition.by) if transition.by else ""
        if slot is not None and slot.opens:
            steps += self._pressing(slot.opens)
        if transition.operation != "key":
            if self.graph.platform is Platform.PHONE and steps:  # the keyboard may cover the element
                steps.append(self._step("scroll", target))
            else:
                steps += self._scrolling(target)
            return (*steps, self._step(transition.operation, target))
        if target and not steps:  # the key goes to the element, which must have the focus
            steps += self._pressing(target)
        return (*steps, self._step("key", "", transition.keys))

    def _pressing(self, target: str) -> tuple[PathStep, ...]:
        return (*self._scrolling(target), self._step("tap", target))

    def _scrolling(self, target: str) -> tuple[PathStep, ...]:
        """On a page that is longer than the screen: scroll until the element is there."""
        return (self._step("scroll", target),) if self.page.scrolls else ()

    def _step(self, operation: str, target: str, text: str = "") -> PathStep:
        return PathStep(page=f"{self.graph.app}.{self.name}", operation=operation, target=target, text=text)

    def _target(self, by: str) -> str:
        slot = self.page.slots.get(by)
        return slot.target_of(self._value(by)) if slot is not None else self.page.elements[by].target

    def _value(self, slot: str) -> str:
        value = self.values[slot] if slot in self.values else next(iter(self.page.slots[slot].offered), None)
        if value is None:
            raise KeyError(slot)
        return value
