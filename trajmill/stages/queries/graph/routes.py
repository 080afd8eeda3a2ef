"""Routes through the graph of an app whose end can be checked, and the values on them (GUI-Owl 6.2, step 1)."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice, product
from random import Random
from typing import Any, NamedTuple

import networkx as nx

from trajmill.stages.environments.simulated.annotations import KnownSlot
from trajmill.stages.graphs.asked import in_forms, why_not
from trajmill.stages.graphs.base import PLACE, AppGraph, GraphSlot, GraphTransition, Mark, SlotKind, ValueType
from trajmill.stages.graphs.network import marks_on_way, walkable
from trajmill.stages.graphs.operations import BOX_OF, OFF, ON, staying
from trajmill.stages.graphs.recognise import filled
from trajmill.stages.graphs.sentences import starts_with_verb, turns_page
from trajmill.stages.graphs.values import values_of

DEPTH = 5
_WAYS = 3
_WAYS_LOOKED_AT = 200
_REPEATS = 2
"""Most transitions that stay on the last page."""
_SET_TOGETHER = 2
"""Most slots that are set on the last page."""
_MOST_OF_FORMS = 2
"""Most values of forms that are asked for beside something else."""
_MOST_SAMPLES = 240
_MOST_COMBINATIONS = 20_000


class Wish(NamedTuple):
    text: str
    said: dict[str, str] = {}


class Setting(NamedTuple):
    page: str
    slot: str
    spec: GraphSlot
    name: str = ""
    """Its unique name on the query: the slot's name, with a number where a route sets a slot again."""
    value: str = ""

    @property
    def label(self) -> str:
        return self.spec.name.rstrip(": ") or self.slot.replace("-", " ")

    def wish(self, rng: Random) -> Wish:
        label, value = self.label, self.value
        match self.spec.kind:
            case SlotKind.SWITCH:
                words = rng.choice(self._switch_words)
                return Wish(words, {self.name: words})
            case SlotKind.KEYPAD:
                text = f"{rng.choice(('work out', 'calculate'))} {value}"
            case SlotKind.FIELD if self.spec.type is ValueType.SEARCH:
                text = f'{rng.choice(("search for", "look for"))} "{value}"'
            case SlotKind.FIELD if self.spec.is_nameless:
                text = f'{rng.choice(("write", "type"))} "{value}"'
            case SlotKind.FIELD:
                text = f'{rng.choice(("put", "enter"))} "{value}" into {label}'
            case SlotKind.CHOICE if value.isdecimal() and label.casefold().startswith("show "):
                text = f"show {value} {label[5:]}"
            case SlotKind.CHOICE | SlotKind.SLIDER if self.spec.name:
                text = f"{rng.choice(('set', 'change'))} {label} to {value}"
            case _:
                text = f"{rng.choice(('choose', 'pick'))} {value}"
        return Wish(text, {self.name: value})

    @property
    def known(self) -> KnownSlot:
        """The words that an instruction must and must not have."""
        if self.spec.kind is SlotKind.SWITCH:
            # The check reads a `not` before an option as a mistake, so an option wanted off is a choice of words.
            words = (self.label,) if self.value == ON else self._switch_words
            return KnownSlot(self.name, self.label, "switch" if self.value == ON else "choice", words, ())
        # An instruction with the wanted value has its parts too, so they do not count as other values.
        others = tuple(each for each in self.spec.values if each.casefold() not in self.value.casefold())
        return KnownSlot(self.name, self.label, self.spec.kind.value, (self.value,), others)

    @property
    def _switch_words(self) -> tuple[str, ...]:
        if self.value == ON and starts_with_verb(self.label) and not self.spec.name.endswith(":"):
            return (self.label[:1].lower() + self.label[1:],)
        on, off = ("turn on", "switch on"), ("turn off", "switch off")
        if self.label.startswith(BOX_OF):
            on, off = ("tick the", "check the"), ("untick the", "uncheck the")
        return tuple(f"{verb} {self.label}" for verb in (off if self.value == OFF else on))


