"""The records of an app file; `docs/apps.md` is the guide for writers.

`$name` in a value is a variable of the app, `{field}` in a list's text a field of the item. Goals check only `state`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from trajmill.schemas.record import Record
from trajmill.schemas.tables.query import Platform

Scalar = str | int | bool
Item = dict[str, Scalar]


class SetEffect(Record):
    """Give variables or scalar state new values."""

    set: dict[str, Scalar]


class AppendEffect(Record):
    """Append a record to a list of the state; values may be `$variable`."""

    append: dict[str, Item]


class UpdateEffect(Record):
    """Change fields of the records with a given `name` in a state list."""

    update: str
    name: Scalar
    fields: Item


class RemoveEffect(Record):
    """Remove the records with a given `name` from a state list."""

    remove: str
    name: Scalar


class ResetEffect(Record):
    """Reset variables to their start values."""

    reset: tuple[str, ...]


EFFECT_KINDS = ("set", "append", "update", "remove", "reset")


def effect_kind(effect: Any) -> str | None:
    keys = effect if isinstance(effect, dict) else getattr(type(effect), "model_fields", {})
    return next((kind for kind in EFFECT_KINDS if kind in keys), None)


Effect = Annotated[
    Annotated[SetEffect, Tag("set")]
    | Annotated[AppendEffect, Tag("append")]
    | Annotated[UpdateEffect, Tag("update")]
    | Annotated[RemoveEffect, Tag("remove")]
    | Annotated[ResetEffect, Tag("reset")],
    Discriminator(effect_kind),
]


class Widget(Record):
    """The base of all widgets."""

    id: str = ""
    """Unique on its screen; needed by widgets that can be pressed, typed into or named in a task."""
    show_if: dict[str, Scalar] = {}
    """The widget is shown only while each of these variables or scalar states has the given value."""

    @property
    def leads_to(self) -> tuple[str, ...]:
        """The screens that a press, and a long press, lead to."""
        return tuple(to for name in ("to", "hold") if (to := str(getattr(self, name, ""))))

    @property
    def sets(self) -> str:
        return str(getattr(self, "variable", ""))


class Text(Widget):
    """A line of text; each `$variable` is replaced by its value."""

    kind: Literal["text", "heading", "value"]
    text: str


class Button(Widget):
    """A button; a press runs its effects, then goes to a screen (or `back`)."""

    kind: Literal["button"]
    text: str
    style: Literal["plain", "primary", "danger"] = "plain"
    do: tuple[Effect, ...] = ()
    to: str = ""
    needs: tuple[str, ...] = ()
    """If one of these variables is empty or 0, the button is disabled."""

    def is_enabled(self, values: Mapping[str, Scalar]) -> bool:
        return all(values[name] not in ("", 0, False) for name in self.needs)


class ItemList(Widget):
    """A scrolling list; a tap sets `variable` to the item's name, runs the effects and goes to a screen.

    A long press, or a right click on a desktop, sets `variable` and goes to the screen `hold`. A list without
    `variable`, `do` and `to` only shows its items.
    """

    kind: Literal["list"]
    items: str
    """Name of a list in `lists` or `state`."""
    where: Item = {}
    """Show only items whose fields equal these values (`$variable` allowed)."""
    search: str = ""
    """Show only items whose name contains the text of this variable, ignoring case."""
    text: str = "{name}"
    note: str = ""
    variable: str = ""
    do: tuple[Effect, ...] = ()
    """The effects; values may also be a `{field}` of the item."""
    to: str = ""
    hold: str = ""


class Choice(Widget):
    """Radio buttons, or the marks of a slider, for a variable or scalar state. A slider is dragged to a mark."""

    kind: Literal["choice", "slider"]
    label: str
    variable: str
    options: tuple[Scalar, ...]


class Toggle(Widget):
    """A switch or a checkbox for a true-or-false variable or scalar state."""

    kind: Literal["switch", "checkbox"]
    text: str
    variable: str


class Stepper(Widget):
    """A whole number with a minus and a plus button."""

    kind: Literal["stepper"]
    text: str
    variable: str
    minimum: int = 0
    maximum: int = 9


class Input(Widget):
    """A text input; a tap focuses it and, on a phone, opens the keyboard."""

    kind: Literal["field", "search"]
    hint: str
    variable: str
    enter: str = ""
    """Id of the button of the screen that Enter presses."""


class Menu(Widget):
    """A menu of a desktop program's menu bar; a press opens it."""

    kind: Literal["menu"]
    text: str
    items: tuple[Button, ...]


AnyWidget = Annotated[Text | Button | ItemList | Choice | Toggle | Stepper | Input | Menu, Field(discriminator="kind")]


