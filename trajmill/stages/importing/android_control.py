"""Reads AndroidControl: GZIP TFRecord files with an episode in each record.

Between consecutive screenshots there is one action. The demonstrations end without one, so the last screen gets the
action that says that the task is done.
"""

from __future__ import annotations

import gzip
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from trajmill.schemas.actions import (
    Action,
    Click,
    LongPress,
    OpenApp,
    Swipe,
    SystemButton,
    Terminate,
    TypeText,
    Wait,
)
from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.text import storable
from trajmill.stages.importing.base import (
    BadRecording,
    BadRecordingError,
    LayoutSpec,
    ReadRecording,
    RecordedScreen,
    RecordedStep,
    Recording,
    read_recording,
    reading,
)
from trajmill.stages.importing.files import parse_json, screen_of

_VALUES: Final = 1
"""The field of a feature's list that repeats its values."""
_NEAR, _MIDDLE, _FAR = 0.3, 0.5, 0.7
_FINGER: Final = {
    "down": (_MIDDLE, _FAR, _MIDDLE, _NEAR),
    "up": (_MIDDLE, _NEAR, _MIDDLE, _FAR),
    "right": (_FAR, _MIDDLE, _NEAR, _MIDDLE),
    "left": (_NEAR, _MIDDLE, _FAR, _MIDDLE),
}
"""Where the finger goes to see what lies in a direction, as shares of the screen."""


class AndroidControlLayout(LayoutSpec):
    """Human demonstrations in 833 Android apps, with accessibility trees."""

    kind: Literal["android-control"] = "android-control"
    """Android, with accessibility trees."""

    def lists(self, folder: Path) -> Sequence[Path]:
        """The TFRecord files, e.g. `android_control-00000-of-00020`."""
        found = (*folder.glob("android_control*"), *folder.glob("*.tfrecord*"))
        return sorted({path for path in found if path.is_file()})

    def expected(self) -> str:
        """What a folder contains."""
        return "TFRecord files android_control-NNNNN-of-NNNNN"

    def read(self, file: Path, folder: Path) -> Iterator[ReadRecording]:
        """The episodes of a file; what follows a damaged place cannot be read."""
        records = read_records(file)
        for number in count():
            name = f"{file.name}:{number}"
            try:
                with reading():
                    record = next(records, None)
            except (BadRecordingError, EOFError) as error:
                yield ReadRecording(BadRecording(name, f"the rest of the file cannot be read ({error})"), 0)
                return
            if record is None:
                return
            yield read_recording(name, record.compressed, partial(_recording, record.data))


def _recording(data: bytes) -> Recording:
    features = read_example(data)
    screens = _screens(features)
    said = [text.decode() for text in features["step_instructions"].strings(_VALUES)]
    actions = [text.decode() for text in features["actions"].strings(_VALUES)]
    if len(screens) != len(actions) + 1 or len(said) != len(actions):
        raise ValueError(f"{len(screens)} screenshots, {len(actions)} actions and {len(said)} step instructions")
    acting = screens[:-1]
    steps = [
        RecordedStep(screen, done, action, conclusion=conclusion)
        for screen, action, conclusion in zip(acting, actions, said, strict=True)
        for done in _actions(parse_json(action.encode()), screen)
    ]
    end = RecordedStep(screens[-1], Terminate(status="success"), "", conclusion="The task is done.")
    return Recording(
        name=str(features["episode_id"].numbers(_VALUES)[0]),
        platform=Platform.PHONE,
        instruction=features["goal"].strings(_VALUES)[0].decode(),
        steps=(*steps, end),
        last=None,
        agent="human",
    )


def _screens(features: Mapping[str, EncodedMessage]) -> list[RecordedScreen]:
    pictures = features["screenshots"].strings(_VALUES)
    trees = features["accessibility_trees"].strings(_VALUES)
    if len(trees) != len(pictures):
        raise ValueError(f"{len(pictures)} screenshots and {len(trees)} accessibility trees")
    return [
        screen_of(picture, f"screenshot {number}", read_forest(tree))
        for number, (picture, tree) in enumerate(zip(pictures, trees, strict=True))
    ]