class RouteMove(NamedTuple):
    page: str
    transition: GraphTransition
    settings: tuple[Setting, ...] = ()
    """The slots that it needs, the pressed one last."""

    @property
    def values(self) -> dict[str, str]:
        return {setting.slot: setting.value for setting in self.settings}

    @property
    def shown(self) -> set[str]:
        """The slots whose values stand on the page afterwards."""
        return {slot for feature in self.transition.shows for slot in feature.slots}


class Route(NamedTuple):
    """A way through a graph from its start; the values of its settings may still be missing."""

    graph: AppGraph
    moves: tuple[RouteMove, ...]
    final: tuple[Setting, ...] = ()

    @property
    def end(self) -> str:
        return self.moves[-1].transition.to if self.moves else self.graph.start

    @property
    def settings(self) -> tuple[Setting, ...]:
        return (*(setting for move in self.moves for setting in move.settings), *self.final)

    @property
    def acts(self) -> tuple[RouteMove, ...]:
        return tuple(move for move in self.moves if move.settings or move.transition.to == move.page)

    @property
    def parts(self) -> int:
        return len(self.acts) + len(self.final)

    @property
    def task(self) -> str:
        """Name of its task: `app.visit`, or the last page with all that is done on the way."""
        done = [move.transition.by or move.transition.keys for move in self.acts]
        done += [f"set-{setting.slot}" for setting in self.final]
        return f"{self.graph.app}.{'-'.join((self.end, *done)) if done else 'visit'}"

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """Equal for samples of a task that ask for the same thing."""
        # Words cannot tell pages with the same name apart, so these are one goal.
        done = [("does", move.transition.by) for move in self.acts if not move.settings]
        done += [(setting.name, setting.value) for setting in self.settings]
        return tuple(done) or (("page", self.graph.name_of(self.end)),)

    def tells_apart(self, values: Sequence[str]) -> bool:
        """Whether a slot that is set twice on the way gets two values in a fixed order: no goal repeats otherwise."""
        by_slot: dict[tuple[str, str], list[str]] = defaultdict(list)
        for setting, value in zip(self.settings[: len(values) - len(self.final)], values, strict=False):
            by_slot[setting.slot, setting.spec.target].append(value)
        return all(given == sorted(set(given)) for given in by_slot.values() if len(given) > 1)

    def with_values(self, values: Sequence[str]) -> Route:
        seen: Counter[str] = Counter()
        settings: list[Setting] = []
        for setting, value in zip(self.settings, values, strict=True):
            seen[setting.slot] += 1
            name = setting.slot if seen[setting.slot] == 1 else f"{setting.slot}_{seen[setting.slot]}"
            settings.append(setting._replace(name=name.replace("-", "_"), value=value))
        left = iter(settings)
        moves = tuple(move._replace(settings=tuple(islice(left, len(move.settings)))) for move in self.moves)
        return Route(self.graph, moves, tuple(left))


def _move(graph: AppGraph, page: str, transition: GraphTransition) -> RouteMove:
    slots = graph.pages[page].slots
    needed = dict.fromkeys((*transition.slots, *((transition.by,) if transition.by in slots else ())))
    return RouteMove(page, transition, tuple(Setting(page, slot, slots[slot]) for slot in needed))


def samples_by_task(graph: AppGraph, seed: int) -> dict[str, tuple[Route, ...]]:
    """Return the samples of a graph by task, in page order; each goal once, by its shortest route."""
    found: dict[str, dict[tuple[tuple[str, str], ...], Route]] = defaultdict(dict)
    for route in sorted(routes(graph), key=lambda route: len(route.moves)):
        rng = Random(f"{seed} {route.task} {len(route.moves)}")
        # An instruction can only name a page to visit if no nearer page has its name.
        if route.task == f"{graph.app}.visit" and not is_nearest(graph, route.end):
            continue
        # By chance: otherwise the splits would follow the order of lists.
        for values in _drawn([values_of(setting.spec, route.parts == 1) for setting in route.settings], rng):
            if route.tells_apart(values):
                sample = route.with_values(values)
                found[sample.task].setdefault(sample.key, sample)
    return {task: _mixed(tuple(goals.values()), seed) for task, goals in found.items()}


