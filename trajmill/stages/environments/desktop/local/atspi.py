"""AT-SPI over D-Bus: roles and states by number, and many calls at once with a deadline."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from jeepney import DBusAddress, HeaderFields, Message, MessageType, new_method_call
from jeepney.io.blocking import DBusConnection, open_dbus_connection

from trajmill.schemas.geometry import Box

SECONDS_TO_READ = 10.0
"""Time limit for a program's tree; a program that takes longer hangs."""
_IN_FLIGHT = 100
_ROLES = """invalid accelerator-label alert animation arrow calendar canvas check-box check-menu-item color-chooser
column-header combo-box date-editor desktop-icon desktop-frame dial dialog directory-pane drawing-area
file-chooser filler focus-traversable font-chooser frame glass-pane html-container icon image internal-frame
label layered-pane list list-item menu menu-bar menu-item option-pane page-tab page-tab-list panel password-text
popup-menu progress-bar push-button radio-button radio-menu-item root-pane row-header scroll-bar scroll-pane
separator slider spin-button split-pane status-bar table table-cell table-column-header table-row-header
tear-off-menu-item terminal text toggle-button tool-bar tool-tip tree tree-table unknown viewport window extended
header footer paragraph ruler application autocomplete editbar embedded entry chart caption document-frame heading
page section redundant-object form link input-method-window table-row tree-item document-spreadsheet
document-presentation document-text document-web document-email comment list-box grouping image-map notification
info-bar level-bar title-bar block-quote audio video definition article landmark log marquee math rating timer
static math-fraction math-root subscript superscript description-list description-term description-value footnote
content-deletion content-insertion mark suggestion push-button-menu switch"""
ROLES = tuple(_ROLES.split())
_STATES = """invalid active armed busy checked collapsed defunct editable enabled expandable expanded focusable focused
has_tooltip horizontal iconified modal multi_line multiselectable opaque pressed resizable selectable selected
sensitive showing single_line stale transient vertical visible manages_descendants indeterminate required
truncated animated invalid_entry supports_autocompletion selectable_text is_default visited checkable has_popup
read_only"""
STATES = tuple(_STATES.split())
_REGISTRY = "org.a11y.atspi.Registry"
_PREFIX = "org.a11y.atspi."
_PROPERTIES = "org.freedesktop.DBus.Properties"
_SCREEN_COORDINATES = 0
_LONGEST = 4000


class BusCall(NamedTuple):
    owner: str
    path: str
    interface: str
    method: str
    signature: str = ""
    arguments: tuple[Any, ...] = ()

    def message(self) -> Message:
        address = DBusAddress(self.path, bus_name=self.owner, interface=self.interface)
        return new_method_call(address, self.method, self.signature or None, self.arguments)


class Bus:
    def __init__(self, address: str) -> None:
        self.address = address
        self._connection: DBusConnection = open_dbus_connection(bus=address)

    def ask(self, calls: Sequence[BusCall], seconds: float = SECONDS_TO_READ) -> list[tuple[Any, ...] | None]:
        """Return the answers in order, None for an error; raises TimeoutError, or OSError if the bus is gone."""
        deadline = time.monotonic() + seconds
        answers: list[tuple[Any, ...] | None] = [None] * len(calls)
        for start in range(0, len(calls), _IN_FLIGHT):
            places = range(start, min(start + _IN_FLIGHT, len(calls)))
            waiting = {next(self._connection.outgoing_serial): place for place in places}
            # In one write: each would wake the bus and the program.
            messages = [calls[place].message().serialise(serial) for serial, place in waiting.items()]
            self._connection.sock.sendall(b"".join(messages))
            while waiting:
                reply = self._connection.receive(timeout=max(0.0, deadline - time.monotonic()))
                place = waiting.pop(reply.header.fields.get(HeaderFields.reply_serial), -1)
                if place >= 0 and reply.header.message_type is MessageType.method_return:
                    answers[place] = reply.body
        return answers

    def ask_one(self, call: BusCall, seconds: float = SECONDS_TO_READ) -> tuple[Any, ...] | None:
        return self.ask([call], seconds)[0]

    def close(self) -> None:
        self._connection.close()


class Reference(NamedTuple):
    owner: str
    path: str

    def call(self, interface: str, method: str, signature: str = "", *arguments: Any) -> BusCall:
        return BusCall(self.owner, self.path, f"{_PREFIX}{interface}", method, signature, arguments)


class CachedObject(NamedTuple):
    reference: Reference
    parent: Reference
    place: int
    """Its index among its parent's children; -1 if the program does not give it."""
    children: int
    """The number of its children; -1 if the program does not give it."""
    interfaces: frozenset[str]
    name: str
    role: str
    states: frozenset[str]

    @property
    def shown(self) -> bool:
        return "showing" in self.states and "visible" in self.states


def programs_call() -> BusCall:
    return BusCall(_REGISTRY, f"/{_PREFIX.replace('.', '/')}accessible/root", f"{_PREFIX}Accessible", "GetChildren")


def tree_call(owner: str) -> BusCall:
    return BusCall(owner, f"/{_PREFIX.replace('.', '/')}cache", f"{_PREFIX}Cache", "GetItems")


def extents_call(reference: Reference) -> BusCall:
    return reference.call("Component", "GetExtents", "u", _SCREEN_COORDINATES)


def box_of(extents: tuple[Any, ...] | None) -> Box:
    left, top, width, height = extents[0] if extents else (0, 0, 0, 0)
    return Box(left, top, left + width, top + height)


def property_call(reference: Reference, interface: str, name: str) -> BusCall:
    arguments = (f"{_PREFIX}{interface}", name)
    return BusCall(reference.owner, reference.path, _PROPERTIES, "Get", "ss", arguments)


def read_item(row: tuple[Any, ...]) -> CachedObject:
    reference, _, parent, place, children, interfaces, name, role, _, states = row
    return CachedObject(
        Reference(*reference),
        Reference(*parent),
        place,
        children,
        frozenset(interface.removeprefix(_PREFIX) for interface in interfaces),
        name.strip(),
        role_name(role),
        state_names(states),
    )


def role_name(number: int) -> str:
    return ROLES[number] if number < len(ROLES) else "unknown"


def state_names(words: list[int]) -> frozenset[str]:
    bits = sum(word << (32 * place) for place, word in enumerate(words))
    return frozenset(name for place, name in enumerate(STATES) if bits >> place & 1)


def read_texts(bus: Bus, references: Sequence[Reference]) -> list[str]:
    """Read the text of each object, empty without the interface `Text`; a long text is cut.

    The lengths are read first: GTK cuts a range that ends after the text, but LibreOffice answers with an error.
    """
    counts = bus.ask([property_call(each, "Text", "CharacterCount") for each in references])
    lengths = [count[0][1] if count else 0 for count in counts]
    filled = [place for place, length in enumerate(lengths) if length > 0]
    calls = [references[place].call("Text", "GetText", "ii", 0, min(lengths[place], _LONGEST)) for place in filled]
    answers = dict(zip(filled, bus.ask(calls), strict=True))
    return [(answers.get(place) or ("",))[0] for place in range(len(references))]
