"""The probe of an end state: a walk to the pages that must show what was asked for, and the channel that reads them.

An effect may show elsewhere than where the agent stopped. The walk only takes what the graph describes as going from
page to page, goes back, opens the app and scrolls. It reads screens, as an agent does, and no state behind them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import networkx as nx

from trajmill.schemas.actions import Action, Click, SystemButton
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.observation import Observation, ScreenReader, UIElement
from trajmill.schemas.tables.query import Platform, Query
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.app_graph import episode_on_graph as on_graph
from trajmill.stages.critics.app_graph.reading import first_error
from trajmill.stages.critics.replay import read_element_action, stored_evidence
from trajmill.stages.critics.voting import FULL, StepResult, Vote, vote_of
from trajmill.stages.environments.screen_goal import targets
from trajmill.stages.environments.simulated.reference_path import scroll_over
from trajmill.stages.graphs.base import PLACE, AppGraph, Feature, GraphTransition, Mark, SlotKind
from trajmill.stages.graphs.network import marks_on_way, network
from trajmill.stages.graphs.recognise import filled, is_on, page_on

_ENDS = ("scrollable_up", "scrollable_down")


class Fact(NamedTuple):
    """What a page must show once the task is done: the value of a slot, or an element."""

    page: str
    what: str
    """The name of the slot, or the element in words."""
    value: str = ""
    shows: Feature | None = None
    is_own: bool = False
    """Whether the element has a value of the query in its text, so that no other item's page shows it."""

    def holds(self, graph: AppGraph, seen: Observation) -> bool:
        if self.shows is not None:
            return is_on(self.shows, seen.elements or ())
        value = on_graph.value_on(graph.pages[self.page].slots[self.what], targets(seen.elements or ()))
        return value is not None and value.strip() == self.value.strip()


def facts_of(graph: AppGraph, asked: on_graph.AskedFor) -> Iterator[Fact | str]:
    """Yield the facts that show what was asked for, and the name of what has none, such as a text, maybe a draft."""
    settings = [(asked.end, *each) for each in asked.settings.items()]
    for page, way, values in asked.taken:
        shown = [(filled(each, values), each) for each in way.shows]
        facts = [Fact(way.to, repr(full.text or full.id), "", full, full != each) for full, each in shown]
        if on_graph.act_of(page, way) is not None or Mark.CHANGES in way.marks:
            yield from [fact for fact in facts if not PLACE.search(fact.what)] or (way.by or way.keys,)
        settings += [(page, *each) for each in values.items() if each[0] not in (*way.slots, way.by)]
    for page, name, value in settings:
        slot = graph.pages[page].slots.get(name)
        yield Fact(page, name, value) if slot and slot.kind not in (SlotKind.FIELD, SlotKind.LIST) else name


class _Looks:
    """The last screen of an attempt and those that a probe saw, and what they tell."""

    def __init__(self, graphs: Mapping[str, AppGraph], query: Query, seen: Sequence[Observation]) -> None:
        """Raises JudgeFailure if there is no graph with the query's last page."""
        app, _, page = query.pages[-1].partition(".") if query.pages else ("", "", "")
        graph = graphs.get(app) if query.apps[:1] == (app,) else None
        if graph is None or page not in graph.pages:
            raise JudgeFailure(f"{query.task}: no graph has its last page")
        found = list(facts_of(graph, on_graph.asked_for(graph, query)))
        # Later facts replace earlier ones about the same place on a page.
        places = {(f.page, (f.shows and f.shows.id) or f.what): f for f in found if isinstance(f, Fact)}
        self.facts, self.graph, self.seen = list(places.values()), graph, seen
        self.silent = [each if isinstance(each, str) else each.what for each in found if each not in self.facts]
        self.ways = network(graph, [each for each in graph.transitions() if _only_goes(graph, *each)])
        # Other pages do not say which item they belong to, such as the pages of a list's items.
        self.reached = {graph.start} | nx.descendants(self.ways, graph.start)

    def found(self, fact: Fact) -> bool | None:
        """Whether it holds; None if its page was not seen from its top to its end."""
        looks = self._on(fact.page) if fact.page in self.reached else []
        if any(fact.holds(self.graph, each) for each in (self.seen if fact.is_own else looks)):
            return True
        return False if all(any(not _able(each, end) for each in looks) for end in _ENDS) else None

    def next_action(self, platform: Platform) -> Action | None:
        page, tree = page_on(self.graph, self.seen[-1]), targets(self.seen[-1].elements or ())
        wanted = {fact.page for fact in self.facts if self.found(fact) is None} & self.reached
        ways = nx.single_source_shortest_path(self.ways, page) if page else {}
        way = min((ways[each] for each in wanted & ways.keys()), key=len, default=())
        edges = self.ways[way[0]][way[1]].values() if len(way) > 1 else ()
        on_page = {by: each.target for by, each in self.graph.pages[way[0]].elements.items()} if way else {}
        moves = [(on_page[edge["transition"].by], edge["transition"].operation) for edge in edges]
        moves += [(each.target, each.operation) for each in self.graph.opening[:1] if wanted and not way]
        if pressed := [(tree[target].bounds.center, operation) for target, operation in moves if target in tree]:
            (x, y), operation = pressed[0]
            return Click(x=x, y=y, count=2 if operation == "double_tap" else 1)
        if way:  # up until the top was seen, then down
            up = all(_able(each, _ENDS[0]) for each in self._on(way[0]))
            over = _able(self.seen[-1], _ENDS[not up])
            return scroll_over(over[0], platform, up) if over else None
        # Elsewhere than on phones, going back may lose the state of a page.
        return SystemButton(button="Back") if wanted and platform is Platform.PHONE else None

    def _on(self, page: str) -> list[Observation]:
        return [each for each in self.seen if page_on(self.graph, each) == page]


