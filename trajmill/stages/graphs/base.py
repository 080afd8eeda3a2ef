"""The records of an app graph, in one format for simulated and live apps (`docs/graphs.md` is the guide for writers).

It is the graph G = <P, A> of the paper (GUI-Owl 6.2): pages with descriptions and slot-value pairs, and transitions.
"""

from __future__ import annotations

import json
import re
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from trajmill.schemas.geometry import Box
from trajmill.schemas.record import Record
from trajmill.schemas.tables.query import PathStep, Platform

OUTSIDE = "outside"
"""The end of transitions that leave the app; no page has this name."""
VALUE = "{value}"
"""Stands in the target of a slot for one of its values."""
SORTS = "Sort by"
"""Begins what a transition `does` that sorts a column."""
ANSWER = "{answer}"
"""Placeholder for the answer in the text of an element."""
PLACE = re.compile(r"\{([a-z0-9][a-z0-9_-]*)\}")
"""Placeholder for the value of a slot, which it names."""

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=60)]
"""Name of a page, an element or a slot: small letters, digits, `-` and `_`."""


class Mark(StrEnum):
    """A warning on an element or a transition."""

    LEAVES = "leaves"
    """It leads out of the app, or ends it."""
    DESTRUCTIVE = "destructive"
    """It destroys something, or reaches people, money or machines; nothing is ever pressed for a trial."""
    NEEDS_LOGIN = "needs-login"
    """It asks for a password, or leads to a page that does."""
    IDLE = "idle"
    """It was tried and changes nothing that a person sees; no query asks for it."""
    CHANGES = "changes"
    """It changes more than slots and effects tell; paths go through it, but no probe of an end state does."""
    OPENS = "opens"
    """It only opens or closes a menu or a part of the page; paths go through it, and no query asks for it."""

    AWAITS = "awaits"
    """A dialog that can be cancelled: what is set in it has no effect yet, and no query asks for that alone."""


AVOIDED = frozenset({Mark.LEAVES, Mark.DESTRUCTIVE, Mark.NEEDS_LOGIN})
"""Marks of what no path goes through."""


class Feature(Record):
    """An element that a page shows; every key that is given must agree, and one of id, role and text must be given."""

    role: str = ""
    text: str | None = None
    """Its complete text; `{slot}` in the features of a transition stands for the value of a slot."""
    id: str = ""
    """The platform's own name for it."""
    state: str = ""
    """A state that it must have, e.g. `checked`."""
    value: str | None = None
    """The complete text of an input; `{slot}` as in `text`."""

    @model_validator(mode="after")
    def _refuse_empty(self) -> Feature:
        if not (self.role or self.text or self.id):
            raise ValueError("needs one of the keys id, role and text")
        return self

    @property
    def slots(self) -> list[str]:
        """The slots whose values its text and its value have."""
        return PLACE.findall(f"{self.text or ''} {self.value or ''}")

    @property
    def is_open(self) -> bool:
        """Whether it has a placeholder, so that it agrees with no element before it is filled."""
        return "{" in f"{self.text}{self.value}"


class Recogniser(Record):
    """How a page is recognised: all of it must hold."""

    shows: tuple[Feature, ...] = ()
    """Elements that the page always shows."""
    lacks: tuple[Feature, ...] = ()
    """Elements that it never shows and similar pages do."""
    screen: str = ""
    """Perceptual hash of the screen (see `screen_hash`), for pages without an accessibility tree."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no condition; such a recogniser matches no page."""
        return not (self.shows or self.lacks or self.screen)


class GraphElement(Record):
    target: str
    """Its name in paths: the element id, or `role:text` without one (`docs/environments.md`)."""
    role: str = ""
    """Its role in the accessibility tree."""
    name: str = ""
    """What people call it: its text on the screen, or an annotator's words."""
    does: str = ""
    """What it does, in one sentence."""
    marks: tuple[Mark, ...] = ()
    box: Box | None = None
    """Where it was seen, in pixels of the page's screenshot."""

    @property
    def is_nameless(self) -> bool:
        """Whether only its role and position distinguish it from others."""
        return not self.name and self.target.partition("#")[0] == f"{self.role}:"

    @property
    def shows_its_name(self) -> bool:
        """Whether a press shows what its name says, rather than does it."""
        return self.role in ("link", "tab", "menu_item", "list_item")


