"""The differences between two states, and goals about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import networkx as nx

Path = tuple[str, ...]
"""Keys from the root; an item of a list by its id, else by its number."""
ANY = "*"
_DEEPEST = 64
"""Values below are compared as a whole."""


class _Absent:
    def __repr__(self) -> str:
        return "nothing"


ABSENT = _Absent()


class Difference(NamedTuple):
    path: Path
    before: Any
    """JSON value; `ABSENT` if there was none."""
    after: Any


def differences(before: Any, after: Any, path: Path = ()) -> Iterator[Difference]:
    """Yield the deepest values that differ; what was added or removed is one difference, with all that is in it.

    Another order of the items that both lists have is a difference at the list's path and `order`.
    """
    pairs = _children(before, after) if ABSENT not in (before, after) and len(path) < _DEEPEST else None
    if pairs is None:
        # Of JSON values, 1 and 1.0 are equal, 1 and true are not.
        if isinstance(before, bool) != isinstance(after, bool) or before != after:
            yield Difference(path, before, after)
        return
    for key, (one, other) in pairs.items():
        yield from differences(one, other, (*path, key))
    if isinstance(before, list) and isinstance(after, list):
        kept = {key for key, (one, other) in pairs.items() if ABSENT not in (one, other)}
        orders = [[key for key in _keys_of(each, _id_key(before, after)) if key in kept] for each in (before, after)]
        if orders[0] != orders[1]:
            yield Difference((*path, "order"), *orders)


def is_same(before: Any, after: Any) -> bool:
    return next(differences(before, after), None) is None


def matches(pattern: Path, before: Any, after: Any, path: Path = ()) -> Iterator[Difference]:
    """Yield the values at all paths of a pattern in either state, equal ones too; `*` stands for any key."""
    if not pattern:
        yield Difference(path, before, after)
        return
    pairs = _children(before, after) or {}
    for key in pairs if pattern[0] == ANY else {pattern[0]} & pairs.keys():
        yield from matches(pattern[1:], *pairs[key], (*path, key))


def covers(prefix: Path, path: Path) -> bool:
    """Whether a path is at or below a pattern."""
    return len(prefix) <= len(path) and all(key in (ANY, at) for key, at in zip(prefix, path, strict=False))


def _children(before: Any, after: Any) -> Mapping[str, tuple[Any, Any]] | None:
    """Pair the values of two objects or two lists by key; None if they are neither. An absent one is empty."""
    there = [each for each in (before, after) if each is not ABSENT]
    if not there or not (all(isinstance(e, dict) for e in there) or all(isinstance(e, list) for e in there)):
        return None
    if isinstance(there[0], dict):
        one, other = ({} if each is ABSENT else each for each in (before, after))
    else:
        lists = [[] if each is ABSENT else each for each in (before, after)]
        key = _id_key(*lists)
        one, other = (dict(zip(_keys_of(each, key), each, strict=True)) for each in lists)
    return {key: (one.get(key, ABSENT), other.get(key, ABSENT)) for key in {**one, **other}}


def _id_key(before: list[Any], after: list[Any]) -> str | None:
    """The field whose values tell the items of both lists apart: `id`, or one whose name ends in Id or _id."""
    items = [*before, *after]
    if not items or not all(isinstance(item, dict) for item in items):
        return None
    candidates: list[str] = ["id", *(key for key in items[0] if key.endswith(("Id", "_id")))]
    for key in candidates:
        ids = [[item.get(key) for item in each] for each in (before, after)]
        plain = all(isinstance(i, str | int) and not isinstance(i, bool) for each in ids for i in each)
        if plain and all(len({str(i) for i in each}) == len(each) for each in ids):
            return key
    return None


def _keys_of(items: list[Any], key: str | None) -> list[str]:
    return [str(number if key is None else item[key]) for number, item in enumerate(items)]


class Outcome(NamedTuple):
    reached: bool
    beyond: tuple[str, ...]
    """Paths of the differences that the goal does not name, with dots."""


def assign(options: Sequence[Sequence[Path]]) -> list[Path | None]:
    """Give each goal one of its paths, none twice, so that as many goals as possible have one."""
    goals = range(len(options))
    graph: nx.Graph[Any] = nx.Graph([(goal, path) for goal in goals for path in options[goal]])
    graph.add_nodes_from(goals)
    found = nx.bipartite.maximum_matching(graph, goals)
    return [found.get(goal) for goal in goals]
