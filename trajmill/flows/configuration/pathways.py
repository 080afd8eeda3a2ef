"""The section `[pathways]`: which programs are walked for queries, and how far."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from trajmill.schemas.spec import OPERATIONAL, Spec


class PathwaysSection(Spec):
    """Queries from the menus, dialogs and tabs of running programs: which programs are walked, and how far."""

    file: Path | None = None
    """File of programs (YAML, see environments.md); without one, the programs of the local desktop."""
    programs: tuple[str, ...] = ()
    """Names of programs of the file; all if empty."""
    depth: PositiveInt = 4
    """Most presses on a way."""
    breadth: PositiveInt = 40
    """Most elements that are pressed in one state of a program."""
    steps: PositiveInt = 1500
    """Most actions in a program."""
    seconds: PositiveFloat = 300.0
    """Longest walk over a program; what it has found by then is kept."""
    queries: NonNegativeInt = 0
    """Most queries from each program, beside the environment's own; with 0 no program is walked. Programs named in
    `queries.heldout_app_names` are kept from training."""
    written: NonNegativeInt = 0
    """Further training queries for each program in which something can be selected: `models.writer` writes them from a
    screenshot, the pathways that need a selection and examples; the model must read images. Each is walked."""
    second_opinion: Annotated[str, OPERATIONAL] = ""
    """The endpoint that is asked whether an element needs a selection, if the program does not show it; empty asks no
    model."""
