"""Lets a language model write queries for pathways (GUI-Owl 6.2); `slot_check` checks its drafts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trajmill.schemas.tables.pathway import EndKind
from trajmill.stages.environments.simulated.annotations import KnownSlot, PageMetadata, PathMetadata
from trajmill.stages.queries.base import Written
from trajmill.stages.queries.graph.model_writer import ModelWriter
from trajmill.stages.queries.pathways.elements import plain_name
from trajmill.stages.queries.pathways.wording import PathwayBrief

_WISHES: Final = {
    EndKind.DIALOG: "Open the dialog {name} and leave it open.",
    EndKind.MENU: "Open the menu {name} and leave it open.",
    EndKind.MENU_ITEM: "Open the menu {menu} so that its entry {name} shows, without choosing it.",
    EndKind.TAB: "Show the tab {name} of {menu}.",
    EndKind.PAGE: "Open the page {name}.",
}


@dataclass(frozen=True, slots=True)
class ModelPathwayWriter:
    """Asks a language model for both steps."""

    writer: ModelWriter

    @property
    def version(self) -> str:
        """Prompt of the synthesis and model."""
        return self.writer.version

    async def write(self, brief: PathwayBrief) -> Written:
        """Both steps.

        Raises:
            DraftRefused: no draft asked for exactly what the brief asks for.
            ModelFailure: the model did not answer.
        """
        return await self.writer.write_checked(brief.task, _metadata(brief), _slots(brief), brief.heldout, brief.seed)


def _metadata(brief: PathwayBrief) -> PathMetadata:
    program = brief.program
    wish = _WISHES[brief.pathway.end_kind].format(name=brief.name, menu=brief.menu)
    if brief.pathway.needs_selection:
        wish = f"Select {program.selection} first. {wish}"
    pages = tuple(
        PageMetadata(
            f"{program.name}.{number}", program.title, f"A window of {program.title}.", (), plain_name(step.name)
        )
        for number, step in enumerate(brief.pathway.steps)
    )
    return PathMetadata(brief.task, wish, program.platform, pages, ())


def _slots(brief: PathwayBrief) -> tuple[KnownSlot, ...]:
    target = KnownSlot("target", "what is wanted", "list", (brief.name,), ())
    if not brief.pathway.needs_selection:
        return (target,)
    return (target, KnownSlot("selection", "what is selected", "list", (brief.program.selection,), ()))
