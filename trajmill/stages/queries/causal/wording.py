"""Words causal pathways: a wish for each atomic task, with words for the answer that it needs (GUI-Owl 6.2)."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from trajmill.schemas.tables.query import CausalTask, Slot
from trajmill.stages.environments.simulated.annotations import KnownSlot, PageMetadata, PathMetadata, SlotValue
from trajmill.stages.queries.base import Written
from trajmill.stages.queries.causal.pathway import CausalPathway, PathwayNode
from trajmill.stages.queries.graph.routes import Setting, app_name
from trajmill.stages.queries.graph.wording import as_wish, known_slot, label, navigation_words, path_metadata, wish_for
from trajmill.stages.queries.templates import explicit_instruction, packaged_phrasings, tidy

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
        """Return the slot of the query; `said` are the words for a value that the user says."""
        words = "" if self.carried_from else said
        page = f"{self.node.graph.app}.{self.setting.page}"
        return Slot(name=self.name, value=self.setting.value, said=words, page=page)


def pathway_settings(pathway: CausalPathway) -> Iterator[PathwaySetting]:
    """Yield the values of all atomic tasks, in the order in which they are set."""
    before = ""
    for node in pathway.nodes:
        for setting in node.sample.settings:
            carried = before if setting.slot == node.slot else ""
            yield PathwaySetting(f"{node.graph.app.replace('-', '_')}_{setting.name}", node, setting, carried)
        before = app_name(node.graph)


def pathway_slots(pathway: CausalPathway) -> Iterator[KnownSlot]:
    """Yield the words that an instruction must have, and the answers that it must not have."""
    for each in pathway_settings(pathway):
        slot = known_slot(each.setting)._replace(name=each.name, refused=())
        # What is prepared is no value of the app, so that its own values stay refused.
        yield slot._replace(accepted=(), refused=(each.setting.value,)) if each.carried_from else slot


def worded_pathway(pathway: CausalPathway, several_devices: bool, heldout: bool, seed: int) -> Written:
    """Put the wishes of the atomic tasks into a template.

    Args:
        pathway: the pathway.
        several_devices: whether the instruction names the devices.
        heldout: whether it must have a phrasing that training never has.
        seed: draws the template and the words.
    """
    rng = Random(seed)
    kind = "devices" if several_devices else "pathway"
    template = packaged_phrasings(__package__)[kind].draw(heldout, rng)
    wishes = [_wish(node, rng, _FOUND if number else None) for number, node in enumerate(pathway.nodes)]
    steps = ", then ".join(wishes)
    if several_devices:
        named = zip(pathway.nodes, wishes, strict=True)
        steps = " ".join(f"On the {node.graph.platform}, {wish}." for node, wish in named)
    text = tidy(template.expand(pathway.task, {"steps": steps}, rng))
    # An answer is not said.
    said = {
        slot.name: next((words for words in slot.accepted if words in text), slot.accepted[0])
        for slot in pathway_slots(pathway)
        if slot.accepted
    }
    raw = explicit_instruction(pathway_metadata(pathway))
    return Written(raw, text, f"{pathway.task}/{template.id}", said, _VERSION)


class _Found(NamedTuple):
    """The words for an earlier answer."""

    of_item: str
    """After the name of an item, e.g. `the note of that name`."""
    text: str
    """As what is entered."""


_FOUND = _Found("of that name", "what you found")


def atomic_rows(pathway: CausalPathway) -> tuple[CausalTask, ...]:
    """Return the atomic tasks as rows; an instruction names the answer before it in braces, as in LightManus."""
    rows: list[CausalTask] = []
    before = None
    for number, node in enumerate(pathway.nodes, 1):
        rows.append(
            CausalTask(
                device=node.graph.platform,
                app=node.graph.app,
                instruction=tidy(_wish(node, Random(0), before)),
                answer=f"answer_{number}" if node.answer else "",
                value=node.value,
            )
        )
        before = _Found(f"{{answer_{number}}}", f"{{answer_{number}}}")
    return tuple(rows)


def _wish(node: PathwayNode, rng: Random, found: _Found | None) -> str:
    """Word one atomic task; without words for an earlier answer the input itself is named."""
    wishes = [wish_for(each, rng).text for each in node.sample.settings if each.slot != node.slot]
    place = f"{{{node.slot}}}"
    if node.answer:
        named = node.answer.name if place in node.answer.name else f"{node.answer.name or 'the text'} of {place}"
        item = found.of_item if found else f'"{node.input}"'
        wishes.append(f"{rng.choice(('find out', 'look up'))} {named.replace(place, item)}")
    else:
        text, moves = found.text if found else f'"{node.input}"', node.sample.moves
        sentence = next((move.transition.does for move in moves if place in move.transition.does), "")
        if sentence:
            wishes.append(as_wish(sentence).replace(place, text))
        else:
            [setting] = [each for each in node.sample.settings if each.slot == node.slot]
            wishes.append(f'{rng.choice(("enter", "put in"))} {text} as "{label(setting)}"')
        entered = max(n for n, move in enumerate(moves) if any(each.slot == node.slot for each in move.settings))
        after = [each for each in moves[entered + 1 :] if each not in node.sample.acts]
        wishes += navigation_words(node.graph, after, "go to")
    return f"{' and '.join(wishes)} in {app_name(node.graph)}"


def pathway_metadata(pathway: CausalPathway) -> PathMetadata:
    """Return the facts about all atomic tasks, one after the other."""
    by_place = {(each.node.graph.app, each.setting.name): each for each in pathway_settings(pathway)}
    pages: list[PageMetadata] = []
    constraints: list[SlotValue] = []
    purposes: list[str] = []

    def renamed(node: PathwayNode, value: SlotValue) -> SlotValue:
        setting = by_place[node.graph.app, value.name]
        words = () if setting.carried_from else value.words
        return value._replace(name=setting.name, words=words, carried_from=setting.carried_from)

    for node in pathway.nodes:
        part, app = path_metadata(node.sample), app_name(node.graph)
        for page in part.pages:
            pages.append(page._replace(settings=tuple(renamed(node, value) for value in page.settings)))
        constraints += [renamed(node, value) for value in part.constraints]
        if node.answer is None:
            purposes.append(f"Put the answer into {app}.")
        else:
            looked_up = node.answer.name.replace(f"{{{node.slot}}}", "").strip() or "a text"
            purposes.append(f"Find {looked_up} in {app}.")
    return PathMetadata(pathway.task, " ".join(purposes), pathway.first, tuple(pages), tuple(constraints))