def _mixed(goals: tuple[Route, ...], seed: int) -> tuple[Route, ...]:
    """Return the samples of a task; those of a form by chance, so that each split has all its parts."""
    if not any(move.transition.submits for move in goals[0].moves):
        return goals
    return tuple(Random(f"{seed} {goals[0].task}").sample(goals, len(goals)))


def _drawn(offered: Sequence[Sequence[str]], rng: Random) -> Iterator[tuple[str, ...]]:
    if math.prod(map(len, offered)) > _MOST_COMBINATIONS:
        yield from (tuple(map(rng.choice, offered)) for _ in range(_MOST_SAMPLES))
        return
    every = list(product(*offered))
    yield from rng.sample(every, min(len(every), _MOST_SAMPLES))


def can_be_seen_before(move: RouteMove) -> bool:
    """Whether the screen before a form is sent shows what it was filled with, and its effect can be seen after."""
    transition = move.transition
    has_effect = bool(transition.shows or transition.lacks or transition.goal) or transition.to != move.page
    is_sent = transition.submits and transition.operation != "key"
    return is_sent and has_effect and all(each.spec.kind is not SlotKind.LIST for each in move.settings)


def routes(graph: AppGraph) -> tuple[Route, ...]:
    """Return all routes whose end shows their values: to a page, to a change on it, and to values set on it.

    No route leaves the app, destroys something, needs a log-in, presses what has no name, or enters what none asks for.
    A form is filled and sent, or left alone.
    """
    allowed = walkable(graph)
    ways = (way for page in graph.pages for way in routes_to(allowed, graph, page) if _needs_items(allowed, way))
    found = (each for way in ways for route in _from(allowed, way) for each in _with_parts_of_forms(route))
    return tuple(route for route in found if _can_be_asked(route) and is_wish(route))


def _with_parts_of_forms(route: Route) -> Iterator[Route]:
    """Yield a route with each choice of what the last form gets: all of it, or its defaults but for one or none."""
    at = next((number for number, move in reversed([*enumerate(route.moves)]) if move.transition.submits), None)
    if at is None:
        yield route
        return
    move = route.moves[at]
    slots = route.graph.pages[move.page].slots
    switches = {name for name, slot in slots.items() if slot.kind is SlotKind.SWITCH}
    optional = [name for name in move.transition.slots if slots[name].default and name not in switches]
    for kept in dict.fromkeys(((), *((name,) for name in optional), tuple(optional))):
        left = {name: slots[name].default for name in optional if name not in kept}
        asked = tuple(name for name in move.transition.slots if name not in left)
        shows = tuple(filled(each, left) for each in move.transition.shows)
        transition = move.transition.model_copy(update={"slots": asked, "shows": shows})
        moves = (*route.moves[:at], _move(route.graph, move.page, transition), *route.moves[at + 1 :])
        if asked:
            yield route._replace(moves=moves)


def routes_to(allowed: nx.MultiDiGraph[str], graph: AppGraph, page: str) -> Iterator[Route]:
    """Yield the shortest ways from the start to a page, without anything that is done there."""
    if page == graph.start:
        yield Route(graph, ())
        return
    if not nx.has_path(allowed, graph.start, page):
        return
    longest = min(DEPTH, int(nx.shortest_path_length(allowed, graph.start, page)) + 1)
    ways: Iterator[Any] = nx.all_simple_edge_paths(allowed, graph.start, page, cutoff=longest)
    for way in sorted(islice(ways, _WAYS_LOOKED_AT), key=len)[:_WAYS]:
        edges = [(first, allowed.get_edge_data(first, last)[key]["transition"]) for first, last, key in way]
        yield Route(graph, tuple(_move(graph, first, transition) for first, transition in edges))


