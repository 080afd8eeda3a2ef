"""Routes through the graph of an app whose end can be checked, and the values on them (GUI-Owl 6.2, step 1)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice, product
from random import Random
from typing import Any, NamedTuple

import networkx as nx

from trajmill.stages.graphs.base import AppGraph, Feature, GraphSlot, GraphTransition, SlotKind
from trajmill.stages.graphs.network import walkable
from trajmill.stages.graphs.operations import OFF, ON, staying
from trajmill.stages.graphs.plain_does import has_no_words

DEPTH = 5
"""Most transitions on the way to a page."""
_WAYS = 3
"""Most ways to one page; the shortest ones."""
_WAYS_LOOKED_AT = 200
_REPEATS = 2
"""Most transitions that stay on the last page."""
_SET_TOGETHER = 2
"""Most slots that are set on the last page."""
_MOST_SAMPLES = 60
"""Most samples of one route."""
_MOST_COMBINATIONS = 20_000
VISIT = "visit"
"""The task of visiting a page."""
_PLACE = re.compile(r"\{([a-z0-9][a-z0-9_-]*)\}")


class Setting(NamedTuple):
    """A slot of a page and the value that is asked for."""

    name: str
    """Its name on the query, unique there: the slot's name, with a number where a route sets a slot again."""
    page: str
    slot: str
    value: str

    def spec(self, graph: AppGraph) -> GraphSlot:
        """The slot in its graph."""
        return graph.pages[self.page].slots[self.slot]


class RouteMove(NamedTuple):
    """One transition of a route, with the values that it needs."""

    page: str
    """The page that it begins at."""
    transition: GraphTransition
    settings: tuple[Setting, ...] = ()

    @property
    def values(self) -> dict[str, str]:
        """By slot of the page, the wanted value."""
        return {setting.slot: setting.value for setting in self.settings}


class Route(NamedTuple):
    """A way through a graph from its start, still without values."""

    graph: AppGraph
    moves: tuple[RouteMove, ...]
    final: tuple[str, ...] = ()
    """Slots to set on the last page."""

    @property
    def end(self) -> str:
        """The last page."""
        return self.moves[-1].transition.to if self.moves else self.graph.start


class RouteSample(NamedTuple):
    """A route and the values on it, for one goal."""

    graph: AppGraph
    moves: tuple[RouteMove, ...]
    final: tuple[Setting, ...]
    """The values to set on the last page."""
    end: str
    """The last page."""
    task: str
    """Name of the task; its samples differ in values alone."""

    @property
    def settings(self) -> tuple[Setting, ...]:
        """All values, in the order in which they are set."""
        return (*(setting for move in self.moves for setting in move.settings), *self.final)

    @property
    def acts(self) -> tuple[RouteMove, ...]:
        """The moves that do more than to lead to another page."""
        return tuple(move for move in self.moves if move.settings or move.transition.to == move.page)

    @property
    def parts(self) -> int:
        """Number of actions and values that the instruction must name."""
        return max(1, len(self.acts) + len(self.final))

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """Equal for samples of a task that ask for the same thing."""
        named = self.graph.pages[self.end].title or self.end.replace("-", " ")
        # Pages of one name cannot be told apart in words, so they are one goal.
        return tuple((setting.name, setting.value) for setting in self.settings) or (("page", named),)


def samples_by_task(graph: AppGraph, seed: int) -> dict[str, tuple[RouteSample, ...]]:
    """The samples of a graph by task, in the order of the tasks' pages; each goal once, by its shortest route."""
    found: dict[str, dict[tuple[tuple[str, str], ...], RouteSample]] = defaultdict(dict)
    for route in sorted(routes(graph), key=lambda route: len(route.moves)):
        rng = Random(f"{seed} {task_of(route)} {len(route.moves)}")
        if not _is_asked(route):
            continue
        for sample in _samples(route, rng):
            found[sample.task].setdefault(sample.key, sample)
    return {task: tuple(goals.values()) for task, goals in found.items()}


def _is_asked(route: Route) -> bool:
    """Whether an instruction can name the route: a page that is only visited needs a name that no nearer page has."""
    return task_of(route) != f"{route.graph.app}.{VISIT}" or is_nearest_of_its_name(route.graph, route.end)


def task_of(route: Route) -> str:
    """The name of a route's task: `app.visit`, or the last page with all that is done on the way."""
    acts = [move.transition.by or move.transition.keys for move in route.moves if is_act(route, move)]
    sets = [f"set-{slot}" for slot in route.final]
    if not (acts or sets):
        return f"{route.graph.app}.{VISIT}"
    return f"{route.graph.app}.{route.end}-{'-'.join((*acts, *sets))}"


