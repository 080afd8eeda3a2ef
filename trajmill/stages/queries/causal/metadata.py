"""What a writer is told about a causal pathway: its pages, its values, and which of them are answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trajmill.schemas.tables.query import Slot
from trajmill.stages.environments.simulated.annotations import KnownSlot, PageMetadata, PathMetadata, SlotValue
from trajmill.stages.queries.causal.base import CausalPathway, PathwayNode
from trajmill.stages.queries.live.base import Setting
from trajmill.stages.queries.live.metadata import app_name, known_slot, path_metadata


class PathwaySetting(NamedTuple):
    """A value of an atomic task."""

    name: str
    """Its name on the query, with that of the app."""
    node: PathwayNode
    setting: Setting
    carried_from: str
    """The app that tells the value; empty if the user says it."""

    def slot(self, said: str) -> Slot:
        """The slot of the query; `said` are the words for a value that the user says."""
        words = "" if self.carried_from else said
        page = f"{self.node.graph.app}.{self.setting.page}"
        return Slot(name=self.name, value=self.setting.value, said=words, page=page)


def pathway_settings(pathway: CausalPathway) -> Iterator[PathwaySetting]:
    """The values of all atomic tasks, in the order in which they are set."""
    before = ""
    for node in pathway.nodes:
        for setting in node.sample.settings:
            carried = before if setting.slot == node.slot else ""
            yield PathwaySetting(f"{node.graph.app.replace('-', '_')}_{setting.name}", node, setting, carried)
        before = app_name(node.graph)


def pathway_slots(pathway: CausalPathway) -> tuple[KnownSlot, ...]:
    """The words that an instruction must have, and the answers that it must not have."""
    return tuple(_known(each) for each in pathway_settings(pathway))


def pathway_metadata(pathway: CausalPathway) -> PathMetadata:
    """The facts about all atomic tasks, one after the other."""
    parts = [path_metadata(node.sample) for node in pathway.nodes]
    by_place = {(each.node.graph.app, each.setting.name): each for each in pathway_settings(pathway)}

    def renamed(node: PathwayNode, value: SlotValue) -> SlotValue:
        setting = by_place[node.graph.app, value.name]
        words = () if setting.carried_from else value.words
        return value._replace(name=setting.name, words=words, carried_from=setting.carried_from)

    def page_of(node: PathwayNode, page: PageMetadata) -> PageMetadata:
        return page._replace(settings=tuple(renamed(node, value) for value in page.settings))

    together = list(zip(pathway.nodes, parts, strict=True))
    return PathMetadata(
        pathway.task,
        " ".join(_purpose(node) for node in pathway.nodes),
        pathway.first,
        tuple(page_of(node, page) for node, part in together for page in part.pages),
        tuple(renamed(node, value) for node, part in together for value in part.constraints),
    )


def _purpose(node: PathwayNode) -> str:
    """What an atomic task is for, without its values."""
    if node.answer is None:
        return f"Put the answer into {app_name(node.graph)}."
    return f"Find {node.answer.name.replace(f'{{{node.slot}}}', '').strip() or 'a text'} in {app_name(node.graph)}."


def _known(each: PathwaySetting) -> KnownSlot:
    slot = known_slot(each.node.graph, each.setting)._replace(name=each.name)
    if each.carried_from:
        return slot._replace(accepted=(), refused=(each.setting.value,))
    # What is prepared is no value of the app, so that its own values stay refused.
    return slot._replace(refused=())
