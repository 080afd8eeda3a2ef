"""Writes queries for pathways: a template by the kind of end, a clause if the pathway needs a selection."""

from __future__ import annotations

from random import Random
from typing import NamedTuple, Protocol

from trajmill.schemas.tables.pathway import EndKind, Pathway
from trajmill.stages.queries.base import Written
from trajmill.stages.queries.packaged_phrasings import packaged_phrasings
from trajmill.stages.queries.pathways.base import PathwayProgram
from trajmill.stages.queries.pathways.elements import plain_name
from trajmill.stages.queries.phrasing_template import parse_template, tidy

_SELECTED = "selected"


class PathwayBrief(NamedTuple):
    """The input of a writer for one query."""

    pathway: Pathway
    program: PathwayProgram
    heldout: bool
    """Whether it must have a phrasing that training never sees."""
    seed: int

    @property
    def name(self) -> str:
        """The name of the pathway's end."""
        return plain_name(self.pathway.end_name)

    @property
    def menu(self) -> str:
        """The menu or window that contains its end; the program if there is none."""
        return plain_name(self.pathway.steps[-2].name) if len(self.pathway.steps) > 1 else self.program.title

    @property
    def task(self) -> str:
        """The task name that is stored on the query."""
        return f"{self.program.name}.{self.pathway.end_kind}"


class PathwayWriter(Protocol):
    """Writes instructions for pathways: a grammar, or a language model."""

    @property
    def version(self) -> str:
        """Name and version; stored with every query that it writes."""
        ...

    async def write(self, brief: PathwayBrief) -> Written:
        """Steps 3 and 4 of the paper. Equal briefs give equal queries if the writer is deterministic.

        Raises:
            ModelFailure: its model did not answer.
        """
        ...


class PathwayGrammar:
    """The embedded writer: templates of `phrasings.yaml`."""

    version = "pathway-grammar-1"

    def __init__(self) -> None:
        """Read the templates."""
        self._by_end = packaged_phrasings("trajmill.stages.queries.pathways")

    async def write(self, brief: PathwayBrief) -> Written:
        """Draw a template and fill it in; a clause before it asks for the selection, if one is needed."""
        rng = Random(brief.seed)
        words = {"name": brief.name, "menu": brief.menu, "program": brief.program.title}
        template = self._by_end[brief.pathway.end_kind].draw(brief.heldout, rng)
        text = parse_template(template.text, brief.task).expand(words, rng).strip()
        if brief.program.opening and brief.program.title not in text:
            # The program is not on the screen at the start, so the instruction must name it.
            text = f"in {brief.program.title}, {text}"
        phrasing = f"{brief.task}/{template.id}"
        said = {"target": brief.name}
        if "menu" in parse_template(template.text, brief.task).names():
            said["menu"] = brief.menu
        if brief.pathway.needs_selection:
            clause = self._by_end[_SELECTED].draw(brief.heldout, rng)
            wish = {"selection": brief.program.selection, "wish": text}
            text = parse_template(clause.text, brief.task).expand(wish, rng)
            phrasing = f"{phrasing} {_SELECTED}/{clause.id}"
            said["selection"] = brief.program.selection
        return Written(explicit(brief), tidy(text), phrasing, said)


def explicit(brief: PathwayBrief) -> str:
    """Step 3: the instruction that names every press, e.g. `In the text editor, press File, press Save As.`."""
    steps = brief.pathway.steps if brief.pathway.end_kind is not EndKind.MENU_ITEM else brief.pathway.steps[:-1]
    selected = [f"select {brief.program.selection}"] if brief.pathway.needs_selection else []
    presses = [*selected, *(f"press {plain_name(step.name)}" for step in steps)]
    return tidy(f"in {brief.program.title}, {', '.join(presses)}")