def is_act(route: Route, move: RouteMove) -> bool:
    """Whether a move does more than to go to another page."""
    return bool(slots_of(route, move)) or move.transition.to == move.page


def _samples(route: Route, rng: Random) -> list[RouteSample]:
    places = places_of(route)
    offered = [values_of(route.graph.pages[page].slots[slot]) for page, slot in places]
    combinations = list(islice(product(*offered), _MOST_COMBINATIONS))
    # By chance, so that the splits do not follow the order of lists.
    chosen = rng.sample(combinations, min(len(combinations), _MOST_SAMPLES))
    return [sample_of(route, values) for values in chosen if _all_differ(route, values)]


def places_of(route: Route) -> list[tuple[str, str]]:
    """The slots that a route sets, in their order: pairs of page and slot."""
    places = [(move.page, slot) for move in route.moves for slot in slots_of(route, move)]
    return places + [(route.end, slot) for slot in route.final]


def values_of(slot: GraphSlot) -> tuple[str, ...]:
    """The values of a slot without its default."""
    offered = (ON, OFF) if slot.kind is SlotKind.SWITCH else slot.values
    default = slot.default or (OFF if slot.kind is SlotKind.SWITCH else "")
    return tuple(value for value in dict.fromkeys(offered) if value and value != default)


def _all_differ(route: Route, values: Sequence[str]) -> bool:
    """Whether a slot that is set twice on the way gets two values, in a fixed order, so that no goal is drawn twice.

    It is the same slot where pages have it in common, and a goal would not tell that one value was entered twice.
    """
    by_slot: dict[tuple[str, str], list[str]] = defaultdict(list)
    on_the_way = len(values) - len(route.final)
    for (page, slot), value in zip(places_of(route)[:on_the_way], values[:on_the_way], strict=True):
        by_slot[slot, route.graph.pages[page].slots[slot].target].append(value)
    return all(given == sorted(set(given)) for given in by_slot.values() if len(given) > 1)


def sample_of(route: Route, values: Sequence[str]) -> RouteSample:
    """A route with a value for each of its places, in their order."""
    seen: Counter[str] = Counter()
    settings: list[Setting] = []
    for (page, slot), value in zip(places_of(route), values, strict=True):
        seen[slot] += 1
        name = slot if seen[slot] == 1 else f"{slot}_{seen[slot]}"
        settings.append(Setting(name.replace("-", "_"), page, slot, value))
    left = iter(settings)
    moves = tuple(move._replace(settings=tuple(islice(left, len(slots_of(route, move))))) for move in route.moves)
    return RouteSample(route.graph, moves, tuple(left), route.end, task_of(route))


def routes(graph: AppGraph) -> tuple[Route, ...]:
    """Return all routes: to a page, to a change on it, and to values that are set on it.

    Nothing that leaves the app, destroys something or needs a log-in is on a route. A route is left out if the screen
    at its end does not tell its values, because then no check could tell right from wrong; if something is entered
    on the way that no instruction asks for; or if it presses what has no name.
    """
    allowed = walkable(graph)
    found = [route for page in graph.pages for way in _ways(allowed, graph, page) for route in _from(allowed, way)]
    return tuple(route for route in found if checks_values(route) and _can_be_asked(route))


def routes_to(graph: AppGraph, page: str) -> tuple[Route, ...]:
    """The shortest ways from the start to a page, without anything that is done there."""
    return tuple(_ways(walkable(graph), graph, page))


def _ways(allowed: nx.MultiDiGraph[str], graph: AppGraph, page: str) -> Iterator[Route]:
    """The shortest ways from the start to a page."""
    if page == graph.start:
        yield Route(graph, ())
        return
    if not nx.has_path(allowed, graph.start, page):
        return
    longest = min(DEPTH, int(nx.shortest_path_length(allowed, graph.start, page)) + 1)
    ways: Iterator[Any] = nx.all_simple_edge_paths(allowed, graph.start, page, cutoff=longest)
    for way in sorted(islice(ways, _WAYS_LOOKED_AT), key=len)[:_WAYS]:
        yield Route(graph, tuple(RouteMove(first, _transition(allowed, first, last, key)) for first, last, key in way))


