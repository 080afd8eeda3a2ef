"""Words routes: the facts for a language model, and the templates of the embedded grammar (GUI-Owl 6.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from trajmill.stages.environments.simulated.annotations import KnownSlot, PageMetadata, PathMetadata, SlotValue
from trajmill.stages.graphs.base import AppGraph, GraphTransition, SlotKind
from trajmill.stages.graphs.operations import OFF, ON
from trajmill.stages.graphs.plain_does import written
from trajmill.stages.queries.base import GoalFacts, Written
from trajmill.stages.queries.explicit import explicit_instruction
from trajmill.stages.queries.graph.routes import (
    RouteMove,
    RouteSample,
    Setting,
    app_name,
    is_nearest_of_its_name,
    page_name,
)
from trajmill.stages.queries.templates import packaged_phrasings, parse_template, tidy

_VISIT, _OPEN, _DO = "visit", "open", "do"
_VERSION = "live-grammar-3"


class Wish(NamedTuple):
    """What is to be done, as the end of `I want you to ...`."""

    text: str
    said: dict[str, str]
    """By slot, the words for its value."""


def route_facts(sample: RouteSample) -> GoalFacts:
    """The facts for a language model; a route without values asks for its last page."""
    slots = tuple(known_slot(sample.graph, setting) for setting in sample.settings)
    page = KnownSlot("page", "page", "list", (page_name(sample.graph, sample.end),), ())
    return GoalFacts(path_metadata(sample), slots or (page,))


def worded_route(sample: RouteSample, heldout: bool, seed: int) -> Written:
    """Draw a template of `phrasings.yaml` and the words of the wish."""
    rng = Random(seed)
    kind, words, said = _content(sample, rng)
    template = packaged_phrasings(__package__)[kind].draw(heldout, rng)
    text = parse_template(template.text, sample.task).expand(words, rng)
    raw = explicit_instruction(path_metadata(sample))
    return Written(raw, tidy(text), f"{sample.task}/{template.id}", said, _VERSION)


def _content(sample: RouteSample, rng: Random) -> tuple[str, dict[str, str], dict[str, str]]:
    """The kind of template, the words for it, and by slot the words for its value."""
    app = {"app": app_name(sample.graph)}
    acts = sample.acts
    if not (acts or sample.final):
        page = page_name(sample.graph, sample.end)
        return _VISIT, {**app, "page": page}, {"page": page}
    if _opens_item(sample, acts):
        (setting,) = acts[0].settings
        return _OPEN, {**app, "item": setting.value}, {setting.name: setting.value}
    wishes = [*_moves(sample, rng), *(wish_for(sample, setting, rng) for setting in sample.final)]
    said = {name: words for wish in wishes for name, words in wish.said.items()}
    return _DO, {**app, "wish": " and ".join(wish.text for wish in wishes)}, said


def _opens_item(sample: RouteSample, acts: Sequence[RouteMove]) -> bool:
    """Whether the route only opens an item of a list, without a sentence about it."""
    if len(acts) != 1 or sample.final or len(acts[0].settings) != 1 or acts[0].transition.does:
        return False
    return acts[0].settings[0].spec(sample.graph).kind is SlotKind.LIST and acts[0].transition.to != acts[0].page


def _moves(sample: RouteSample, rng: Random) -> Iterator[Wish]:
    """What is done on the way, each after the way to its page; then the way to the last page."""
    acts, way = sample.acts, list[RouteMove]()
    for move in sample.moves:
        if move in acts:
            yield from _way(sample, way, rng)
            yield _act(sample, move, rng)
            way = []
        else:
            way.append(move)
    yield from _way(sample, way, rng)


def _way(sample: RouteSample, way: Sequence[RouteMove], rng: Random) -> Iterator[Wish]:
    if way:
        going = rng.choice(("go to", "open", "get to"))
        yield from (Wish(words, {}) for words in navigation_words(sample.graph, way, going))


def _act(sample: RouteSample, move: RouteMove, rng: Random) -> Wish:
    """The wish for a transition: what it does, with the values that this does not name added."""
    text = pressing(sample.graph, move)
    said: dict[str, str] = {}
    left: list[Wish] = []
    for setting in move.settings:
        place = f"{{{setting.slot}}}"
        if place in text:
            text = text.replace(place, _quoted(sample, setting))
            said[setting.name] = setting.value
        else:
            left.append(wish_for(sample, setting, rng))
    before = [wish.text for wish in left]
    said |= {name: words for wish in left for name, words in wish.said.items()}
    then = [f"then {text}" if before else text] if text else []
    return Wish(", ".join([*before, *then]), said)


def wish_for(sample: RouteSample, setting: Setting, rng: Random) -> Wish:
    """The wish for one value."""
    named = label(sample.graph, setting)
    match setting.spec(sample.graph).kind:
        case SlotKind.SWITCH:
            words = rng.choice(switch_words(named, setting.value))
            return Wish(words, {setting.name: words})
        case SlotKind.FIELD:
            return Wish(f'{rng.choice(("put", "enter"))} "{setting.value}" into {named}', {setting.name: setting.value})
        case SlotKind.CHOICE | SlotKind.SLIDER if setting.spec(sample.graph).name:
            return Wish(f"{rng.choice(('set', 'change'))} {named} to {setting.value}", {setting.name: setting.value})
        case _:
            return Wish(f"{rng.choice(('choose', 'pick'))} {setting.value}", {setting.name: setting.value})


def _quoted(sample: RouteSample, setting: Setting) -> str:
    """A value in a sentence; typed text is quoted."""
    return f'"{setting.value}"' if setting.spec(sample.graph).kind is SlotKind.FIELD else setting.value


def page_description(graph: AppGraph, page: str) -> str:
    """The content and purpose of a page; its name if nobody has described it."""
    return graph.pages[page].description or f"{page_name(graph, page)} of {app_name(graph)}"


def label(graph: AppGraph, setting: Setting) -> str:
    """What people call a slot."""
    return setting.spec(graph).name or setting.slot.replace("-", " ")


def pressed_name(graph: AppGraph, page: str, transition: GraphTransition) -> str:
    """What people call the element of a transition; its keys for one without an element, if it has any."""
    element = graph.pages[page].elements.get(transition.by)
    if element is None:
        return transition.keys
    name = element.name or transition.by.replace("-", " ")
    # A sentence would swallow a name such as `.` or `+`.
    return name if any(letter.isalnum() for letter in name) else f'"{name}"'


def path_metadata(sample: RouteSample) -> PathMetadata:
    """The facts about the route of a sample."""
    graph = sample.graph
    pages = [
        PageMetadata(
            f"{graph.app}.{move.page}",
            app_name(graph),
            page_description(graph, move.page),
            tuple(_value(graph, setting) for setting in move.settings),
            pressed_name(graph, move.page, move.transition),
        )
        for move in sample.moves
    ]
    last = tuple(_value(graph, setting) for setting in sample.final)
    pages.append(
        PageMetadata(f"{graph.app}.{sample.end}", app_name(graph), page_description(graph, sample.end), last, "")
    )
    constraints = tuple(_value(graph, setting) for setting in sample.settings)
    return PathMetadata(sample.task, _description(sample), graph.platform, tuple(pages), constraints)


def _description(sample: RouteSample) -> str:
    done = [move.transition.does for move in sample.moves if move.transition.does]
    return " ".join(done) or f"Get to {page_name(sample.graph, sample.end)} in {app_name(sample.graph)}."


def _value(graph: AppGraph, setting: Setting) -> SlotValue:
    return SlotValue(
        name=setting.name,
        page=f"{graph.app}.{setting.page}",
        label=label(graph, setting),
        kind=setting.spec(graph).kind.value,
        value=setting.value,
        words=(setting.value,),
        optional=False,
        carried_from="",
    )


def known_slot(graph: AppGraph, setting: Setting) -> KnownSlot:
    """The words for a value that the user asks for."""
    spec, named = setting.spec(graph), label(graph, setting)
    if spec.kind is SlotKind.SWITCH:
        # The check reads a `not` before an option as a mistake, so an option that is wanted off is a choice of words.
        kind = "switch" if setting.value == ON else "choice"
        words = switch_words(named, setting.value)
        return KnownSlot(setting.name, named, kind, (named,) if setting.value == ON else words, ())
    others = _others(spec.values, setting.value)
    return KnownSlot(setting.name, named, spec.kind.value, (setting.value,), others)


def switch_words(named: str, value: str) -> tuple[str, ...]:
    """Phrases that ask to turn an option on or off."""
    if value == OFF:
        return (f"turn off {named}", f"switch off {named}")
    return (f"turn on {named}", f"switch on {named}")


def _others(values: Sequence[str], wanted: str) -> tuple[str, ...]:
    """The other values of a slot, without those that are a part of the wanted one."""
    return tuple(value for value in values if value.casefold() not in wanted.casefold())


def navigation_words(graph: AppGraph, way: Sequence[RouteMove], going: str) -> tuple[str, ...]:
    """Describe moves between pages: go to the last page that its name identifies, then press what leads on.

    Args:
        graph: the graph.
        way: moves that do nothing but lead to other pages.
        going: the verb, e.g. `go to`.
    """
    named = [number for number, move in enumerate(way) if is_nearest_of_its_name(graph, move.transition.to)]
    last = named[-1] if named else -1
    first = (f"{going} {page_name(graph, way[last].transition.to)}",) if named else ()
    return (*first, *(pressing(graph, move) for move in way[last + 1 :]))


def pressing(graph: AppGraph, move: RouteMove) -> str:
    """What a move does, as the end of `I want you to ...`; empty if it is a slot that is operated."""
    element = graph.pages[move.page].elements.get(move.transition.by)
    does = move.transition.does or (written(element.does) if element else "")
    pressed = pressed_name(graph, move.page, move.transition)
    return as_wish(does) if does else f"press {pressed}" if pressed else ""


def as_wish(does: str) -> str:
    """A sentence about an element as a wish: `Adds the entry.` is `add the entry`."""
    first, _, rest = does.strip().rstrip(".").partition(" ")
    verb = first[:1].lower() + first[1:]
    if verb.endswith("ies") and len(verb) > 4:
        verb = f"{verb[:-3]}y"
    elif verb.endswith(("sses", "shes", "ches", "xes", "zes", "oes")):
        verb = verb[:-2]
    elif verb.endswith("s") and not verb.endswith("ss"):
        verb = verb[:-1]
    return f"{verb} {rest}".strip()
