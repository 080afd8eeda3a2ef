"""Models that describe a page of a graph, say what its elements and transitions do, and name its slots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.observation import ScreenHandle
from trajmill.schemas.record import Record
from trajmill.stages.annotation.base import (
    LONGEST_SENTENCE,
    LONGEST_TITLE,
    AnnotatedPage,
    PageGaps,
    Unfilled,
    accepted,
    refusal,
)
from trajmill.stages.annotation.page_words import (
    element_line,
    graph_words,
    page_features,
    pages_line,
    slot_line,
    transition_line,
)
from trajmill.stages.graphs.base import AppGraph, GraphPage
from trajmill.stages.models.base import MessagePart
from trajmill.stages.models.prompts import PromptedModel, Sampling, on_lines

MOST_ITEMS = 20
"""Most elements and transitions, or slots, in one request."""
_SAMPLING = Sampling(max_tokens=2048)


class ItemAnswer(Record):
    item: int
    does: str


class PageAnswer(Record):
    title: str
    description: str
    items: Annotated[tuple[ItemAnswer, ...], Field(max_length=2 * MOST_ITEMS)]


class _Item(NamedTuple):
    """An element, by its name, or a transition, by its number."""

    key: str | int
    fact: str
    slots: tuple[str, ...]
    """Slots whose values its sentence may name."""

    def place(self, page: str) -> str:
        return f"{page}: transition {self.key + 1}" if isinstance(self.key, int) else f"{page}: element {self.key}"


_NO_GAPS = PageGaps(False, False, (), (), ())


@dataclass(frozen=True, slots=True)
class PageDescriber(PromptedModel):
    """Shows a model the screenshot of a page where there is one, else what the page is recognised by."""

    async def describe(self, graph: AppGraph, name: str, gaps: PageGaps, picture: ScreenHandle | None) -> AnnotatedPage:
        """Fill the gaps of a page that a describer can fill; what the model fails at stays as it is."""
        page, filled, unfilled = graph.pages[name], 0, list[Unfilled]()
        items = tuple(_items(graph, name, gaps, picture))
        for start in range(0, max(1, len(items)), MOST_ITEMS):
            batch, wanted = items[start : start + MOST_ITEMS], gaps if not start else _NO_GAPS
            try:
                answer = await self._ask(graph, name, batch, picture)
            except ModelFailure as error:
                words = [word for word in ("title", "description") if getattr(wanted, word)]
                places = [*(f"{name}: {word}" for word in words), *(item.place(name) for item in batch)]
                unfilled += [Unfilled(place, str(error)) for place in places]
                continue
            page, more, left = _filled(page, name, wanted, batch, answer)
            filled += more
            unfilled += left
        return AnnotatedPage(page, filled, tuple(unfilled))

    async def _ask(
        self, graph: AppGraph, name: str, batch: tuple[_Item, ...], picture: ScreenHandle | None
    ) -> PageAnswer:
        fields = {
            **graph_words(graph, name),
            "pages": pages_line(graph, name),
            "features": page_features(graph.pages[name]),
            "items": "\n".join(f"{number}. {item.fact}" for number, item in enumerate(batch, start=1)) or "(none)",
        }
        parts: tuple[MessagePart, ...] = () if picture is None else ("The screenshot:", picture)
        return await self.ask(self.request("describer", fields, parts, _SAMPLING, on_lines), PageAnswer)


def _items(graph: AppGraph, name: str, gaps: PageGaps, picture: ScreenHandle | None) -> Iterator[_Item]:
    page = graph.pages[name]
    size = picture.size if picture is not None else None
    for key in gaps.elements:
        yield _Item(key, element_line(page.elements[key], size), ())
    for number in gaps.transitions:
        transition = page.transitions[number]
        pressed = (transition.by,) if transition.by in page.slots else ()
        slots = tuple(dict.fromkeys((*transition.slots, *pressed)))
        yield _Item(number, transition_line(graph, page, transition, slots), slots)


def _filled(page: GraphPage, name: str, gaps: PageGaps, batch: tuple[_Item, ...], answer: PageAnswer) -> AnnotatedPage:
    changes: dict[str, Any] = {}
    unfilled: list[Unfilled] = []
    for word, longest in (("title", LONGEST_TITLE), ("description", LONGEST_SENTENCE)):
        text = getattr(answer, word)
        if getattr(gaps, word) and (line := accepted(text, longest)):
            changes[word] = line
        elif getattr(gaps, word):
            unfilled.append(Unfilled(f"{name}: {word}", refusal(text, longest)))
    filled = sum(getattr(page, word) != line for word, line in changes.items())
    said = {each.item: each.does for each in reversed(answer.items)}
    elements, transitions = dict(page.elements), list(page.transitions)
    for number, item in enumerate(batch, start=1):
        text = said.get(number, "")
        does = accepted(text, LONGEST_SENTENCE, item.slots)
        filled += bool(does)
        if not does:
            unfilled.append(Unfilled(item.place(name), refusal(text, LONGEST_SENTENCE)))
        elif isinstance(item.key, int):
            transitions[item.key] = transitions[item.key].model_copy(update={"does": does})
        else:
            elements[item.key] = elements[item.key].model_copy(update={"does": does})
    changes |= {"elements": elements, "transitions": tuple(transitions)}
    return AnnotatedPage(page.model_copy(update=changes), filled, tuple(unfilled))


class SlotAnswer(Record):
    slot: int
    name: str
    description: str


class SlotsAnswer(Record):
    slots: Annotated[tuple[SlotAnswer, ...], Field(max_length=2 * MOST_ITEMS)]


@dataclass(frozen=True, slots=True)
class SlotNamer(PromptedModel):
    """Tells a model how each slot is set and what stands beside it."""

    async def name_slots(self, graph: AppGraph, name: str, gaps: PageGaps) -> AnnotatedPage:
        """Name the slots of a page that nobody has named; what the model fails at stays as it is."""
        page = graph.pages[name]
        filled, unfilled = 0, list[Unfilled]()
        for start in range(0, len(gaps.slots), MOST_ITEMS):
            batch = gaps.slots[start : start + MOST_ITEMS]
            try:
                answer = await self._ask(graph, name, batch)
            except ModelFailure as error:
                unfilled += [Unfilled(f"{name}: slot {slot}", str(error)) for slot in batch]
                continue
            said = {each.slot: each for each in reversed(answer.slots)}
            for number, slot in enumerate(batch, start=1):
                page, more, left = _named(page, name, slot, said.get(number))
                filled += more
                unfilled += left
        return AnnotatedPage(page, filled, tuple(unfilled))

    async def _ask(self, graph: AppGraph, name: str, batch: tuple[str, ...]) -> SlotsAnswer:
        lines = (f"{number}. {slot_line(graph.pages[name], slot)}" for number, slot in enumerate(batch, start=1))
        fields = {**graph_words(graph, name), "slots": "\n".join(lines)}
        return await self.ask(self.request("writer", fields, sampling=_SAMPLING), SlotsAnswer)


def _named(page: GraphPage, name: str, key: str, answer: SlotAnswer | None) -> AnnotatedPage:
    """Return the page with the words of an answer for a slot; without a name that fits, nothing changes."""
    slot, text = page.slots[key], answer.name if answer is not None else ""
    called = accepted(text, LONGEST_TITLE)
    if answer is None or not called:
        return AnnotatedPage(page, 0, (Unfilled(f"{name}: slot {key}", refusal(text, LONGEST_TITLE)),))
    if called.casefold() in {other.name.casefold() for each, other in page.slots.items() if each != key}:
        reason = "another slot of the page has the name that the model wrote"
        return AnnotatedPage(page, 0, (Unfilled(f"{name}: slot {key}", reason),))
    description = slot.description or accepted(answer.description, LONGEST_SENTENCE)
    named = slot.model_copy(update={"name": called, "description": description})
    filled = (called != slot.name) + (description != slot.description)
    return AnnotatedPage(page.model_copy(update={"slots": {**page.slots, key: named}}), filled, ())
