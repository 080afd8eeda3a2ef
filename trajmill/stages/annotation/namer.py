"""Lets a language model name the slots of a page as instructions speak of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field

from trajmill.schemas.errors import ModelFailure
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
from trajmill.stages.annotation.page_words import graph_words, slot_line
from trajmill.stages.graphs.base import AppGraph, GraphPage
from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.prompts import Prompt, PromptedModel, Sampling, load_prompt

ROLE = "writer"
MOST_SLOTS = 20
"""Most slots in one request."""
_SAMPLING = Sampling(max_tokens=2048)


class SlotAnswer(Record):
    slot: int
    name: str
    description: str


class SlotsAnswer(Record):
    slots: Annotated[tuple[SlotAnswer, ...], Field(max_length=2 * MOST_SLOTS)]


def namer_prompt(own: Path | None = None) -> Prompt:
    """Read the prompt of the user's own file; without one, that of the package.

    Raises:
        BadInputError: the file cannot be read, or misses a section or a field.
    """
    return load_prompt("trajmill.stages.annotation", "writer_slots-1", own)


@dataclass(frozen=True, slots=True)
class SlotNamer:
    """Tells a model how each slot is set and what stands beside it."""

    model: ChatModel
    prompt: Prompt = field(default_factory=namer_prompt)

    async def name_slots(self, graph: AppGraph, name: str, gaps: PageGaps) -> AnnotatedPage:
        """Name the slots of a page that nobody has named; what the model fails at stays as it is."""
        page = graph.pages[name]
        filled, unfilled = 0, list[Unfilled]()
        for start in range(0, len(gaps.slots), MOST_SLOTS):
            batch = gaps.slots[start : start + MOST_SLOTS]
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
        prompted = PromptedModel(self.model, self.prompt)
        fields = {**graph_words(graph, name), "slots": "\n".join(lines)}
        return await prompted.ask(prompted.request(ROLE, fields, sampling=_SAMPLING), SlotsAnswer)


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
