"""The texts of app files that an agent reads or is told: what a vocabulary for these apps must hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from trajmill.stages.environments.simulated.app_files.app_spec import AppSpec, TaskSpec

_SHOWN: Final = ("text", "note", "label", "hint", "options", "title", "items")
"""Keys of screens and widgets that hold what is drawn."""
_SAID: Final = ("phrasings", "heldout_phrasings", "clauses", "heldout_clauses")
"""Keys of tasks that hold the words of instructions."""
_PLACEHOLDER: Final = re.compile(r"\{\w+\}|\$\w+|[()\[\]|]")
_OF_THE_DEVICE: Final = ("Back", "Close", "Show desktop", "Not now", "Rate", "Learn more", "Try Plus for free", "+ -")
"""Rows that stand in no app file."""
_BETWEEN_CLAUSES: Final = ", and . ? !"


def texts_of(apps: Iterable[AppSpec], tasks: Iterable[TaskSpec]) -> Iterator[str]:
    """The texts on the screens of apps, and those that instructions for tasks are made of, capitalised ones too."""
    yield from _OF_THE_DEVICE
    yield _BETWEEN_CLAUSES
    for app in apps:
        yield app.name
        yield from _strings([app.lists, app.state, app.variables])
        for screen in app.screens.values():
            yield from _shown(screen.model_dump())
    for task in tasks:
        yield from _strings([[slot.values, slot.say] for slot in task.slots])
        for text in _strings([task.model_dump(include=set(_SAID))]):
            words = _PLACEHOLDER.sub(" ", text)
            yield words
            # Any word of a template may come to begin the sentence.
            yield words.title()


def _shown(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for key, value in part.items():
            if key in _SHOWN:
                yield from (_PLACEHOLDER.sub(" ", text) for text in _strings([value]))
            yield from _shown(value)
    elif isinstance(part, list | tuple):
        for each in part:
            yield from _shown(each)


def _strings(values: Any) -> Iterator[str]:
    if isinstance(values, dict):
        values = values.values()
    for value in values:
        if isinstance(value, dict | list | tuple):
            yield from _strings(value)
        elif isinstance(value, str | int):
            yield str(value)