class SlotKind(StrEnum):
    FIELD = "field"
    """A text is typed; `values` are examples."""
    SWITCH = "switch"
    """A press turns it; the values are `on` and `off`."""
    CHOICE = "choice"
    """One of several is pressed and stays marked (radio buttons, tabs, options)."""
    LIST = "list"
    """One of several items is pressed; each leads the same way."""
    SLIDER = "slider"
    """A key is pressed in it; the values are its ends."""
    KEYPAD = "keypad"
    """Its keys are pressed one after the other, by `targets`; `shown` has what `target` shows after `=`."""


class ValueType(StrEnum):
    """What the values of a slot mean; an answer is only entered where its type is taken."""

    TEXT = "text"
    PERSON = "person"
    TITLE = "title"
    DATE = "date"
    """As `2026-12-01`."""
    TIME = "time"
    """As `14:30`."""
    NUMBER = "number"
    AMOUNT = "amount"
    """Of money."""
    EMAIL = "email"
    PHONE = "phone"
    ADDRESS = "address"
    LINK = "link"
    COLOR = "color"
    """As `#3465A4`."""
    SEARCH = "search"
    """Words that are looked for."""
    SUM = "sum"
    """As `48 + 27`."""


class GraphSlot(Record):
    """A value that the user can ask for on one page (the paper's slot-value pairs, 6.2)."""

    kind: SlotKind
    target: str
    """Name of the element in paths; for a choice and a list the pattern of the pressed elements, with `{value}`."""
    name: str = ""
    """What people call it, e.g. `the title of the note`."""
    description: str = ""
    type: ValueType = ValueType.TEXT
    """What its values mean, e.g. `date`."""
    in_form: bool = False
    """Whether it is a part of a form; no query asks for it alone."""
    marks: tuple[Mark, ...] = ()
    """`idle` for a search or a message that changes nothing."""
    values: tuple[str, ...] = ()
    """Values that can be asked for, as the screen shows them."""
    common: tuple[str, ...] = ()
    """For a search: the values that several rows have; if some are given, only these are combined with other wishes."""
    default: str = ""
    """Its value when the page is opened; empty if unknown."""
    targets: dict[str, str] = {}
    """By value, the element to press, where the pattern does not give it."""
    opens: str = ""
    """For a choice: the element to press first, so that the values are shown."""
    shown: dict[str, str] = {}
    """For a choice or a keypad: by value, what `opens` or `target` shows afterwards, where that is another text."""
    keys: dict[str, str] = {}
    """For a slider: by value, the key that gives it, e.g. `end`."""

    @property
    def is_nameless(self) -> bool:
        """Whether it is a field that only its role and position name, such as the text of a document."""
        takes_text = self.kind is SlotKind.FIELD and self.type is ValueType.TEXT
        return takes_text and re.search(r"_field(#\d+)?$", self.name) is not None

    @property
    def is_picked(self) -> bool:
        """Whether each value has an element of its own to press."""
        return self.kind in (SlotKind.CHOICE, SlotKind.LIST)

    @property
    def offered(self) -> list[str]:
        """The values other than the default."""
        return [each for each in self.values if each != self.default]

    def target_of(self, value: str) -> str:
        if not self.is_picked:
            return self.target
        return self.targets.get(value, self.target.replace(VALUE, value))

    def shown_for(self, value: str) -> str:
        """For a choice: what the element of `opens` shows once a value is chosen."""
        return self.shown.get(value, value)


