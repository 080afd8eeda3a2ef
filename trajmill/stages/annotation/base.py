"""What is missing on the pages of a graph, what models write there, and what they left empty."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from trajmill.schemas.text import one_line, printable
from trajmill.stages.critics.model.marking import quotable
from trajmill.stages.graphs.base import AppGraph, GraphPage
from trajmill.stages.graphs.explore.base import WalkedScreen
from trajmill.stages.graphs.explore.naming import label_of
from trajmill.stages.graphs.explore.pages import page_key

LONGEST_TITLE = 60
"""Most characters of the title of a page and of the name of a slot."""
LONGEST_SENTENCE = 200
"""Most characters of a description and of what something does."""
_PLACE = re.compile(r"\{([^{}]*)\}")


class PageGaps(NamedTuple):
    title: bool
    description: bool
    elements: tuple[str, ...]
    """Names of elements of which nobody has said what they do."""
    transitions: tuple[int, ...]
    """Numbers of such transitions."""
    slots: tuple[str, ...]
    """Slots whose name is missing or the label that exploring read off the screen."""

    @property
    def for_describer(self) -> bool:
        return self.title or self.description or bool(self.elements or self.transitions)


class Unfilled(NamedTuple):
    place: str
    """The page, then what is missing on it."""
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


class AnnotatedPage(NamedTuple):
    page: GraphPage
    filled: int
    unfilled: tuple[Unfilled, ...]


def page_gaps(graph: AppGraph, name: str, words: ExploredWords) -> PageGaps:
    """Return what is missing on a page.

    A title that exploring read off the screen is replaced as long as the page has no description or another page has
    the title; the name of a slot as long as the slot has no description. What a model has confirmed stays.
    """
    page = graph.pages[name]
    is_shared = any(other.title == page.title for each, other in graph.pages.items() if each != name)
    return PageGaps(
        title=not page.title or (page.title in words.titles and (is_shared or not page.description)),
        description=not page.description,
        elements=tuple(name for name, element in page.elements.items() if not element.does),
        transitions=tuple(number for number, each in enumerate(page.transitions) if not each.does),
        slots=tuple(
            name
            for name, slot in page.slots.items()
            if not slot.name or (not slot.description and words.is_label(slot.target, slot.name))
        ),
    )


def accepted(text: str, longest: int, slots: Collection[str] = ()) -> str:
    """A model's text on one line, without invisible characters; empty if it cannot be used.

    It is refused if it is too long, or has braces that are not `{slot}` of one of the slots.
    """
    line = one_line(printable(text))
    left = _PLACE.sub(lambda place: "" if place[1] in slots else place[0], line)
    return "" if len(line) > longest or set("{}") & set(left) else quotable(line)


def refusal(text: str, longest: int) -> str:
    if not text.strip():
        return "the model wrote nothing"
    if len(text) > longest:
        return f"the model wrote more than {longest} characters"
    return "the model wrote braces around what is no slot of it"


class ExploredWords(NamedTuple):
    """Titles of pages, and labels of elements by their names in paths."""

    titles: frozenset[str] = frozenset()
    labels: frozenset[tuple[str, str]] = frozenset()

    def is_label(self, target: str, text: str) -> bool:
        """Whether a text is the label of an element, or the text that its name in paths ends with."""
        return (target, text) in self.labels or text in target.partition(":")[2:]


def explored_words(journal: Path) -> ExploredWords:
    """Return the words on the screens of a journal; none without a journal. Damaged lines are left out."""
    titles: set[str] = set()
    labels: set[tuple[str, str]] = set()
    for line in journal.read_text(encoding="utf-8", errors="replace").split("\n") if journal.exists() else ():
        try:
            entry = json.loads(line)
            if not isinstance(entry, dict) or "screen" not in entry:
                continue
            screen = WalkedScreen.model_validate(entry["screen"])
        except (ValueError, ValidationError):
            continue
        key = page_key(screen)
        titles |= {key.title, *key.dialogs, *(each.text for each in screen.elements if each.role == "heading")}
        labels |= {(target, label_of(element)) for target, element in screen.by_target.items()}
    return ExploredWords(frozenset(titles - {""}), frozenset(labels))