def _actions(found: Mapping[str, Any], screen: RecordedScreen) -> tuple[Action | None, ...]:
    """The actions of an entry: `type` presses a field, writes into it and presses Enter."""
    match found:
        case {"action_type": "type", "x": x, "y": y, "text": str(text)}:
            return Click(x=int(x), y=int(y)), TypeText(text=text), SystemButton(button="Enter")
        case _:
            return (_action(found, screen),)


def _action(found: Mapping[str, Any], screen: RecordedScreen) -> Action | None:
    match found:
        case {"action_type": "click", "x": x, "y": y}:
            return Click(x=int(x), y=int(y))
        case {"action_type": "long_press", "x": x, "y": y}:
            return LongPress(x=int(x), y=int(y))
        case {"action_type": "scroll", "direction": str(direction)} if direction in _FINGER:
            wide, high, wide2, high2 = _FINGER[direction]
            x, x2 = round(wide * screen.width), round(wide2 * screen.width)
            return Swipe(x=x, y=round(high * screen.height), x2=x2, y2=round(high2 * screen.height))
        case {"action_type": "input_text", "text": str(text)}:
            return TypeText(text=text)
        case {"action_type": "open_app", "app_name": str(app)}:
            return OpenApp(app=app)
        case {"action_type": "navigate_home"}:
            return SystemButton(button="Home")
        case {"action_type": "navigate_back"}:
            return SystemButton(button="Back")
        case {"action_type": "wait"}:
            return Wait()
        case _:
            return None


_WINDOWS: Final = 1
_LAYER, _TREE = 4, 11
_NODES: Final = 1
_BOUNDS, _CLASS, _DESCRIPTION, _HINT, _TEXT, _ID = 2, 3, 4, 5, 7, 10
_CHECKED, _CLICKABLE, _EDITABLE, _ENABLED, _FOCUSED, _PASSWORD, _SCROLLABLE, _SELECTED, _VISIBLE = (
    *(13, 14, 15, 16, 18, 20, 21, 22, 23),
)
_STATES: Final = {
    _CLICKABLE: ("clickable",),
    _CHECKED: ("checked",),
    _SELECTED: ("selected",),
    _FOCUSED: ("focused",),
    _EDITABLE: ("editable",),
    _SCROLLABLE: ("scrollable_down", "scrollable_up"),
    _PASSWORD: ("password",),
}
_ROLES: Final = {
    "Button": "button",
    "ImageButton": "button",
    "EditText": "text_field",
    "CheckBox": "checkbox",
    "Switch": "switch",
    "RadioButton": "radio",
    "ImageView": "image",
    "TextView": "text",
}


def read_forest(data: bytes) -> tuple[UIElement, ...]:
    """The visible elements with a text or something to press, from the front window to the back.

    Raises:
        ValueError: the bytes are no forest.
    """
    windows = sorted(EncodedMessage(data).messages(_WINDOWS), key=lambda window: -window.number(_LAYER))
    return tuple(
        element
        for window in windows
        for tree in window.messages(_TREE)
        for node in tree.messages(_NODES)
        for element in _element(node)
    )


def _element(node: EncodedMessage) -> Iterator[UIElement]:
    said, typed = node.text(_DESCRIPTION), node.text(_TEXT)
    editable = bool(node.number(_EDITABLE))
    label = storable((said or node.text(_HINT)) if editable else (typed or said))
    states = [state for field, names in _STATES.items() if node.number(field) for state in names]
    if not node.number(_ENABLED):
        states.append("disabled")
    bounds = _box(node)
    if not node.number(_VISIBLE) or bounds.area == 0 or not (label or editable or "clickable" in states):
        return
    role = "text_field" if editable else _ROLES.get(node.text(_CLASS).rpartition(".")[2], "group")
    value = storable(typed) if editable else ""
    yield UIElement(role, label, bounds, tuple(states), value, storable(node.text(_ID)))


