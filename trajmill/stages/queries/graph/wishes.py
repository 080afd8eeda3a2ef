"""Words for the moves of a route: what a person wants done, rather than what is pressed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from trajmill.stages.graphs.base import AppGraph, Mark, SlotKind, ValueType
from trajmill.stages.graphs.operations import OFF
from trajmill.stages.graphs.sentences import PLAIN_SENDING, starts_with_verb, turns_page
from trajmill.stages.queries.graph.routes import Route, RouteMove, Setting, Wish, is_nearest
from trajmill.stages.queries.templates import listed

_MAKING = frozenset({"add", "create", "post", "publish", "save", "write", "enter", "insert", "record", "new"})
_SAY_HOW = (ValueType.NUMBER, ValueType.AMOUNT, ValueType.DATE, ValueType.TIME)
_SPANS = frozenset({"hours", "minutes", "days", "nights", "weeks", "months", "years"})
_QUESTION = re.compile(r"[?:*…]+$|\.\.\.$")


def done_on_the_way(sample: Route, rng: Random) -> Iterator[Wish]:
    """Yield the wishes for all that is done before the last settings of a route, and for the pages between."""
    graph, way = sample.graph, list[RouteMove]()
    for move in (*sample.moves, None):
        if move is not None and move not in sample.acts:
            way.append(move)
            continue
        sends = move is not None and move.transition.submits and not move.transition.does
        if way and not sends:  # Who wants a form sent does not care which page it is on.
            yield from map(Wish, navigation_words(graph, way, rng.choice(("go to", "open", "get to"))))
        way = []
        if move is None:
            return
        yield sending(graph, move) if sends else _operating(graph, move, rng)


def _operating(graph: AppGraph, move: RouteMove, rng: Random) -> Wish:
    """Word what the transition does, and before that the values which this does not name."""
    text, said, before = pressing(graph, move), dict[str, str](), list[str]()
    for setting in move.settings:
        place = f"{{{setting.slot}}}"
        if place in text:
            quoted = (
                f'"{setting.value}"' if setting.spec.kind is SlotKind.FIELD else _item(graph, move.page, setting.value)
            )
            text, said[setting.name] = text.replace(place, quoted), setting.value
        else:
            wish = setting.wish(rng)
            before.append(wish.text)
            said |= wish.said
    then = [f"then {text}" if before else text] if text else []
    return Wish(", ".join([*before, *then]), said)


def _item(graph: AppGraph, page: str, value: str) -> str:
    """Return the name of an item of a list, with the list's own word for a number: `order 1000`."""
    title = graph.pages[page].title
    is_number = value.isdecimal() and re.fullmatch(r"[A-Za-z]+[^s]s", title)
    return f"{title[:-1].lower()} {value}" if is_number else value


def pressed_name(graph: AppGraph, move: RouteMove) -> str:
    """Return the name of the pressed element; the keys of a move without one."""
    element = graph.pages[move.page].elements.get(move.transition.by)
    if element is None:
        return move.transition.keys
    name = element.name or move.transition.by.replace("-", " ")
    # A name such as `.` or `+` would be lost in a sentence.
    return name if any(letter.isalnum() for letter in name) else f'"{name}"'


def navigation_words(graph: AppGraph, way: Sequence[RouteMove], going: str) -> tuple[str, ...]:
    """Describe moves between pages: `going` to the last page that its name identifies, then to what leads on.

    Nobody tells which menus and tabs of one window are opened on the way.
    """
    way = [move for move in way if not _only_opens(graph, move)]
    named = [number for number, move in enumerate(way) if is_nearest(graph, move.transition.to)]
    last = named[-1] if named else -1
    first = (f"{going} {graph.name_of(way[last].transition.to)}",) if named else ()
    words = (pressing(graph, move) for move in way[last + 1 :])
    return (*first, *(re.sub(r"^press ", f"{going} ", each) for each in words))


def _only_opens(graph: AppGraph, move: RouteMove) -> bool:
    element, to = graph.pages[move.page].elements.get(move.transition.by), move.transition.to
    is_tab = element is not None and element.role == "tab" and graph.name_of(to) == graph.name_of(move.page)
    return is_tab or Mark.OPENS in graph.pages[to].marks


def pressing(graph: AppGraph, move: RouteMove) -> str:
    """Word a move as the end of `I want you to ...`; empty for a slot that is operated."""
    element = graph.pages[move.page].elements.get(move.transition.by)
    does = move.transition.does or (element.does if element else "")
    pressed = pressed_name(graph, move)
    if does or not pressed:
        return as_wish(does)
    if starts_with_verb(pressed):
        return re.sub(r" \(\d+\)$", "", pressed[:1].lower() + pressed[1:])
    if element is not None and element.shows_its_name and move.transition.to == move.page:
        turned = f"page {pressed}" if pressed.isdecimal() else f"the {pressed.lower()} page"
        return f"show {turned if turns_page(pressed) else pressed}"
    return f"press {pressed}"


