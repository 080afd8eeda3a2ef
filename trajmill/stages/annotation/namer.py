"""Lets a language model name the slots of a page as instructions speak of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, NamedTuple

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
from trajmill.stages.annotation.page_words import page_line, slot_line
from trajmill.stages.critics.model.action_words import untrusted
from trajmill.stages.graphs.base import AppGraph, GraphPage, GraphSlot
from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.prompts import Prompt, PromptedModel, Sampling, load_prompt

ROLE = "writer"
MOST_SLOTS = 20
"""Most slots in one request."""
_SAMPLING = Sampling(max_tokens=2048)


class SlotAnswer(Record):
    """The words for one slot."""

    slot: int
    name: str
    description: str


class SlotsAnswer(Record):
    """The answer of a writer."""

    slots: Annotated[tuple[SlotAnswer, ...], Field(max_length=2 * MOST_SLOTS)]


class _Naming(NamedTuple):
    """A slot after the model was asked."""

    slot: GraphSlot
    filled: int
    reason: str
    """Why it has no name; empty if it got one."""


def namer_prompt(own: Path | None = None) -> Prompt:
    """The prompt of the user's own file; without one, that of the package.

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
                naming = _named(page, slot, said.get(number))
                page = page.model_copy(update={"slots": {**page.slots, slot: naming.slot}})
                filled += naming.filled
                if naming.reason:
                    unfilled.append(Unfilled(f"{name}: slot {slot}", naming.reason))
        return AnnotatedPage(page, filled, tuple(unfilled))

    async def _ask(self, graph: AppGraph, name: str, batch: tuple[str, ...]) -> SlotsAnswer:
        page = graph.pages[name]
        fields = {
            "app": untrusted(graph.title or graph.app, LONGEST_SENTENCE),
            "platform": graph.platform.value,
            "page": page_line(graph, name),
            "slots": "\n".join(f"{number}. {slot_line(page, slot)}" for number, slot in enumerate(batch, start=1)),
        }
        prompted = PromptedModel(self.model, self.prompt)
        return await prompted.ask(prompted.request(ROLE, fields, sampling=_SAMPLING), SlotsAnswer)


def _named(page: GraphPage, key: str, answer: SlotAnswer | None) -> _Naming:
    """A slot with the words of an answer; nothing is taken of an answer without a name that fits."""
    slot = page.slots[key]
    text = answer.name if answer is not None else ""
    name = accepted(text, LONGEST_TITLE)
    if answer is None or not name:
        return _Naming(slot, 0, refusal(text, LONGEST_TITLE))
    if name.casefold() in {other.name.casefold() for each, other in page.slots.items() if each != key}:
        return _Naming(slot, 0, "another slot of the page has the name that the model wrote")
    description = slot.description or accepted(answer.description, LONGEST_SENTENCE)
    named = slot.model_copy(update={"name": name, "description": description})
    return _Naming(named, (name != slot.name) + (description != slot.description), "")