def _box(node: EncodedMessage) -> Box:
    for rect in node.messages(_BOUNDS):
        return Box(*(max(-(1 << 20), min(rect.number(side), 1 << 20)) for side in (1, 2, 3, 4)))
    return Box(0, 0, 0, 0)


_MOST_BYTES = 512 << 20
_HEADER = struct.Struct("<QI")
_CHECKSUM_BYTES = 4
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}
_SIGN = 1 << 63


class TFRecord(NamedTuple):
    """A record of a file."""

    data: bytes
    compressed: int
    """Bytes of the file that were read for it."""


def read_records(file: Path) -> Iterator[TFRecord]:
    """The records of a TFRecord file, one in memory at a time; the file may be compressed with GZIP.

    Raises:
        ValueError: the file is cut short, or a record is too long.
        OSError: it cannot be read, or its compression is damaged.
    """
    with file.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        stream = gzip.GzipFile(fileobj=raw) if packed else raw
        before = 0
        while header := stream.read(_HEADER.size):
            length, _ = _HEADER.unpack(header)
            if length > _MOST_BYTES:
                raise ValueError(f"a record of {length:,} bytes")
            data = stream.read(length)
            if len(data) < length or len(stream.read(_CHECKSUM_BYTES)) < _CHECKSUM_BYTES:
                raise ValueError("the file is cut short")
            yield TFRecord(data, raw.tell() - before)
            before = raw.tell()


class EncodedMessage:
    """The fields of an encoded message, by number."""

    def __init__(self, data: bytes) -> None:
        """Read the fields of a message, not those of messages in it.

        Raises:
            ValueError: the bytes are no message.
        """
        self._numbers: dict[int, list[int]] = defaultdict(list)
        self._bytes: dict[int, list[bytes]] = defaultdict(list)
        position = 0
        while position < len(data):
            tag, position = _varint(data, position)
            field, kind = tag >> 3, tag & 7
            if kind == _VARINT:
                number, position = _varint(data, position)
                self._numbers[field].append(number)
                continue
            length = _FIXED.get(kind)
            if kind == _BYTES:
                length, position = _varint(data, position)
            if length is None or position + length > len(data):
                raise ValueError("these bytes are no message")
            self._bytes[field].append(data[position : position + length])
            position += length

    def number(self, field: int) -> int:
        """The last value of a whole number; 0 without one."""
        return (self.numbers(field) or [0])[-1]

    def numbers(self, field: int) -> list[int]:
        """All values of a whole number, packed or not."""
        found = list(self._numbers[field])
        for packed in self._bytes[field]:
            position = 0
            while position < len(packed):
                value, position = _varint(packed, position)
                found.append(value)
        return [_signed(value) for value in found]

    def strings(self, field: int) -> list[bytes]:
        """All values of a string, or of bytes."""
        return self._bytes[field]

    def text(self, field: int) -> str:
        """The last value of a string; empty without one."""
        return self._bytes[field][-1].decode("utf-8", "replace") if self._bytes[field] else ""

    def messages(self, field: int) -> list[EncodedMessage]:
        """All messages of a field. Raises ValueError if one is none."""
        return [EncodedMessage(data) for data in self._bytes[field]]


def read_example(data: bytes) -> dict[str, EncodedMessage]:
    """The features of a `tf.train.Example` by name; field 1 of each has its byte strings, field 3 its numbers.

    Raises:
        ValueError: the bytes are none.
    """
    found: dict[str, EncodedMessage] = {}
    for features in EncodedMessage(data).messages(1):
        for entry in features.messages(1):
            for feature in entry.messages(2):
                lists = [*feature.strings(1), *feature.strings(3)]
                # A feature has one list: field 1 of it repeats the values, of bytes or of numbers.
                found[entry.text(1)] = EncodedMessage(b"".join(lists))
    return found


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift < 70:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return value, position
        shift += 7
    raise ValueError("these bytes are no message")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= _SIGN else value