def _only_goes(graph: AppGraph, page: str, way: GraphTransition) -> bool:
    """Whether a transition is one press that leads to another page and, as far as the graph knows, does no more."""
    presses = way.operation in ("tap", "double_tap") and way.by in graph.pages[page].elements
    does_more = way.after or way.submits or Mark.CHANGES in way.marks or on_graph.act_of(page, way) is not None
    return presses and way.to in graph.pages and not (does_more or marks_on_way(graph, page, way))


def _able(seen: Observation, end: str) -> list[UIElement]:
    return [each for each in seen.elements or () if end in each.states and "editable" not in each.states]


@dataclass(frozen=True)
class GraphProber:
    """Walks to the pages that must show what a query asks for."""

    graphs: Mapping[str, AppGraph]
    steps: int
    """Most actions in one end state."""

    def __call__(self, query: Query, seen: Sequence[Observation]) -> Action | None:
        """Return the next action. Raises JudgeFailure without a graph of the query's app."""
        return _Looks(self.graphs, query, seen).next_action(query.platform) if len(seen) <= self.steps else None


@dataclass(frozen=True)
class ProbeChannel:
    """Votes by what the screens of the probe show; whether more was done than asked for, other channels tell."""

    graphs: Mapping[str, AppGraph]
    channel, resolution, version = Channel.PROBE, FULL, "graph-probe-3"

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        """Vote on a finished episode. Raises JudgeFailure without a probe or a graph, or if it did not see enough."""
        name, last = episode.trajectory.trajectory_id, episode.steps[-1:]
        with stored_evidence(episode):
            ends = [read_element_action(step.action, ()) for step in last]
            if any(end.gives_up for end in ends):
                raise JudgeFailure(f"{name}: the agent reported failure; no probe sees whether it had to")
            if not any(end.ends for end in ends):
                return vote_of(self, False, "the agent did not say that it was done", (), first_error(steps))
            if episode.trajectory.probe_screens is None:
                raise JudgeFailure(f"{name}: no probe looked into its end state")
            shown = (last[0].screen_after, *episode.trajectory.probe_screens)
            looks = _Looks(self.graphs, episode.query, [on_graph.observation_of(each, screens) for each in shown])
        found = [(f"{each.what} {each.value!r} on the page {each.page!r}", looks.found(each)) for each in looks.facts]
        if wrong := [fact for fact, holds in found if holds is False]:
            return vote_of(self, False, f"afterwards one did not find {'; '.join(wrong)}", (), first_error(steps))
        unseen = [*(fact for fact, holds in found if holds is None), *looks.silent]
        if unseen or not found:
            raise JudgeFailure(f"{name}: the probe could not see {'; '.join(unseen) or 'what was asked for'}")
        return vote_of(self, True, f"afterwards one found {'; '.join(fact for fact, _ in found)}")