class ScreenSpec(Record):
    """One page of an app."""

    title: str
    description: str
    """The content and purpose of the page (the paper's d_i, 6.2)."""
    dialog: bool = False
    """Whether it is a dialog over the page that opened it."""
    layout: Literal["", "rows", "grid", "start", "end"] = ""
    """Where list items, buttons, toggles and fields stand: over the whole width, in two columns, at the left or right.
    By default the device decides."""
    from_end: bool = False
    """Whether it opens scrolled to its end."""
    widgets: tuple[AnyWidget, ...]

    def all_widgets(self) -> Iterator[AnyWidget]:
        """Iterate over the widgets in order, each menu followed by its items."""
        for widget in self.widgets:
            yield widget
            if isinstance(widget, Menu):
                yield from widget.items

    def find(self, widget_id: str) -> AnyWidget | None:
        return next((each for each in self.all_widgets() if each.id == widget_id), None) if widget_id else None

    def menu_of(self, item: Button) -> Menu | None:
        return next((each for each in self.widgets if isinstance(each, Menu) and item in each.items), None)


class ImpliedBy(Record):
    """The value of a slot follows from another slot: it is a field of the item that is picked there."""

    slot: str
    list: str
    field: str


class SlotSpec(Record):
    """A choice that the user can ask for on one page (the paper's slot-value pairs, 6.2)."""

    name: str
    page: str
    """The screen; in an errand `app.screen`."""
    widget: str
    optional: bool = False
    values: tuple[Scalar, ...] = ()
    """The possible values; if empty, all that the widget offers except the default."""
    implied_by: ImpliedBy | None = None
    carried_from: str = ""
    """In an errand, the `app.screen` on which the agent reads the value; the instruction does not say it."""
    say: dict[str, tuple[str, ...]] = {}
    """Words for a value; other values are said as they are."""


class ListChange(Record):
    """The wanted changes of one state list; everything else must not change."""

    append: Item | None = None
    update: Item | None = None
    """Fields to change in the record called `name`."""
    remove: bool = False
    name: Scalar = ""


class TaskSpec(Record):
    """A family of tasks: its navigation DAG, its slots, its goal and its phrasings."""

    description: str
    pages: dict[str, tuple[str, ...]]
    """The annotated DAG: each page with the pages that may follow it; the first page is the start."""
    slots: tuple[SlotSpec, ...] = ()
    always: dict[str, Item] = {}
    """By page, widgets that every instance of the task operates, as widget id: value (e.g. a tab to open)."""
    setup: dict[str, Item] = {}
    """By state list (`list`, or `app.list` in an errand), a record that a reset appends; values may be `$slot`."""
    goal: dict[str, ListChange | Scalar]
    """By state (`name`, or `app.name` in an errand), the wanted scalar or the change of a list. `$slot` is allowed; a
    slot that was not asked for has its variable's start value."""
    phrasings: tuple[str, ...]
    """Templates with `{slot}`, `(a|b)`, `[optional words]`, and `{clauses}` for the optional slots."""
    heldout_phrasings: tuple[str, ...]
    """Templates that training never sees."""
    clauses: dict[str, tuple[str, ...]] = {}
    """For each optional slot, the clauses that ask for it; those of a switch ask to switch it on."""
    heldout_clauses: dict[str, tuple[str, ...]] = {}


class AppSpec(Record):
    """One app or desktop program."""

    app: str
    """Its id."""
    name: str
    """Its label on the launcher."""
    platform: Platform
    description: str
    color: str
    """Accent colour, `#RRGGBB`."""
    symbol: str
    """One or two letters drawn on its icon."""
    variables: dict[str, Scalar] = {}
    lists: dict[str, tuple[Item, ...]] = {}
    """Content that never changes; every item has a `name` that is unique in its list."""
    ordered: tuple[str, ...] = ()
    """The `lists` that have the same order on every device (hours, days, sizes)."""
    state: dict[str, Scalar | tuple[Item, ...]] = {}
    """The lasting state, which goals check; records of lists have a `name` if they can be picked."""
    first: str
    """The first screen."""
    screens: dict[str, ScreenSpec]
    tasks: dict[str, TaskSpec] = {}

    def start_values(self) -> dict[str, Scalar]:
        return self.variables | {name: value for name, value in self.state.items() if not isinstance(value, tuple)}

    def state_lists(self) -> dict[str, tuple[Item, ...]]:
        return {name: value for name, value in self.state.items() if isinstance(value, tuple)}

    def all_lists(self) -> dict[str, tuple[Item, ...]]:
        """Return the fixed lists, and those of the state at the start."""
        return {**self.lists, **self.state_lists()}


class ErrandSpec(Record):
    """Tasks that cross apps: pages, slots, setup and goals name `app.screen` and `app.state`.

    An edge of the navigation DAG from one app to another ends on the other app's first screen; the user goes there
    through the launcher.
    """

    errand: str
    apps: tuple[str, ...]
    tasks: dict[str, TaskSpec]