def _from(allowed: nx.MultiDiGraph[str], way: Route) -> Iterator[Route]:
    page = way.graph.pages[way.end]
    if way.moves and page.recognise.shows:
        yield way
    yield from _sent_back(way)
    loops_here: Mapping[Any, Any] = allowed.get_edge_data(way.end, way.end, default={})
    stays: list[GraphTransition] = [data["transition"] for data in loops_here.values()]
    loops = [_move(way.graph, way.end, each) for each in stays if each.shows or each.lacks or each.goal]
    for number in range(1, _REPEATS + 1):
        for chosen in combinations(loops * number, number):
            if not any(_exclude(one, other) for one, other in combinations(chosen, 2)):
                yield way._replace(moves=(*way.moves, *chosen))
    used = {slot for move in loops for slot in (*move.transition.slots, move.transition.by)}
    settable = [name for name, slot in page.slots.items() if slot.kind is not SlotKind.LIST and name not in used]
    sorts = [move for move in loops if move.transition.sorts]
    for number in range(1, _SET_TOGETHER + 1):
        for slots in combinations(settable, number):
            final = tuple(Setting(way.end, slot, page.slots[slot]) for slot in slots)
            yield way._replace(final=final)
            yield from (way._replace(moves=(*way.moves, move), final=final) for move in sorts if number == 1)


def _needs_items(allowed: nx.MultiDiGraph[str], way: Route) -> bool:
    """Whether a way opens an item of a list only to stay there, or where no shorter way leads to its end."""
    passed = (setting.spec.kind for move in way.moves[:-1] for setting in move.settings)
    shortest = nx.shortest_path_length(allowed, way.graph.start, way.end) if way.moves else 0
    return SlotKind.LIST not in passed or len(way.moves) <= int(shortest)


def _sent_back(way: Route) -> Iterator[Route]:
    """Yield a way with a form at its end that leads back to a page of the way, such as the list with the new entry.

    The item by which the form was opened is not asked for if nothing shows it.
    """
    passed = {way.graph.start, *(move.page for move in way.moves)}
    for each in way.graph.pages[way.end].transitions:
        if each.submits and each.to in passed and each.to != way.end and not marks_on_way(way.graph, way.end, each):
            moves = (move if move.settings and _is_told(move) else move._replace(settings=()) for move in way.moves)
            yield way._replace(moves=(*moves, _move(way.graph, way.end, each)))


def _is_told(move: RouteMove) -> bool:
    is_list = all(setting.spec.kind is SlotKind.LIST for setting in move.settings)
    return not is_list or not move.shown.isdisjoint(move.values)


def _exclude(one_move: RouteMove, other_move: RouteMove) -> bool:
    """Whether two moves have conflicting effects, or the second one adds nothing or takes the first one back."""
    first, second = one_move.transition, other_move.transition
    if first == second:
        if any(each.spec.kind is SlotKind.CHOICE or each.spec.type is ValueType.SEARCH for each in one_move.settings):
            return True
        return not (first.slots or any(each.is_open for each in first.shows))
    if (first.sorts and second.sorts) or set(first.shows) & set(second.lacks) or set(first.lacks) & set(second.shows):
        return True
    # Two features may contradict each other about one element.
    same = ((a, b) for a, b in product(first.shows, second.shows) if a.id and (a.role, a.id) == (b.role, b.id))
    told = (pair for a, b in same for pair in ((a.text, b.text), (a.value, b.value)))
    return any(None not in pair and pair[0] != pair[1] and "{" not in f"{pair}" for pair in told)


