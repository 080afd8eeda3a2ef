"""Words causal pathways: a wish for each atomic task, with words for the answer that it needs (GUI-Owl 6.2)."""

from __future__ import annotations

from random import Random
from typing import NamedTuple, Protocol

from trajmill.schemas.tables.query import CausalTask
from trajmill.stages.environments.simulated.annotations import KnownSlot, PathMetadata
from trajmill.stages.queries.base import Written
from trajmill.stages.queries.causal.base import CausalPathway, PathwayNode
from trajmill.stages.queries.causal.metadata import pathway_metadata, pathway_slots
from trajmill.stages.queries.graph.grammar import GrammarWriter
from trajmill.stages.queries.graph.model_writer import ModelWriter
from trajmill.stages.queries.live.metadata import app_name, label
from trajmill.stages.queries.live.way import as_wish, way_in_words
from trajmill.stages.queries.live.wording import wish_for
from trajmill.stages.queries.packaged_phrasings import packaged_phrasings
from trajmill.stages.queries.phrasing_template import parse_template, tidy


class CausalBrief(NamedTuple):
    """The input of a writer for one pathway."""

    pathway: CausalPathway
    several_devices: bool
    """Whether the instruction names the devices."""
    heldout: bool
    """Whether it must have a phrasing that training never sees."""
    seed: int

    @property
    def metadata(self) -> PathMetadata:
        """The facts about the path."""
        return pathway_metadata(self.pathway)

    @property
    def slots(self) -> tuple[KnownSlot, ...]:
        """The words that the instruction must and must not have."""
        return pathway_slots(self.pathway)


class CausalWriter(Protocol):
    """Writes instructions for pathways: the grammar, or a language model."""

    @property
    def version(self) -> str:
        """Name and version; stored with every query that it writes."""
        ...

    async def write(self, brief: CausalBrief) -> Written:
        """Synthesise and refine an instruction.

        Raises:
            StageError: the written text is not what the brief asks for.
            ModelFailure: its model did not answer.
        """
        ...


class CausalModelWriter(NamedTuple):
    """Asks a language model."""

    model: ModelWriter

    @property
    def version(self) -> str:
        """Version of prompt and model."""
        return self.model.version

    async def write(self, brief: CausalBrief) -> Written:
        """Both steps, checked like those of every other query."""
        return await self.model.write_checked(
            brief.pathway.task, brief.metadata, brief.slots, brief.heldout, brief.seed
        )


class CausalGrammar:
    """Puts the wishes of the atomic tasks into a template."""

    version = "causal-grammar-1"

    def __init__(self) -> None:
        """Read the templates."""
        self._by_kind = packaged_phrasings("trajmill.stages.queries.causal")

    async def write(self, brief: CausalBrief) -> Written:
        """Draw a template and the words of the wishes."""
        rng, pathway = Random(brief.seed), brief.pathway
        kind = "devices" if brief.several_devices else "pathway"
        template = self._by_kind[kind].draw(brief.heldout, rng)
        wishes = [_wish(node, rng, "" if number == 0 else _FOUND) for number, node in enumerate(pathway.nodes)]
        steps = _on_devices(pathway, wishes) if brief.several_devices else ", then ".join(wishes)
        text = tidy(parse_template(template.text, pathway.task).expand({"steps": steps}, rng))
        raw = GrammarWriter().synthesise(brief.metadata)
        return Written(raw, text, f"{pathway.task}/{template.id}", _said(pathway, text))


class _Found(NamedTuple):
    """How an earlier answer is called."""

    of_item: str
    """After what an item is, e.g. `the note of that name`."""
    text: str
    """As what is entered."""


_FOUND = _Found("of that name", "what you found")


def atomic_rows(pathway: CausalPathway) -> tuple[CausalTask, ...]:
    """The atomic tasks as rows; an answer stands in the next instruction by its name, as LightManus writes it."""
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
    """What is to be done; without words for what was found, the input itself stands there."""
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
    return way_in_words(node.graph, [each for each in moves[entered + 1 :] if each not in node.sample.acts], "go to")


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
