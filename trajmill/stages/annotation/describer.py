"""Lets a vision-language model describe a page of a graph, and say what its elements and transitions do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
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
from trajmill.stages.annotation.page_words import element_line, page_features, page_line, pages_line, transition_line
from trajmill.stages.critics.model.action_words import untrusted
from trajmill.stages.graphs.base import AppGraph, GraphPage, GraphTransition
from trajmill.stages.models.base import ChatModel, MessagePart
from trajmill.stages.models.prompts import Prompt, PromptedModel, Sampling, load_prompt, on_lines

ROLE = "describer"
MOST_ITEMS = 20
"""Most elements and transitions in one request."""
_SAMPLING = Sampling(max_tokens=2048)


class ItemAnswer(Record):
    """What one element or transition does."""

    item: int
    does: str


class PageAnswer(Record):
    """The answer of a describer."""

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


class _Fill(NamedTuple):
    """What an answer changes on a page."""

    changes: dict[str, Any]
    filled: int
    unfilled: list[Unfilled]


_NO_GAPS = PageGaps(False, False, (), (), ())


def describer_prompt(own: Path | None = None) -> Prompt:
    """The prompt of the user's own file; without one, that of the package.

    Raises:
        BadInputError: the file cannot be read, or misses a section or a field.
    """
    return load_prompt("trajmill.stages.annotation", "describer_page-1", own)


@dataclass(frozen=True, slots=True)
class PageDescriber:
    """Shows a model the screenshot of a page where there is one, else what the page is recognised by."""

    model: ChatModel
    prompt: Prompt = field(default_factory=describer_prompt)

    async def describe(self, graph: AppGraph, name: str, gaps: PageGaps, picture: ScreenHandle | None) -> AnnotatedPage:
        """Fill the gaps of a page that a describer can fill; what the model fails at stays as it is.

        Args:
            graph: the graph.
            name: the page.
            gaps: what is missing on it.
            picture: its screenshot.
        """
        page, filled, unfilled = graph.pages[name], 0, list[Unfilled]()
        items = tuple(_items(graph, name, gaps, picture))
        for start in range(0, max(1, len(items)), MOST_ITEMS):
            batch, wanted = items[start : start + MOST_ITEMS], gaps if not start else _NO_GAPS
            try:
                answer = await self._ask(graph, name, batch, picture)
            except ModelFailure as error:
                unfilled += _failed(name, wanted, batch, str(error))
                continue
            for fill in (_with_words(page, name, wanted, answer), _with_does(page, name, batch, answer)):
                page, filled = page.model_copy(update=fill.changes), filled + fill.filled
                unfilled += fill.unfilled
        return AnnotatedPage(page, filled, tuple(unfilled))

    async def _ask(
        self, graph: AppGraph, name: str, batch: tuple[_Item, ...], picture: ScreenHandle | None
    ) -> PageAnswer:
        fields = {
            "app": untrusted(graph.title or graph.app, LONGEST_SENTENCE),
            "platform": graph.platform.value,
            "page": page_line(graph, name),
            "pages": pages_line(graph, name),
            "features": page_features(graph.pages[name]),
            "items": "\n".join(f"{number}. {item.fact}" for number, item in enumerate(batch, start=1)) or "(none)",
        }
        parts: tuple[MessagePart, ...] = () if picture is None else ("The screenshot:", picture)
        prompted = PromptedModel(self.model, self.prompt)
        return await prompted.ask(prompted.request(ROLE, fields, parts, _SAMPLING, on_lines), PageAnswer)


def _items(graph: AppGraph, name: str, gaps: PageGaps, picture: ScreenHandle | None) -> Iterator[_Item]:
    page = graph.pages[name]
    size = picture.size if picture is not None else None
    for key in gaps.elements:
        yield _Item(key, element_line(page.elements[key], size), ())
    for number in gaps.transitions:
        transition = page.transitions[number]
        slots = _named_slots(page, transition)
        yield _Item(number, transition_line(graph, page, transition, slots), slots)


def _named_slots(page: GraphPage, transition: GraphTransition) -> tuple[str, ...]:
    """The slots whose values a transition uses."""
    pressed = (transition.by,) if transition.by in page.slots else ()
    return tuple(dict.fromkeys((*transition.slots, *pressed)))


def _failed(name: str, gaps: PageGaps, batch: tuple[_Item, ...], reason: str) -> Iterator[Unfilled]:
    """All that a request without an answer leaves empty."""
    for is_missing, word in ((gaps.title, "title"), (gaps.description, "description")):
        if is_missing:
            yield Unfilled(f"{name}: {word}", reason)
    for item in batch:
        yield Unfilled(item.place(name), reason)


def _with_words(page: GraphPage, name: str, gaps: PageGaps, answer: PageAnswer) -> _Fill:
    """The title and the description."""
    changes: dict[str, Any] = {}
    unfilled: list[Unfilled] = []
    wanted = (
        (gaps.title, "title", answer.title, LONGEST_TITLE),
        (gaps.description, "description", answer.description, LONGEST_SENTENCE),
    )
    for is_missing, word, text, longest in wanted:
        if is_missing and (line := accepted(text, longest)):
            changes[word] = line
        elif is_missing:
            unfilled.append(Unfilled(f"{name}: {word}", refusal(text, longest)))
    return _Fill(changes, sum(getattr(page, word) != line for word, line in changes.items()), unfilled)


def _with_does(page: GraphPage, name: str, batch: tuple[_Item, ...], answer: PageAnswer) -> _Fill:
    """What the elements and transitions of a request do."""
    said = {each.item: each.does for each in reversed(answer.items)}
    elements, transitions = dict(page.elements), list(page.transitions)
    unfilled: list[Unfilled] = []
    for number, item in enumerate(batch, start=1):
        text = said.get(number, "")
        does = accepted(text, LONGEST_SENTENCE, item.slots)
        if not does:
            unfilled.append(Unfilled(item.place(name), refusal(text, LONGEST_SENTENCE)))
        elif isinstance(item.key, int):
            transitions[item.key] = transitions[item.key].model_copy(update={"does": does})
        else:
            elements[item.key] = elements[item.key].model_copy(update={"does": does})
    changes = {"elements": elements, "transitions": tuple(transitions)}
    return _Fill(changes, len(batch) - len(unfilled), unfilled)