def as_wish(does: str) -> str:
    """Turn a sentence about an element into a wish: `Adds the entry.` gives `add the entry`."""
    first, _, rest = does.strip().rstrip(".").partition(" ")
    verb = first[:1].lower() + first[1:]
    if verb.endswith("ies") and len(verb) > 4:
        verb = f"{verb[:-3]}y"
    elif verb.endswith(("sses", "shes", "ches", "xes", "zes", "oes")):
        verb = verb[:-2]
    elif verb.endswith("s") and not verb.endswith("ss"):
        verb = verb[:-1]
    return f"{verb} {rest}".strip()


class _Part(NamedTuple):
    text: str
    follows: bool
    """It follows what is done at once (`for Ann Lee`), rather than after `with`."""


def sending(graph: AppGraph, move: RouteMove) -> Wish:
    """Word what a form is for, with its values: `book a bench for Ann Lee on 2026-12-01, with tools`."""
    settings = move.settings
    first = _named_thing(settings, " " in pressed_name(graph, move))
    types = Counter(each.spec.type for each in settings)
    parts = [_part(each, types[each.spec.type] == 1) for each in settings if each is not first]
    action = _action(graph, move, first)
    told = " ".join([action, *(part.text for part in parts if part.follows)])
    more = [part.text for part in parts if not part.follows]
    said = {e.name: _part(e, False).text if e.spec.kind is SlotKind.SWITCH else e.value for e in settings}
    return Wish(f"{told}, with {listed(more)}" if more else told, said)


def _named_thing(settings: Sequence[Setting], is_told: bool) -> Setting | None:
    """Return the setting that says what the form is about: the only one, or its title or search.

    `is_told` is whether the button says that too, as `Add to cart` does; then a choice or a number only says how.
    """
    only, *others = settings
    says_how = is_told and (only.spec.kind is SlotKind.CHOICE or only.spec.type in _SAY_HOW)
    if not (others or says_how or only.spec.kind is SlotKind.SWITCH):
        return only
    kinds = (ValueType.SEARCH, ValueType.TITLE)
    return next((each for kind in kinds for each in settings if each.spec.type is kind), None)


def _action(graph: AppGraph, move: RouteMove, first: Setting | None) -> str:
    """Return what is done, from the words of the button and the title over the form."""
    label, title = pressed_name(graph, move), re.sub("^new ", "Add a new ", graph.pages[move.page].title, flags=re.I)
    if first is not None and first.spec.type is ValueType.SEARCH:
        return f'search for "{first.value}"'
    thing = "" if first is None else f' "{first.value}"' if first.spec.kind is SlotKind.FIELD else f" {first.value}"
    is_key = move.transition.operation == "key"
    verb = "" if is_key else label.split(" ")[0].lower()
    own = re.sub(r"^(\w+) (?=\w+$)", r"\1 the " if verb in PLAIN_SENDING else r"\1 ", label[:1].lower() + label[1:])
    if starts_with_verb(title) and (is_key or verb in PLAIN_SENDING or title.lower().startswith(verb)):
        return f"{title[:1].lower() + title[1:]}{thing and ' called' + thing}"
    if not is_key and starts_with_verb(label) and (" " in label or verb in _MAKING - PLAIN_SENDING):
        return f"{own}{thing}"
    if first is not None and first.spec.type in (ValueType.TITLE, ValueType.TEXT):
        return f"add{thing}"
    if first is not None:
        return f"save{thing} as {_label(first)}"
    if starts_with_verb(label) and verb not in PLAIN_SENDING and not is_key:
        return own
    return f'fill in and send the form "{title}"' if title else "fill in and send the form"


def _part(setting: Setting, is_only: bool) -> _Part:
    """Word a value; one that is the only one of its type needs no label."""
    label, value = _label(setting), setting.value
    if setting.spec.kind is SlotKind.SWITCH:
        without = setting.value == OFF
        return _Part(f"without {label}" if without else re.sub(r"^with ", "", label, flags=re.IGNORECASE), without)
    if setting.spec.kind is SlotKind.CHOICE:
        is_told = not setting.spec.name or label.casefold() in value.casefold()
        return _Part(value if is_told else f"{label} {value}", False)
    match setting.spec.type:
        case ValueType.PERSON if is_only:
            return _Part(f"for {value}", True)
        case ValueType.DATE | ValueType.TIME as kind if is_only and label.casefold() in ("day", "date", "time", "when"):
            return _Part(f"{'on' if kind is ValueType.DATE else 'at'} {value}", True)
        case ValueType.NUMBER if label in _SPANS and is_only:
            return _Part(f"for {value} {label}", True)
        case ValueType.NUMBER if label.endswith("s") and " " not in label:
            return _Part(f"{value} {label}", False)
        case ValueType.EMAIL if is_only:
            return _Part(f"the e-mail {value}", False)
        case ValueType.TEXT | ValueType.TITLE:
            return _Part(f'{label} "{value}"', False)
        case _:
            return _Part(f"{label} {value}", False)


def _label(setting: Setting) -> str:
    """Return what people call a slot, as a part of a sentence."""
    label = _QUESTION.sub("", setting.label).strip()
    return label if label[1:2].isupper() else label[:1].lower() + label[1:]
