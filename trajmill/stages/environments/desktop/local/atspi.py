"""AT-SPI over D-Bus: roles and states by number, and many calls at the same time, each with a deadline."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from jeepney import DBusAddress, HeaderFields, Message, MessageType, new_method_call
from jeepney.io.blocking import DBusConnection, open_dbus_connection

_IN_FLIGHT = 100
ROLES = tuple(
    """invalid,accelerator-label,alert,animation,arrow,calendar,canvas,check-box,check-menu-item,color-chooser,
    column-header,combo-box,date-editor,desktop-icon,desktop-frame,dial,dialog,directory-pane,drawing-area,
    file-chooser,filler,focus-traversable,font-chooser,frame,glass-pane,html-container,icon,image,internal-frame,
    label,layered-pane,list,list-item,menu,menu-bar,menu-item,option-pane,page-tab,page-tab-list,panel,password-text,
    popup-menu,progress-bar,push-button,radio-button,radio-menu-item,root-pane,row-header,scroll-bar,scroll-pane,
    separator,slider,spin-button,split-pane,status-bar,table,table-cell,table-column-header,table-row-header,
    tear-off-menu-item,terminal,text,toggle-button,tool-bar,tool-tip,tree,tree-table,unknown,viewport,window,extended,
    header,footer,paragraph,ruler,application,autocomplete,editbar,embedded,entry,chart,caption,document-frame,heading,
    page,section,redundant-object,form,link,input-method-window,table-row,tree-item,document-spreadsheet,
    document-presentation,document-text,document-web,document-email,comment,list-box,grouping,image-map,notification,
    info-bar,level-bar,title-bar,block-quote,audio,video,definition,article,landmark,log,marquee,math,rating,timer,
    static,math-fraction,math-root,subscript,superscript,description-list,description-term,description-value,footnote,
    content-deletion,content-insertion,mark,suggestion,push-button-menu,switch""".replace("\n", "")
    .replace(" ", "")
    .split(",")
)
STATES = tuple(
    """invalid,active,armed,busy,checked,collapsed,defunct,editable,enabled,expandable,expanded,focusable,focused,
    has_tooltip,horizontal,iconified,modal,multi_line,multiselectable,opaque,pressed,resizable,selectable,selected,
    sensitive,showing,single_line,stale,transient,vertical,visible,manages_descendants,indeterminate,required,
    truncated,animated,invalid_entry,supports_autocompletion,selectable_text,is_default,visited,checkable,has_popup,
    read_only""".replace("\n", "")
    .replace(" ", "")
    .split(",")
)
_REGISTRY = "org.a11y.atspi.Registry"
_PREFIX = "org.a11y.atspi."
_PROPERTIES = "org.freedesktop.DBus.Properties"
_SCREEN_COORDINATES = 0
_LONGEST = 4000


class BusCall(NamedTuple):
    """A method call on an object of another process."""

    owner: str
    path: str
    interface: str
    method: str
    signature: str = ""
    arguments: tuple[Any, ...] = ()

    def message(self) -> Message:
        """The call as a D-Bus message."""
        address = DBusAddress(self.path, bus_name=self.owner, interface=self.interface)
        return new_method_call(address, self.method, self.signature or None, self.arguments)


class Bus:
    """A connection to a D-Bus daemon."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._connection: DBusConnection = open_dbus_connection(bus=address)

    def ask(self, calls: Sequence[BusCall], seconds: float) -> list[tuple[Any, ...] | None]:
        """Make all calls and return their answers in order; None for an error.

        Raises:
            TimeoutError: not all answers came within `seconds`.
            OSError: the bus is gone.
        """
        deadline = time.monotonic() + seconds
        answers: list[tuple[Any, ...] | None] = [None] * len(calls)
        waiting: dict[int, int] = {}
        for place, call in enumerate(calls):
            if len(waiting) >= _IN_FLIGHT:
                self._receive(waiting, answers, deadline)
            serial = next(self._connection.outgoing_serial)
            waiting[serial] = place
            self._connection.send(call.message(), serial=serial)
        while waiting:
            self._receive(waiting, answers, deadline)
        return answers

    def ask_one(self, call: BusCall, seconds: float) -> tuple[Any, ...] | None:
        """Make one call; raises as `ask`."""
        return self.ask([call], seconds)[0]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _receive(self, waiting: dict[int, int], answers: list[tuple[Any, ...] | None], deadline: float) -> None:
        reply = self._connection.receive(timeout=max(0.0, deadline - time.monotonic()))
        kind = reply.header.message_type
        if kind not in (MessageType.method_return, MessageType.error):
            return
        place = waiting.pop(_reply_serial(reply), None)
        if place is not None and kind is MessageType.method_return:
            answers[place] = reply.body