def is_wish(route: Route) -> bool:
    """Whether somebody would ask for it: no part of it is, by itself, what nobody asks for."""
    graph, looks = route.graph, any(each.spec.type is ValueType.SEARCH for each in route.settings)
    for setting in route.final:
        is_part = setting.slot in in_forms(graph, setting.page) or Mark.IDLE in setting.spec.marks
        # A search shows everything that it finds, so nobody also asks for a number of rows.
        is_part = is_part or (looks and all(map(str.isdecimal, setting.spec.values)))
        if is_part or _stands_nearer(graph, setting) or _is_vague(graph, setting):
            return False
    if any(why_not(graph, move.page, move.transition) is not None for move in route.acts):
        return False
    # Words cannot say where to enter a text if neither the field nor its page has a name.
    if any(each.spec.is_nameless and not is_nearest(graph, each.page) for move in route.acts for each in move.settings):
        return False
    pressed = [graph.pages[move.page].elements.get(move.transition.by) for move in route.acts]
    if any(each is not None and turns_page(each.name) for each in pressed[: route.parts - 1]):
        return False  # Sorting and searching begin at the first page of results again.
    marked = {Mark.IDLE, Mark.OPENS, Mark.AWAITS} & {*graph.pages[route.end].marks}
    is_told = not marked and graph.pages[route.end].title not in ("", graph.title)
    of_forms = sum(len(move.settings) for move in route.acts if move.transition.submits)
    alone = [move for move in route.acts if not move.settings and not move.transition.does]
    is_short = (of_forms <= _MOST_OF_FORMS or len(route.acts) == 1) and len(alone) < _REPEATS
    return is_short and bool(route.parts or is_told) and not _leaves_what_it_found(route)


def _leaves_what_it_found(route: Route) -> bool:
    """Whether a search is followed by a way to another page, rather than by the choice of what was found."""
    types = [{each.spec.type for each in move.settings} for move in route.moves]
    first = next((number for number, each in enumerate(types) if ValueType.SEARCH in each), len(types))
    return any(move not in route.acts for move in route.moves[first + 1 :])


def _is_vague(graph: AppGraph, setting: Setting) -> bool:
    """Whether nothing names it: a choice whose values another one of its page has, or one of two such fields."""
    others = [each for key, each in graph.pages[setting.page].slots.items() if key != setting.slot]
    is_choice = setting.spec.kind is SlotKind.CHOICE and not setting.spec.name
    alike = is_choice and any({*setting.spec.values} & {*each.values} for each in others)
    return alike or (setting.spec.is_nameless and any(each.is_nameless for each in others))


def _stands_nearer(graph: AppGraph, setting: Setting) -> bool:
    """Whether a slot can be set without opening a menu first, or before a page that nothing names."""
    page, name = graph.pages[setting.page], graph.name_of(setting.page)
    has_name = page.title and is_nearest(graph, setting.page)
    own, is_document = (setting.spec.target, setting.spec.opens), setting.spec.is_nameless
    same = [
        key
        for key, spec in graph.pages.items()
        if any(own == (each.target, each.opens) or (is_document and each.is_nameless) for each in spec.slots.values())
    ]
    before = same[: same.index(setting.page)]
    if Mark.OPENS in page.marks:
        return bool(before) or any(Mark.OPENS not in graph.pages[key].marks for key in same)
    return not has_name and any(not page.title or graph.name_of(key) == name for key in before)


def _can_be_asked(route: Route) -> bool:
    """Whether its moves have names and need no value for what comes before, and its goal shows its values."""
    for move in route.moves:
        page, transition = route.graph.pages[move.page], move.transition
        seen = move.shown.union(PLACE.findall(json.dumps(transition.goal)))
        if not (seen.issuperset(move.values) or can_be_seen_before(move)):
            return False
        for name in transition.after:
            before = staying(page, move.page).get(name)
            is_field = name in page.slots and page.slots[name].kind is SlotKind.FIELD
            if is_field or (before and (before.slots or before.by in page.slots)):
                return False
    return True


def is_nearest(graph: AppGraph, page: str) -> bool:
    """Whether a page is the nearest to the start of all pages with its name."""
    distances: dict[str, int] = nx.single_source_shortest_path_length(walkable(graph), graph.start)
    same = [other for other in graph.pages if other in distances and graph.name_of(other) == graph.name_of(page)]
    return page == min(same, key=lambda other: distances[other], default=page)