class GraphTransition(Record):
    """One way from a page: the operation, its target page and its effects."""

    by: Name = ""
    """The element or the slot of the page that is operated; a slot of kind list or choice is pressed at its value.
    Empty for a key that belongs to no element."""
    operation: Literal["tap", "double_tap", "right_tap", "hold", "key"] = "tap"
    keys: str = ""
    """For `key`: the keys, e.g. `enter` or `ctrl+s`."""
    after: tuple[Name, ...] = ()
    """Elements or slots of the page that are operated first, where only that shows the element: each by its own
    transition to the same page."""
    slots: tuple[Name, ...] = ()
    """Slots of the page that must be set before, in this order."""
    to: Name
    """The page that it leads to, maybe the same one; `outside` if it leaves the app."""
    does: str = ""
    """What it changes, in one sentence."""
    submits: bool = False
    """Whether it sends a form: a query fills the `slots` that it names, and leaves the others at their default."""
    shows: tuple[Feature, ...] = ()
    """Elements that stand on the page afterwards; `{slot}` stands for the value of a slot set on the way."""
    lacks: tuple[Feature, ...] = ()
    """Elements that are gone afterwards."""
    goal: dict[str, Any] = {}
    """What it makes beside what the screen shows, as the environment's own goal (`docs/environments.md`), e.g. files or
    settings; `{slot}` in its texts stands for the value of a slot."""
    marks: tuple[Mark, ...] = ()
    address: str = ""
    """For one that leaves: where it leads to, if that is known."""

    @property
    def sorts(self) -> bool:
        return self.does.startswith(SORTS)


class GraphAnswer(Record):
    """A text on a page that another task may need: the answer of an atomic task (NaturalGAIA 3.1).

    It must be the same in each episode, so it is either `known` or made by `prepare`.
    """

    target: str
    """Name in paths of the element that shows it; `{slot}` stands for the value of a slot set on the way."""
    of: Name
    """The slot on the way whose value decides on it, e.g. a list."""
    text: str = ANSWER
    """The complete text of the element, with `{answer}` in it."""
    name: str = ""
    """What people call it, e.g. `the price of {dishes}`; `{slot}` as in `target`."""
    known: dict[str, str] = {}
    """By value of the slot, the answer that a reset always gives."""
    prepare: dict[str, Any] = {}
    """Part of a start state that gives a new value of the slot an answer; `{answer}` and `{slot}` are in its texts."""
    names: tuple[str, ...] = ()
    """New values of the slot for `prepare`; titles such as `Blue Lantern` without any."""
    values: tuple[str, ...] = ()
    """Answers for `prepare`; any text without any."""


class GraphPage(Record):
    """One page of an app: a screen, a dialog or an open menu."""

    title: str = ""
    """What people call it."""
    description: str = ""
    """Its content and purpose (the paper's d_i, 6.2)."""
    recognise: Recogniser = Recogniser()
    marks: tuple[Mark, ...] = ()
    screenshot: str = ""
    """A PNG file, relative to the file of the graph."""
    scrolls: bool = False
    """Whether it is longer than the screen, so that paths scroll to what they operate."""
    elements: dict[Name, GraphElement] = {}
    slots: dict[Name, GraphSlot] = {}
    transitions: tuple[GraphTransition, ...] = ()
    answers: dict[Name, GraphAnswer] = {}

    @property
    def sent(self) -> set[str]:
        return {slot for each in self.transitions if each.submits for slot in each.slots}


class AppGraph(Record):
    """The navigation graph of one app; `pages` are in the order of their discovery or importance."""

    app: Name
    """Its id; pages of queries are `app.page`."""
    title: str = ""
    """Its name in instructions, e.g. `the to-do list`."""
    description: str = ""
    platform: Platform
    start_state: dict[str, Any] = {}
    """The start state, as the environment's reset takes it (`docs/environments.md`)."""
    opening: tuple[PathStep, ...] = ()
    """Operations after a reset that bring the app to the first page, if the start state does not."""
    start: Name
    """The page that a reset (and the opening) leads to."""
    pages: dict[Name, GraphPage]

    @property
    def start_json(self) -> str:
        return json.dumps(self.start_state, sort_keys=True, ensure_ascii=False)

    @property
    def name(self) -> str:
        """Its name in instructions; its id without a title."""
        return self.title or self.app

    def name_of(self, page: str) -> str:
        return self.pages[page].title or page.replace("-", " ")

    def purpose_of(self, page: str) -> str:
        return self.pages[page].description or f"{self.name_of(page)} of {self.name}"

    def transitions(self) -> tuple[tuple[str, GraphTransition], ...]:
        """All transitions, each with the name of the page that it begins at."""
        return tuple((name, each) for name, page in self.pages.items() for each in page.transitions)
