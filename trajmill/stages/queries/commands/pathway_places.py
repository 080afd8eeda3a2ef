"""The places of commands that take a pathway for something that is selected (GUI-Owl 6.2, computers)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

import yaml

from trajmill.schemas.tables.pathway import EndKind, Pathway
from trajmill.schemas.tables.query import PathStep, Source
from trajmill.stages.graphs.explore.deny_list import DenyList
from trajmill.stages.queries.commands.base import CommandPlace, KnownPathway
from trajmill.stages.queries.pathways.base import PathwayProgram
from trajmill.stages.queries.pathways.elements import plain_name
from trajmill.stages.queries.pathways.queries import is_askable


def pathway_places(
    programs: Sequence[PathwayProgram], pathways: Sequence[Pathway], deny_list: DenyList
) -> tuple[CommandPlace, ...]:
    """A place for each program in which something can be selected, with its pathways that need a selection.

    Args:
        programs: the programs that were walked.
        pathways: what was found in them.
        deny_list: elements that are never pressed.
    """
    exemplars = yaml.safe_load(files(__package__).joinpath("exemplars.yaml").read_text())["pathway"]
    places: list[CommandPlace] = []
    for program in (each for each in programs if each.selecting):
        needing = [
            each
            for each in pathways
            if each.program == program.name and each.needs_selection and is_askable(each, deny_list)
        ]
        if needing:
            places.append(
                CommandPlace(
                    app=program.name,
                    title=program.title,
                    source=Source.PATHWAY,
                    platform=program.platform,
                    start_state=program.start_state,
                    opening=(*program.opening, *program.selecting),
                    exemplars=tuple(exemplars),
                    pathways=tuple(_known(each) for each in sorted(needing, key=lambda each: len(each.steps))),
                )
            )
    return tuple(places)


def _known(pathway: Pathway) -> KnownPathway:
    # An entry of a menu is shown, not chosen.
    pressed = pathway.steps[:-1] if pathway.end_kind is EndKind.MENU_ITEM else pathway.steps
    return KnownPathway(
        tuple(plain_name(step.name) for step in pathway.steps),
        tuple(PathStep(page=f"{pathway.program}.start", operation="tap", target=step.target) for step in pressed),
        pathway.shows,
    )
