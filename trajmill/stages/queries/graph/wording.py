"""Words routes: the facts for a language model, and the templates of the embedded grammar (GUI-Owl 6.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from trajmill.stages.environments.simulated.annotations import KnownSlot, PageMetadata, PathMetadata, SlotValue
from trajmill.stages.graphs.base import AppGraph, SlotKind
from trajmill.stages.graphs.operations import OFF, ON
from trajmill.stages.graphs.plain_does import written
from trajmill.stages.queries.base import GoalFacts, Written
from trajmill.stages.queries.graph.routes import (
    RouteMove,
    RouteSample,
    Setting,
    app_name,
    is_nearest_of_its_name,
    page_name,
)
from trajmill.stages.queries.templates import explicit_instruction, packaged_phrasings, tidy

_VERSION = "live-grammar-3"


class Wish(NamedTuple):
    """What is to be done, as the end of `I want you to ...`."""

    text: str
    said: dict[str, str] = {}
    """By slot, the words for its value."""


def route_facts(sample: RouteSample) -> GoalFacts:
    """Return the facts for a language model; a route without values asks for its last page."""
    slots = tuple(map(known_slot, sample.settings))
    page = KnownSlot("page", "page", "list", (page_name(sample.graph, sample.end),), ())
    return GoalFacts(path_metadata(sample), slots or (page,))


def worded_route(sample: RouteSample, heldout: bool, seed: int) -> Written:
    """Draw a template of `phrasings.yaml` and the words of the wish."""
    rng, acts = Random(seed), sample.acts
    is_alone = len(acts) == 1 and not sample.final and len(acts[0].settings) == 1
    if not (acts or sample.final):
        kind, words = "visit", {"page": page_name(sample.graph, sample.end)}
        said = dict(words)
    elif is_alone and _only_opens(acts[0]):
        (setting,) = acts[0].settings
        kind, words, said = "open", {"item": setting.value}, {setting.name: setting.value}
    else:
        wishes = [*_moves(sample, rng), *(wish_for(setting, rng) for setting in sample.final)]
        kind, words = "do", {"wish": " and ".join(wish.text for wish in wishes)}
        said = {name: words for wish in wishes for name, words in wish.said.items()}
    template = packaged_phrasings(__package__)[kind].draw(heldout, rng)
    text = template.expand(sample.task, {"app": app_name(sample.graph), **words}, rng)
    raw = explicit_instruction(path_metadata(sample))
    return Written(raw, tidy(text), f"{sample.task}/{template.id}", said, _VERSION)


def _only_opens(act: RouteMove) -> bool:
    """Whether a move only opens an item of a list, without a sentence about it."""
    leads_on = act.transition.to != act.page and not act.transition.does
    return leads_on and act.settings[0].spec.kind is SlotKind.LIST


def _moves(sample: RouteSample, rng: Random) -> Iterator[Wish]:
    """Yield what is done, each after the way to its page; then the way to the last page."""
    acts, way = sample.acts, list[RouteMove]()
    for move in (*sample.moves, None):
        if move is not None and move not in acts:
            way.append(move)
            continue
        if way:
            going = rng.choice(("go to", "open", "get to"))
            yield from map(Wish, navigation_words(sample.graph, way, going))
        if move is not None:
            yield _act(sample.graph, move, rng)
        way = []


def _act(graph: AppGraph, move: RouteMove, rng: Random) -> Wish:
    """Word a transition: what it does, and before that the values which this does not name."""
    text = pressing(graph, move)
    said: dict[str, str] = {}
    left: list[Wish] = []
    for setting in move.settings:
        place = f"{{{setting.slot}}}"
        if place in text:
            quoted = f'"{setting.value}"' if setting.spec.kind is SlotKind.FIELD else setting.value
            text = text.replace(place, quoted)
            said[setting.name] = setting.value
        else:
            left.append(wish_for(setting, rng))
    before = [wish.text for wish in left]
    said |= {name: words for wish in left for name, words in wish.said.items()}
    then = [f"then {text}" if before else text] if text else []
    return Wish(", ".join([*before, *then]), said)


def wish_for(setting: Setting, rng: Random) -> Wish:
    """Word one value."""
    named, value = label(setting), setting.value
    match setting.spec.kind:
        case SlotKind.SWITCH:
            words = rng.choice(_switch_words(named, value))
            return Wish(words, {setting.name: words})
        case SlotKind.FIELD:
            text = f'{rng.choice(("put", "enter"))} "{value}" into {named}'
        case SlotKind.CHOICE | SlotKind.SLIDER if setting.spec.name:
            text = f"{rng.choice(('set', 'change'))} {named} to {value}"
        case _:
            text = f"{rng.choice(('choose', 'pick'))} {value}"
    return Wish(text, {setting.name: value})


def page_description(graph: AppGraph, page: str) -> str:
    """Return the description of a page; its name without one."""
    return graph.pages[page].description or f"{page_name(graph, page)} of {app_name(graph)}"


def label(setting: Setting) -> str:
    """Return the name of a slot in instructions."""
    return setting.spec.name or setting.slot.replace("-", " ")


def _pressed_name(graph: AppGraph, move: RouteMove) -> str:
    """Return the name of the pressed element; the keys of a move without one."""
    element = graph.pages[move.page].elements.get(move.transition.by)
    if element is None:
        return move.transition.keys
    name = element.name or move.transition.by.replace("-", " ")
    # A sentence would swallow a name such as `.` or `+`.
    return name if any(letter.isalnum() for letter in name) else f'"{name}"'


def path_metadata(sample: RouteSample) -> PathMetadata:
    """Return the facts about the route of a sample."""
    graph = sample.graph

    def value(setting: Setting) -> SlotValue:
        page, kind = f"{graph.app}.{setting.page}", setting.spec.kind.value
        words = (setting.value,)
        return SlotValue(setting.name, page, label(setting), kind, setting.value, words, False, "")

    def page(name: str, settings: Sequence[Setting], leave_by: str) -> PageMetadata:
        values = tuple(map(value, settings))
        return PageMetadata(f"{graph.app}.{name}", app_name(graph), page_description(graph, name), values, leave_by)

    pages = [page(move.page, move.settings, _pressed_name(graph, move)) for move in sample.moves]
    pages.append(page(sample.end, sample.final, ""))
    done = " ".join(move.transition.does for move in sample.moves if move.transition.does)
    description = done or f"Get to {page_name(graph, sample.end)} in {app_name(graph)}."
    return PathMetadata(sample.task, description, graph.platform, tuple(pages), tuple(map(value, sample.settings)))


def known_slot(setting: Setting) -> KnownSlot:
    """Return the words for a value that the user asks for."""
    spec, named, value = setting.spec, label(setting), setting.value
    if spec.kind is SlotKind.SWITCH:
        # The check reads a `not` before an option as a mistake, so an option that is wanted off is a choice of words.
        words = (named,) if value == ON else _switch_words(named, value)
        return KnownSlot(setting.name, named, "switch" if value == ON else "choice", words, ())
    # A part of the wanted value is no other value.
    others = tuple(each for each in spec.values if each.casefold() not in value.casefold())
    return KnownSlot(setting.name, named, spec.kind.value, (value,), others)


def _switch_words(named: str, value: str) -> tuple[str, ...]:
    turned = "off" if value == OFF else "on"
    return (f"turn {turned} {named}", f"switch {turned} {named}")


def navigation_words(graph: AppGraph, way: Sequence[RouteMove], going: str) -> tuple[str, ...]:
    """Describe moves between pages: go to the last page that its name identifies, then press what leads on.

    Args:
        graph: the graph.
        way: moves that only lead to other pages.
        going: the verb, e.g. `go to`.
    """
    named = [number for number, move in enumerate(way) if is_nearest_of_its_name(graph, move.transition.to)]
    last = named[-1] if named else -1
    first = (f"{going} {page_name(graph, way[last].transition.to)}",) if named else ()
    return (*first, *(pressing(graph, move) for move in way[last + 1 :]))


def pressing(graph: AppGraph, move: RouteMove) -> str:
    """Word a move as the end of `I want you to ...`; empty for a slot that is operated."""
    element = graph.pages[move.page].elements.get(move.transition.by)
    does = move.transition.does or (written(element.does) if element else "")
    pressed = _pressed_name(graph, move)
    return as_wish(does) if does else f"press {pressed}" if pressed else ""


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
