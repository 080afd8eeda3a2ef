"""Records of the annotations of a path and of the slots of a task (paper 6.2)."""

from __future__ import annotations

from typing import NamedTuple

from trajmill.schemas.tables.query import Platform


class SlotValue(NamedTuple):
    """One slot-value pair of a path (the paper's K', V')."""

    name: str
    page: str
    """The page on which it is set, as `app.screen`."""
    label: str
    """The page's name of the choice, e.g. `Size`."""
    kind: str
    """Kind of widget: list, choice, switch, checkbox, stepper, field, search."""
    value: str
    """The value as the screen shows it; true and false are `on` and `off`."""
    words: tuple[str, ...]
    """Words that a user may have for the value; empty if it is not said, because it follows from another value or is
    carried from another app."""
    optional: bool
    carried_from: str
    """Name of the app in which the value is read; empty if it is not carried."""

    @property
    def is_option(self) -> bool:
        """Whether its value is on or off."""
        return self.kind in ("switch", "checkbox")


class PageMetadata(NamedTuple):
    """One page of a path."""

    page: str
    """`app.screen`."""
    app_name: str
    description: str
    """The content and purpose of the page (the paper's d_i)."""
    settings: tuple[SlotValue, ...]
    """The values that are set on the page, in the order of its widgets."""
    leave_by: str
    """Label of the last pressed element; empty if a setting leads to the next page, or another app follows."""


class PathMetadata(NamedTuple):
    """The facts about one sampled path that a writer gets (the paper's D', K', V')."""

    task: str
    """`app.task` or `errand.task`."""
    description: str
    """Name of the task, e.g. `Order a dish`."""
    platform: Platform
    pages: tuple[PageMetadata, ...]
    constraints: tuple[SlotValue, ...]
    """The values that the user asks for, set on this path or carried along it."""


class KnownSlot(NamedTuple):
    """The words that an instruction must and must not have for one slot of a task."""

    name: str
    label: str
    """The page's name of the choice; the slot's own name if the page has none."""
    kind: str
    """Kind of widget, as in `SlotValue`."""
    accepted: tuple[str, ...]
    """The instruction must have one of these words; empty for a slot that must not be mentioned."""
    refused: tuple[str, ...]
    """Words for its other values; for a slot that must not be mentioned, words for all its values."""

    @property
    def is_typed(self) -> bool:
        """Whether its value is a text that the user gives word for word."""
        return self.kind in ("field", "search")

    @property
    def is_option(self) -> bool:
        """Whether its value is on or off."""
        return self.kind in ("switch", "checkbox")
