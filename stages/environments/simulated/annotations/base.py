"""Records of what is annotated about a path and about the slots of a task (paper 6.2)."""

from __future__ import annotations

from typing import NamedTuple

from trajmill.schemas.tables.query import Platform


class SlotValue(NamedTuple):
    """One slot-value pair of a path (the paper's K', V')."""

    name: str
    page: str
    """`app.screen` on which it is set."""
    label: str
    """How the page names the choice, e.g. `Size`."""
    kind: str
    """Kind of widget: list, choice, switch, checkbox, stepper, field, search."""
    value: str
    """As the screen shows it; true and false are `on` and `off`."""
    words: tuple[str, ...]
    """Words a user may have for the value; empty where it is not said, for it follows or is carried."""
    optional: bool
    carried_from: str
    """Name of the app that the value is read in, empty where it is not carried."""

    @property
    def is_option(self) -> bool:
        """Whether it is on or off."""
        return self.kind in ("switch", "checkbox")


class PageMetadata(NamedTuple):
    """One page of a path."""

    page: str
    """`app.screen`."""
    app_name: str
    description: str
    """What the page shows and is for (the paper's d_i)."""
    settings: tuple[SlotValue, ...]
    """What is set on the page, in the order in which its widgets stand there."""
    leave_by: str
    """Label of what is pressed last; empty where a setting leads on, and where another app follows."""


class PathMetadata(NamedTuple):
    """What a writer is told about one sampled path (the paper's D', K', V')."""

    task: str
    """`app.task` or `errand.task`."""
    description: str
    """What the task is, e.g. `Order a dish`."""
    platform: Platform
    pages: tuple[PageMetadata, ...]
    constraints: tuple[SlotValue, ...]
    """What the user asks for, set on this path or carried through it."""


class KnownSlot(NamedTuple):
    """What may and what must not be said of one slot of a task, so that an instruction can be checked for it."""

    name: str
    label: str
    """How its page names the choice; its name where the page has no words for it."""
    kind: str
    """Kind of widget, as in `SlotValue`."""
    accepted: tuple[str, ...]
    """Words of which one must stand in the instruction; empty for a slot that is not to be told."""
    refused: tuple[str, ...]
    """Words for every other value that it can have, or for all of them where it is not to be told."""

    @property
    def is_typed(self) -> bool:
        """Whether its value is a text that the user dictates."""
        return self.kind in ("field", "search")

    @property
    def is_option(self) -> bool:
        """Whether it is on or off."""
        return self.kind in ("switch", "checkbox")
