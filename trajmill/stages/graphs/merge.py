"""Keeps what people wrote in a graph when the app is explored again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import Observation, ScreenHandle
from trajmill.stages.graphs.base import AppGraph, GraphElement, GraphPage, GraphSlot, GraphTransition, Mark
from trajmill.stages.graphs.explore.base import WalkedScreen
from trajmill.stages.graphs.explore.naming import unique
from trajmill.stages.graphs.recognise import page_on, recognises


def keep_annotations(
    new: AppGraph,
    old: AppGraph,
    screens: Mapping[str, Sequence[WalkedScreen]],
    outdated: frozenset[Mark] = frozenset({Mark.IDLE}),
) -> AppGraph:
    """Return the new graph with the names, words, values and additions of the old one, without `outdated` marks.

    A page is the same if the old graph recognises it on its screens. Pages, slots and transitions that only the old
    graph has stay: an exploration that went less far is no reason to lose them.
    """
    names = _renamed(new, old, screens)
    pages: dict[str, GraphPage] = {}
    for name, page in new.pages.items():
        ways = tuple(each.model_copy(update={"to": names.get(each.to, each.to)}) for each in page.transitions)
        moved = page.model_copy(update={"transitions": ways})
        known = old.pages.get(names[name])
        others = [each for other, seen in screens.items() if other != name for each in seen]
        pages[names[name]] = _page(moved, known, screens.get(name, ()), others, outdated) if known else moved
    pages |= {name: page for name, page in old.pages.items() if name not in pages}
    words = {"title": old.title or new.title, "description": old.description or new.description}
    return new.model_copy(update={**words, "start": names[new.start], "pages": pages})


def _renamed(new: AppGraph, old: AppGraph, screens: Mapping[str, Sequence[WalkedScreen]]) -> dict[str, str]:
    """By its new name, the old name of each page; pages that the old graph lacks keep theirs if it is free."""
    names: dict[str, str] = {}
    for name in new.pages:
        known = next((page_on(old, _observation(screen)) for screen in screens.get(name, ())), None)
        if known is not None and known not in names.values():
            names[name] = known
    for name in new.pages:
        if name not in names:
            names[name] = unique(name, {*names.values(), *old.pages})
    return names


def _page(
    new: GraphPage,
    old: GraphPage,
    own: Sequence[WalkedScreen],
    others: Sequence[WalkedScreen],
    outdated: frozenset[Mark],
) -> GraphPage:
    def holds(screen: WalkedScreen) -> bool:
        return recognises(old.recognise, _observation(screen))

    keys = _same_keys(new, old)
    # Whether the old recogniser still holds on all screens of its page and on no other one.
    still = all(map(holds, own)) and not any(map(holds, others))
    elements = {
        keys.get(name, name): _element(each, old.elements.get(keys.get(name, "")), outdated)
        for name, each in new.elements.items()
    }
    slots = {keys.get(name, name): _slot(each, old.slots.get(keys.get(name, ""))) for name, each in new.slots.items()}
    elements |= {name: each for name, each in old.elements.items() if name not in (*elements, *slots)}
    slots |= {name: each for name, each in old.slots.items() if name not in (*elements, *slots)}
    return GraphPage(
        title=old.title or new.title,
        description=old.description or new.description,
        recognise=old.recognise if still else new.recognise,
        marks=tuple(dict.fromkeys((*old.marks, *new.marks))),
        screenshot=new.screenshot or old.screenshot,
        scrolls=new.scrolls or old.scrolls,
        elements={name: each for name, each in elements.items() if name not in slots},
        slots=slots,
        transitions=_transitions(new, old, keys),
        answers=old.answers,
    )


def _same_keys(new: GraphPage, old: GraphPage) -> dict[str, str]:
    """By new name, the old name of the element or slot with the same target."""
    by_target = {target: name for name, target in _targets(old).items()}
    found: dict[str, str] = {}
    for name, target in _targets(new).items():
        known = by_target.get(target)
        if known is not None and known not in found.values():
            found[name] = known
    return found


def _targets(page: GraphPage) -> dict[str, tuple[str, str]]:
    """By name of an element or slot, what is pressed; two choices can have equal targets behind different boxes."""
    elements = {name: ("", each.target) for name, each in page.elements.items()}
    return elements | {name: (each.opens, each.target) for name, each in page.slots.items()}


def _element(new: GraphElement, old: GraphElement | None, outdated: frozenset[Mark]) -> GraphElement:
    if old is None:
        return new
    marks = tuple(dict.fromkeys((*(each for each in old.marks if each not in outdated), *new.marks)))
    return new.model_copy(update={"name": old.name or new.name, "does": old.does or new.does, "marks": marks})


def _slot(new: GraphSlot, old: GraphSlot | None) -> GraphSlot:
    if old is None:
        return new
    kept = {"values": old.values or new.values, "common": old.common or new.common}
    return old.model_copy(update=kept | {"targets": new.targets | old.targets, "shown": new.shown | old.shown})


def _transitions(new: GraphPage, old: GraphPage, keys: Mapping[str, str]) -> tuple[GraphTransition, ...]:
    """Those of the old page as they were written, and those that are new."""
    renamed = [
        each.model_copy(update={"by": keys.get(each.by, each.by), "slots": tuple(keys.get(s, s) for s in each.slots)})
        for each in new.transitions
    ]
    found = {_way(each): each.marks for each in renamed}
    kept = (each.model_copy(update={"marks": found.get(_way(each), each.marks)}) for each in old.transitions)
    known = {_way(each) for each in old.transitions}
    return (*kept, *(each for each in renamed if _way(each) not in known))


def _way(transition: GraphTransition) -> tuple[object, ...]:
    return transition.by, transition.operation, transition.keys, transition.to


def _observation(screen: WalkedScreen) -> Observation:
    return Observation(ScreenHandle(screen.screen_id, Size(1, 1), bytes), screen.elements, screen.app)