def _from(allowed: nx.MultiDiGraph[str], way: Route) -> Iterator[Route]:
    """The routes that a way to a page gives."""
    page = way.graph.pages[way.end]
    if way.moves and page.recognise.shows:
        yield way
    staying: Mapping[Any, Any] = allowed.get_edge_data(way.end, way.end, default={})
    loops = [RouteMove(way.end, data["transition"]) for data in staying.values() if _changes(data["transition"])]
    for number in range(1, _REPEATS + 1):
        for chosen in combinations(loops * number, number):
            if any(_exclude(one.transition, other.transition) for one, other in combinations(chosen, 2)):
                continue
            yield way._replace(moves=(*way.moves, *chosen))
    used = {slot for move in loops for slot in (*move.transition.slots, move.transition.by)}
    settable = [name for name, slot in page.slots.items() if slot.kind is not SlotKind.LIST and name not in used]
    for number in range(1, _SET_TOGETHER + 1):
        for slots in combinations(settable, number):
            yield way._replace(final=slots)


def _transition(allowed: nx.MultiDiGraph[str], first: str, last: str, key: int) -> GraphTransition:
    found: GraphTransition = allowed.get_edge_data(first, last)[key]["transition"]
    return found


def _exclude(first: GraphTransition, second: GraphTransition) -> bool:
    """Whether two transitions have conflicting effects, or the second one adds nothing."""
    if first == second:
        return not (first.slots or any("{" in f"{each.text}{each.value}" for each in first.shows))
    if set(first.shows) & set(second.lacks) or set(first.lacks) & set(second.shows):
        return True
    return any(_differ(one, other) for one in first.shows for other in second.shows)


def _differ(first: Feature, second: Feature) -> bool:
    """Whether two features contradict each other about one element."""
    if not first.id or (first.role, first.id) != (second.role, second.id):
        return False
    told = ((first.text, second.text), (first.value, second.value))
    return any(None not in pair and pair[0] != pair[1] and "{" not in f"{pair}" for pair in told)


def _can_be_asked(route: Route) -> bool:
    pages = route.graph.pages
    nameless = any(has_no_words(move.page, pages[move.page], move.transition) for move in route.moves)
    return not (nameless or _enters_unasked(route))


def _enters_unasked(route: Route) -> bool:
    """Whether a move first does something on its page for which a value must be chosen."""
    for move in route.moves:
        page = route.graph.pages[move.page]
        for name in move.transition.after:
            before = staying(page, move.page).get(name)
            is_field = name in page.slots and page.slots[name].kind is SlotKind.FIELD
            if is_field or (before and (before.slots or before.by in page.slots)):
                return True
    return False


def _changes(transition: GraphTransition) -> bool:
    return bool(transition.shows or transition.lacks or transition.goal)


def checks_values(route: Route) -> bool:
    """Whether the last screen, or the environment's own goal, shows every value that is set on the way."""
    return all(set(slots_of(route, move)) <= _shown_slots(move) for move in route.moves)


def slots_of(route: Route, move: RouteMove) -> tuple[str, ...]:
    """The slots that a move needs, the pressed one last."""
    page = route.graph.pages[move.page]
    pressed = (move.transition.by,) if move.transition.by in page.slots else ()
    return tuple(dict.fromkeys((*move.transition.slots, *pressed)))


def is_nearest_of_its_name(graph: AppGraph, page: str) -> bool:
    """Whether a page is the nearest to the start of all pages with its name."""
    distances: dict[str, int] = nx.single_source_shortest_path_length(walkable(graph), graph.start)
    named = page_name(graph, page)
    same = [other for other in graph.pages if other in distances and page_name(graph, other) == named]
    return page == min(same, key=lambda other: distances[other], default=page)


def app_name(graph: AppGraph) -> str:
    """The name of an app in instructions."""
    return graph.title or graph.app


def page_name(graph: AppGraph, page: str) -> str:
    """The name of a page in instructions."""
    return graph.pages[page].title or page.replace("-", " ")


def slot_names(feature: Feature) -> list[str]:
    """The slots whose values a feature names."""
    return _PLACE.findall(f"{feature.text or ''} {feature.value or ''}")


def _shown_slots(move: RouteMove) -> set[str]:
    shown = {name for feature in move.transition.shows for name in slot_names(feature)}
    return shown | set(_PLACE.findall(texts_of(move.transition.goal)))


def texts_of(goal: Any) -> str:
    """All keys and texts of a goal."""
    match goal:
        case Mapping():
            return " ".join(f"{key} {texts_of(each)}" for key, each in goal.items())
        case [*items]:
            return " ".join(map(texts_of, items))
        case _:
            return str(goal)
