"""The records that the YAML of an app file is read into (`docs/apps.md` is the guide for writers).

A value that starts with `$` names a variable of the app; `{field}` inside a list's text names a field of the
item. A variable keeps its value until an effect sets or resets it. Only `state` outlives an episode's drafts: it
is what goals check.
"""

from __future__ import annotations

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
    """Append one record to a list of the state; values may be `$variable`."""

    append: dict[str, Item]


class UpdateEffect(Record):
    """Change fields of the records of a state list whose `name` is given."""

    update: str
    name: Scalar
    fields: Item


class RemoveEffect(Record):
    """Remove the records of a state list whose `name` is given."""

    remove: str
    name: Scalar


class ResetEffect(Record):
    """Give variables their start values back."""

    reset: tuple[str, ...]


EFFECT_KINDS = ("set", "append", "update", "remove", "reset")


def effect_kind(effect: Any) -> str | None:
    """The key that says what an effect does, None where there is none."""
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
    """What all widgets share."""

    id: str = ""
    """Unique on its screen; needed by what can be pressed, typed into or named in a task."""
    show_if: dict[str, Scalar] = {}
    """Shown only while every named variable or scalar state has the value given."""


class Text(Widget):
    """A line of text; `$variable` words are replaced."""

    kind: Literal["text", "heading", "value"]
    text: str


class Button(Widget):
    """A button: runs its effects, then goes to a screen (or `back`)."""

    kind: Literal["button"]
    text: str
    style: Literal["plain", "primary", "danger"] = "plain"
    do: tuple[Effect, ...] = ()
    to: str = ""
    needs: tuple[str, ...] = ()
    """Variables that must not be empty or 0; else the button is drawn disabled and does nothing."""


class ItemList(Widget):
    """A list that scrolls; a tap sets `variable` to the item's name, runs the effects and goes to a screen.

    A list without `variable`, `do` and `to` only shows its items: their rows are values, not buttons.
    """

    kind: Literal["list"]
    items: str
    """Name of an entry of `lists`, or of a list in `state`."""
    where: Item = {}
    """Only items whose fields equal these values (`$variable` allowed)."""
    search: str = ""
    """Variable whose text an item's name must contain (ignoring case), while it is not empty."""
    text: str = "{name}"
    note: str = ""
    variable: str = ""
    do: tuple[Effect, ...] = ()
    """Values may be `{field}` of the item too."""
    to: str = ""


class Choice(Widget):
    """Radio buttons for a variable or scalar state."""

    kind: Literal["choice"]
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
    """What the page shows and is for (the paper's d_i, 6.2)."""
    dialog: bool = False
    """Drawn as a dialog over the page it was opened from."""
    widgets: tuple[AnyWidget, ...]


class ImpliedBy(Record):
    """The value of a slot follows from another slot: the field of the item picked there."""

    slot: str
    list: str
    field: str


class SlotSpec(Record):
    """A choice that the user can ask for on one page (the paper's slot-value pairs, 6.2)."""

    name: str
    page: str
    """ScreenSpec, or `app.screen` in an errand."""
    widget: str
    optional: bool = False
    values: tuple[Scalar, ...] = ()
    """Values to ask for; empty: all that the widget offers except the default."""
    implied_by: ImpliedBy | None = None
    carried_from: str = ""
    """In an errand: the `app.screen` on which the value is read; it is not said in the instruction."""
    say: dict[str, tuple[str, ...]] = {}
    """Words for a value; a value that is not listed is said as it stands."""


class ListChange(Record):
    """What the goal wants of one state list; everything that is not named must stay as it was."""

    append: Item | None = None
    update: Item | None = None
    """Fields to change in the record called `name`."""
    remove: bool = False
    name: Scalar = ""


class TaskSpec(Record):
    """A family of tasks: its navigation DAG, its slots, its goal and its phrasings."""

    description: str
    pages: dict[str, tuple[str, ...]]
    """The annotated DAG: each page and the pages that follow it; the first is the start."""
    slots: tuple[SlotSpec, ...] = ()
    always: dict[str, Item] = {}
    """Per page: widgets to operate in every instance, as widget id: value (e.g. a tab to open)."""
    setup: dict[str, Item] = {}
    """State list (`list`, or `app.list` in an errand): a record appended at reset; values may be `$slot`."""
    goal: dict[str, ListChange | Scalar]
    """State (`name`, or `app.name` in an errand): the wanted scalar, or the change of a list. `$slot` allowed; a slot
    that was not asked for stands for its variable's start value."""
    phrasings: tuple[str, ...]
    """Templates: `{slot}`, `(a|b)`, `[optional words]`, `{clauses}` where the optional slots go."""
    heldout_phrasings: tuple[str, ...]
    """Templates that training never sees."""
    clauses: dict[str, tuple[str, ...]] = {}
    """For each optional slot: how it is said; for a switch the clause is said when it is to be on."""
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
    """Fixed content; every item has a `name` that is unique in its list."""
    ordered: tuple[str, ...] = ()
    """The `lists` that stand in the same order on every device (hours, days, sizes); others do not."""
    state: dict[str, Scalar | tuple[Item, ...]] = {}
    """What lasts and what goals check; list records have a `name` when they are to be picked."""
    first: str
    """The screen that opens."""
    screens: dict[str, ScreenSpec]
    tasks: dict[str, TaskSpec] = {}


class ErrandSpec(Record):
    """Tasks that cross apps: pages, slots, setup and goals name `app.screen` and `app.state`.

    An edge of the navigation DAG from one app to another ends on the other app's first screen: the user gets there
    by way of the launcher.
    """

    errand: str
    apps: tuple[str, ...]
    tasks: dict[str, TaskSpec]
