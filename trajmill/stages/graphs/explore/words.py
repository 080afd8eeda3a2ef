"""The words that exploring read off the screens of an app, so that they can be told from what people wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from trajmill.stages.graphs.explore.base import WalkedScreen
from trajmill.stages.graphs.explore.pages import page_key
from trajmill.stages.graphs.explore.slots import label_of


class ExploredWords(NamedTuple):
    """Titles of pages, and labels of elements by their names in paths."""

    titles: frozenset[str] = frozenset()
    labels: frozenset[tuple[str, str]] = frozenset()

    def is_label(self, target: str, text: str) -> bool:
        """Whether a text is the label of an element, or the text that its name in paths ends with."""
        return (target, text) in self.labels or text in target.partition(":")[2:]


def explored_words(journal: Path) -> ExploredWords:
    """The words on the screens of a journal; none without a journal. Lines that are damaged are left out."""
    titles: set[str] = set()
    labels: set[tuple[str, str]] = set()
    for screen in _screens(journal):
        key = page_key(screen)
        titles |= {key.title, *key.dialogs, *(each.text for each in screen.elements if each.role == "heading")}
        labels |= {(target, label_of(element)) for target, element in screen.by_target.items()}
    return ExploredWords(frozenset(titles - {""}), frozenset(labels))


def _screens(journal: Path) -> Iterator[WalkedScreen]:
    if not journal.exists():
        return
    with journal.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                entry = json.loads(line)
                if isinstance(entry, dict) and "screen" in entry:
                    yield WalkedScreen.model_validate(entry["screen"])
            except (ValueError, ValidationError):
                continue