def _reply_serial(reply: Message) -> int:
    serial: int = reply.header.fields[HeaderFields.reply_serial]
    return serial


class Reference(NamedTuple):
    """An accessible object: the bus name of its program and its path there."""

    owner: str
    path: str

    def call(self, interface: str, method: str, signature: str = "", *arguments: Any) -> BusCall:
        """The call of a method of one of its accessibility interfaces."""
        return BusCall(self.owner, self.path, f"{_PREFIX}{interface}", method, signature, arguments)


class CachedObject(NamedTuple):
    """An object of a program's tree, as the program's cache describes it."""

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
        """Whether the program reports it as visible."""
        return "showing" in self.states and "visible" in self.states


def programs_call() -> BusCall:
    """The call for the root objects of all programs."""
    return BusCall(_REGISTRY, f"/{_PREFIX.replace('.', '/')}accessible/root", f"{_PREFIX}Accessible", "GetChildren")


def tree_call(owner: str) -> BusCall:
    """The call for all cached objects of a program."""
    return BusCall(owner, f"/{_PREFIX.replace('.', '/')}cache", f"{_PREFIX}Cache", "GetItems")


def extents_call(reference: Reference) -> BusCall:
    """The call for the bounds of an object on the screen: x, y, width, height."""
    return reference.call("Component", "GetExtents", "u", _SCREEN_COORDINATES)


def property_call(reference: Reference, interface: str, name: str) -> BusCall:
    """The call for a property of an accessibility interface."""
    arguments = (f"{_PREFIX}{interface}", name)
    return BusCall(reference.owner, reference.path, _PROPERTIES, "Get", "ss", arguments)


def read_item(row: tuple[Any, ...]) -> CachedObject:
    """The object of one row of the answer to `tree_call`."""
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
    """The name of a role; `unknown` if the number is not in the list."""
    return ROLES[number] if number < len(ROLES) else "unknown"


def state_names(words: list[int]) -> frozenset[str]:
    """The names of the states whose bits are set, given as 32-bit words."""
    bits = sum(word << (32 * place) for place, word in enumerate(words))
    return frozenset(name for place, name in enumerate(STATES) if bits >> place & 1)


def read_texts(bus: Bus, references: Sequence[Reference], seconds: float) -> list[str]:
    """The text of each object; a long text is cut, and an object without text gives an empty one.

    The lengths are read first: GTK cuts a range that ends after the text, but LibreOffice then answers with an error.

    Args:
        bus: the accessibility bus.
        references: objects, which need not have the `Text` interface.
        seconds: time limit of each of the two groups of calls.
    """
    counts = bus.ask([property_call(each, "Text", "CharacterCount") for each in references], seconds)
    lengths = [count[0][1] if count else 0 for count in counts]
    filled = [place for place, length in enumerate(lengths) if length > 0]
    calls = [references[place].call("Text", "GetText", "ii", 0, min(lengths[place], _LONGEST)) for place in filled]
    texts = [""] * len(references)
    for place, answer in zip(filled, bus.ask(calls, seconds), strict=True):
        texts[place] = answer[0] if answer else ""
    return texts
