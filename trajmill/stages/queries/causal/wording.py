"""Words causal pathways: a wish for each atomic task, with words for the answer that it needs (GUI-Owl 6.2)."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from trajmill.schemas.tables.query import CausalTask, Slot
from trajmill.stages.environments.simulated.annotations import KnownSlot, PageMetadata, PathMetadata, SlotValue
from trajmill.stages.queries.base import GoalFacts, Written
from trajmill.stages.queries.causal.pathway import CausalPathway, PathwayNode
from trajmill.stages.queries.explicit import explicit_instruction
from trajmill.stages.queries.graph.routes import Setting, app_name
from trajmill.stages.queries.graph.wording import (
    as_wish,
    known_slot,
    label,
    navigation_words,
    path_metadata,
    wish_for,
)
from trajmill.stages.queries.templates import packaged_phrasings, parse_template, tidy

_VERSION = "causal-grammar-1"


class PathwaySetting(NamedTuple):
    """A value of an atomic task."""

    name: str
    """Its name on the query, with that of the app."""
    node: PathwayNode
    setting: Setting
    carried_from: str
    """The app in which the value is read; empty if the instruction names it."""

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


def pathway_facts(pathway: CausalPathway) -> GoalFacts:
    """The facts for a language model."""
    return GoalFacts(pathway_metadata(pathway), pathway_slots(pathway))


def worded_pathway(pathway: CausalPathway, several_devices: bool, heldout: bool, seed: int) -> Written:
    """Put the wishes of the atomic tasks into a template.

    Args:
        pathway: the pathway.
        several_devices: whether the instruction names the devices.
        heldout: whether it must have a phrasing that training never sees.
        seed: draws the template and the words.
    """
    rng = Random(seed)
    kind = "devices" if several_devices else "pathway"
    template = packaged_phrasings(__package__)[kind].draw(heldout, rng)
    wishes = [_wish(node, rng, "" if number == 0 else _FOUND) for number, node in enumerate(pathway.nodes)]
    steps = _on_devices(pathway, wishes) if several_devices else ", then ".join(wishes)
    text = tidy(parse_template(template.text, pathway.task).expand({"steps": steps}, rng))
    raw = explicit_instruction(pathway_metadata(pathway))
    return Written(raw, text, f"{pathway.task}/{template.id}", _said(pathway, text), _VERSION)


class _Found(NamedTuple):
    """How an earlier answer is called."""

    of_item: str
    """After what an item is, e.g. `the note of that name`."""
    text: str
    """As what is entered."""


_FOUND = _Found("of that name", "what you found")


def atomic_rows(pathway: CausalPathway) -> tuple[CausalTask, ...]:
    """Return the atomic tasks as rows; an instruction names the answer before it in braces, as in LightManus."""
    rows: list[CausalTask] = []
    for number, node in enumerate(pathway.nodes):
        before = f"{{{_answer(number - 1)}}}"
        found = _Found(before, before) if number else ""
        instruction = tidy(_wish(node, Random(0), found))
        rows.append(
            CausalTask(
                device=node.graph.platform,
                app=node.graph.app,
                instruction=instruction,
                answer=_answer(number) if node.answer else "",
                value=node.value,
            )
        )
    return tuple(rows)


def _answer(number: int) -> str:
    return f"answer_{number + 1}"


def _wish(node: PathwayNode, rng: Random, found: _Found | str) -> str:
    """Word one atomic task; without words for an earlier answer the input itself is named."""
    others = [wish_for(node.sample, each, rng).text for each in node.sample.settings if each.slot != node.slot]
    if node.answer:
        place = f"{{{node.slot}}}"
        named = node.answer.name if place in node.answer.name else f"{node.answer.name or 'the text'} of {place}"
        item = found.of_item if isinstance(found, _Found) else f'"{node.input}"'
        wish = f"{rng.choice(('find out', 'look up'))} {named.replace(place, item)}"
    else:
        entering = _entering(node, rng, found.text if isinstance(found, _Found) else f'"{node.input}"')
        wish = " and ".join((entering, *_way_after(node)))
    return f"{' and '.join((*others, wish))} in {app_name(node.graph)}"


def _entering(node: PathwayNode, rng: Random, text: str) -> str:
    [setting] = [each for each in node.sample.settings if each.slot == node.slot]
    for move in node.sample.moves:
        if f"{{{node.slot}}}" in move.transition.does:
            return as_wish(move.transition.does).replace(f"{{{node.slot}}}", text)
    return f'{rng.choice(("enter", "put in"))} {text} as "{label(node.graph, setting)}"'


def _way_after(node: PathwayNode) -> tuple[str, ...]:
    """The way from where the entering leads to the last page."""
    moves = node.sample.moves
    entered = max(n for n, move in enumerate(moves) if any(each.slot == node.slot for each in move.settings))
    return navigation_words(
        node.graph, [each for each in moves[entered + 1 :] if each not in node.sample.acts], "go to"
    )


def _on_devices(pathway: CausalPathway, wishes: list[str]) -> str:
    """A sentence for each atomic task, which names its device."""
    named = zip(pathway.nodes, wishes, strict=True)
    return " ".join(f"On the {node.graph.platform}, {wish}." for node, wish in named)


def _said(pathway: CausalPathway, text: str) -> dict[str, str]:
    """By slot, the words for its value; an answer is not said."""
    return {
        slot.name: next((words for words in slot.accepted if words in text), slot.accepted[0])
        for slot in pathway_slots(pathway)
        if slot.accepted
    }


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
