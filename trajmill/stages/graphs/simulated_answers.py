"""The answers that the pages of a simulated app tell about one item of a list."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from trajmill.stages.environments.simulated.app_files.app_spec import AppSpec, Item, ItemList, Scalar, ScreenSpec
from trajmill.stages.environments.simulated.app_files.references import all_lists, shown, state_lists
from trajmill.stages.graphs.base import ANSWER, GraphAnswer

_ONE_FIELD = re.compile(r"([^{}]*)\{(\w+)\}")
"""The text of a list that tells one field of its item, e.g. `Day: {day}`."""
_TIME = re.compile(r"\d\d:\d\d")
_TIMES = tuple(f"{hour:02}:{minute}" for minute in (25, 50) for hour in range(5, 24))
"""Names of new items that are called by a time of the day."""
_FREE = re.compile(r"[^\d]+ [^\d]+")
"""A text that somebody has made up, and not one of a few."""
_FEWEST_TEXTS = 3


def answers_of_page(app: AppSpec, name: str, screen: ScreenSpec) -> dict[str, GraphAnswer]:
    """The answers of a page that shows one item, by widget.

    An item of the app's state can be prepared with any answer; the answers about other items are known.
    """
    return {
        widget.id: answer
        for widget in screen.widgets
        if isinstance(widget, ItemList) and not (widget.variable or widget.do or widget.to)
        for answer in _answers(app, name, widget)
    }


def _answers(app: AppSpec, page: str, told: ItemList) -> Iterator[GraphAnswer]:
    match, picked = _ONE_FIELD.fullmatch(told.text), str(told.where.get("name", ""))
    lists = [
        widget
        for screen in app.screens.values()
        for widget in screen.widgets
        if isinstance(widget, ItemList) and widget.variable and f"${widget.variable}" == picked
    ]
    if match is None or len(lists) != 1 or lists[0].items != told.items or lists[0].to != page or not lists[0].id:
        return
    [asked], (label, field) = lists, match.groups()
    items = all_lists(app)[told.items]
    texts = [text for item in items if isinstance(text := item.get(field), str)]
    # An answer that is the same for all could be guessed; one that decides where the item is listed gives itself away.
    if field == "name" or field in asked.where or len(texts) < len(items) or len(set(texts)) < _FEWEST_TEXTS:
        return
    can_be_prepared = told.items in state_lists(app)
    place, called = f"{{{asked.id}}}", label.strip(" :").lower() if field == "text" else field
    yield GraphAnswer(
        target=f"{app.app}.{page}/{told.id}/{place}",
        of=asked.id,
        text=f"{label}{ANSWER}",
        name=f"the {called} of the {page} {place}" if label else f"what the {page} {place} says",
        known={} if can_be_prepared else {str(item["name"]): str(item[field]) for item in items},
        prepare=_prepared(app, asked, items[0], field) if can_be_prepared else {},
        names=_names(items),
        values=() if not label or any(map(_FREE.fullmatch, texts)) else tuple(dict.fromkeys(texts)),
    )


def _prepared(app: AppSpec, asked: ItemList, like: Item, field: str) -> dict[str, object]:
    """The start state with a new item in the list; where it is listed, it has the fields that the list asks for."""
    by_variable = {
        widget.variable: widget.id
        for widget in chain.from_iterable(screen.widgets for screen in app.screens.values())
        if isinstance(widget, ItemList) and widget.variable
    }
    listed = {name: _place(value, by_variable) for name, value in asked.where.items()}
    record = {**like, **listed, "name": f"{{{asked.id}}}", field: ANSWER}
    return {"setup": {f"{app.app}.{asked.items}": record}}


def _place(value: Scalar, by_variable: dict[str, str]) -> Scalar:
    name = by_variable.get(value[1:]) if isinstance(value, str) and value.startswith("$") else None
    return f"{{{name}}}" if name else value


def _names(items: Sequence[Item]) -> tuple[str, ...]:
    """Names for new items, if theirs are times; other items can have any."""
    known = {shown(item["name"]) for item in items}
    return tuple(each for each in _TIMES if each not in known) if all(map(_TIME.fullmatch, known)) else ()
