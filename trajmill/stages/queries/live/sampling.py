"""Draws the values of routes, and groups the samples by task (GUI-Owl 6.2, step 1)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import islice, product
from random import Random

from trajmill.stages.graphs.base import AppGraph, GraphSlot, SlotKind
from trajmill.stages.graphs.operations import OFF, ON
from trajmill.stages.queries.live.base import LiveSample, Route, RouteMove, Setting
from trajmill.stages.queries.live.goal import slots_of
from trajmill.stages.queries.live.routes import routes
from trajmill.stages.queries.live.way import is_told_by_name

_MOST_SAMPLES = 60
"""Most samples of one route."""
_MOST_COMBINATIONS = 20_000
VISIT = "visit"
"""The task whose samples each ask for one page."""


def samples_by_task(graph: AppGraph, seed: int) -> dict[str, tuple[LiveSample, ...]]:
    """The samples of a graph by task, in the order of the tasks' pages; each goal once, by its shortest route."""
    found: dict[str, dict[tuple[tuple[str, str], ...], LiveSample]] = defaultdict(dict)
    for route in sorted(routes(graph), key=lambda route: len(route.moves)):
        rng = Random(f"{seed} {task_of(route)} {len(route.moves)}")
        if not _is_asked(route):
            continue
        for sample in _samples(route, rng):
            found[sample.task].setdefault(sample.key, sample)
    return {task: tuple(goals.values()) for task, goals in found.items()}


def _is_asked(route: Route) -> bool:
    """Whether words can ask for a page that is only visited: another page may have its name, and be nearer."""
    return task_of(route) != f"{route.graph.app}.{VISIT}" or is_told_by_name(route.graph, route.end)


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


def _samples(route: Route, rng: Random) -> list[LiveSample]:
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
    """The values that can be asked for: all but the default."""
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


def sample_of(route: Route, values: Sequence[str]) -> LiveSample:
    """A route with a value for each of its places, in their order."""
    seen: Counter[str] = Counter()
    settings: list[Setting] = []
    for (page, slot), value in zip(places_of(route), values, strict=True):
        seen[slot] += 1
        name = slot if seen[slot] == 1 else f"{slot}_{seen[slot]}"
        settings.append(Setting(name.replace("-", "_"), page, slot, value))
    left = iter(settings)
    moves = tuple(move._replace(settings=tuple(islice(left, len(slots_of(route, move))))) for move in route.moves)
    return LiveSample(route.graph, moves, tuple(left), route.end, task_of(route))
