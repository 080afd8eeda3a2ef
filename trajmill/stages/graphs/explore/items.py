"""Finds what repeats on a page: the rows of a table, cards, entries of a list, and what each of them offers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from trajmill.schemas.observation import UIElement
from trajmill.stages.graphs.explore.base import BOX, BUTTONS, FIELDS, SLIDER
from trajmill.stages.graphs.explore.naming import slug

_FEWEST = 3
"""Fewest repetitions."""
_LARGEST = 10
"""Most elements of one item."""
NUMBER = re.compile(r"\d+")
_INPUTS = FIELDS | {BOX, "radio", SLIDER}
_TITLES = frozenset({"heading", "link", "text", "cell", "list_item", "value", "icon", "image", "checkbox"})
_NAMED_BY_ROLE = frozenset({"checkbox", "switch", "list_item", "icon", "cell", "menu_item", "tab"})
"""Roles that make lists and switches by themselves."""


class ItemGroup(NamedTuple):
    """Elements that do the same, each to another item."""

    kind: str
    """Equal for the group on each screen of the page."""
    verb: str
    """What all of them say, e.g. `Open`; empty if they say the names of the items."""
    items: dict[str, str]
    """By name of the item, the element to press, by its name in paths."""
    is_run: bool
    """Whether it is only a run of like elements, as in a menu, rather than rows with several parts."""


def item_groups(elements: Mapping[str, UIElement]) -> list[ItemGroup]:
    """Return what repeats among elements in reading order, given by their names in paths."""
    found: dict[str, ItemGroup] = {}
    names = list(elements)
    for start, period, count in _runs(elements.values()):
        rows = [names[start + period * row : start + period * (row + 1)] for row in range(count)]
        for group in _groups([[(name, elements[name]) for name in row] for row in rows]):
            known = found.get(group.kind)
            found[group.kind] = group._replace(items={**known.items, **group.items}) if known else group
    return list(found.values())


def repeated(elements: Sequence[UIElement]) -> set[int]:
    """Return the positions of elements that belong to rows of several parts, in reading order."""
    return {start + at for start, period, count in _runs(elements) if period > 1 for at in range(period * count)}


def _runs(elements: Iterable[UIElement]) -> Iterator[tuple[int, int, int]]:
    """Yield the places where elements of the same roles repeat: start, period and number of repetitions."""
    signatures, at = [(each.role, each.clickable) for each in elements], 0
    while at < len(signatures):
        best = (0, 0)
        for period in range(1, _LARGEST + 1):
            first = signatures[at : at + period]
            if len(first) < period or any(role in _INPUTS for role, _ in first) or not any(can for _, can in first):
                continue
            count = 1
            while signatures[at + count * period : at + (count + 1) * period] == first:
                count += 1
            # A run of like elements at the beginning of a row is part of the row.
            if count >= _FEWEST and count * period > best[0] * best[1]:
                best = (period, count)
        period, count = best
        if count:
            yield at, period, count
        at += max(1, period * count)


def _groups(rows: Sequence[Sequence[tuple[str, UIElement]]]) -> Iterator[ItemGroup]:
    """Yield a group for each place of a row that can be pressed."""
    columns = list(zip(*rows, strict=True))
    titles = [texts for texts in map(_texts, columns) if texts]
    shape = "-".join(each.role for _, each in rows[0])
    for number, column in enumerate(columns):
        if not column[0][1].clickable or column[0][1].role in _NAMED_BY_ROLE:
            continue
        own = [each.text for _, each in column]
        verb = _verb(own)
        kept = [not verb or NUMBER.sub("", text).strip() == verb for text in own]
        is_run = len(columns) == 1
        if not verb and (len(set(own)) < len(own) or not all(own) or (is_run and column[0][1].role in BUTTONS)):
            continue
        named = own if is_run or not verb else next((each for each in titles if each != own), own)
        items = {name: target for name, (target, _), same in zip(named, column, kept, strict=True) if name and same}
        yield ItemGroup(f"{shape} {number} {slug(verb)}".strip(), verb, items, is_run)


def _verb(texts: Sequence[str]) -> str:
    """Return what most texts of a column say, without numbers; empty if they say different things."""
    said, count = Counter(NUMBER.sub("", text).strip() for text in texts).most_common(1)[0]
    return said if 2 * count > len(texts) else ""


def _texts(column: Sequence[tuple[str, UIElement]]) -> list[str]:
    """Return the texts of a column that can name items: they all differ; none else."""
    texts = [each.text for _, each in column]
    is_title = column[0][1].role in _TITLES and all(texts) and len(set(texts)) == len(texts)
    return texts if is_title and all(any(map(str.isalnum, text)) for text in texts) else []
