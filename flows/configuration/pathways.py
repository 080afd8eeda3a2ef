"""The section `[pathways]`: which programs are walked for queries, and how far."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from trajmill.schemas.spec import OPERATIONAL, Spec


class PathwaysSection(Spec):
    """Queries from the menus, dialogs and tabs of running programs: what `trajmill pathways` walks, and how far."""

    file: Path | None = None
    """Programs (YAML, see environments.md); without one, those of the local desktop."""
    programs: tuple[str, ...] = ()
    """Names of programs in it; all that it has if there are none."""
    depth: PositiveInt = 4
    """Presses on the longest way."""
    breadth: PositiveInt = 40
    """Elements that are pressed in one state of a program."""
    steps: PositiveInt = 1500
    """Most actions in a program."""
    seconds: PositiveFloat = 300.0
    """Longest walk over a program; what it has found by then is kept."""
    queries: NonNegativeInt = 0
    """Most queries from each program that a run gets beside its own; 0: none, and nothing is walked. Those named in
    `queries.heldout_app_names` are kept from training."""
    second_opinion: Annotated[str, OPERATIONAL] = ""
    """The endpoint that is asked what needs a selection where the program does not show it; nobody if empty."""
