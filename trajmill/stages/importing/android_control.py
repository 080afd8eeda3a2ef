"""AndroidControl: GZIP TFRecord files with an episode in each record.

Between consecutive screenshots there is one action. The demonstrations end without one, so the last screen gets the
action `terminate`.
"""

from __future__ import annotations

import gzip
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, NamedTuple

from trajmill.schemas import actions
from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.text import storable
from trajmill.stages.importing import base

_NEAR, _MIDDLE, _FAR = 0.3, 0.5, 0.7
_FINGER: Final = {
    "down": (_MIDDLE, _FAR, _MIDDLE, _NEAR),
    "up": (_MIDDLE, _NEAR, _MIDDLE, _FAR),
    "right": (_FAR, _MIDDLE, _NEAR, _MIDDLE),
    "left": (_NEAR, _MIDDLE, _FAR, _MIDDLE),
}
"""Start and end of the swipe that shows what lies in a direction, as shares of the screen."""


class AndroidControlLayout(base.LayoutSpec):
    """Human demonstrations in 833 Android apps, with accessibility trees."""

    expected: ClassVar[str] = "TFRecord files android_control-NNNNN-of-NNNNN"
    kind: Literal["android-control"] = "android-control"
    """Android, with accessibility trees."""

    def lists(self, folder: Path) -> Sequence[Path]:
        found = (*folder.glob("android_control*"), *folder.glob("*.tfrecord*"))
        return sorted({path for path in found if path.is_file()})

    def read(self, file: Path, folder: Path) -> Iterator[base.ReadRecording]:
        """Yield the episodes of a file; what follows a damaged place cannot be read."""
        records = read_records(file)
        for number in count():
            name = f"{file.name}:{number}"
            try:
                with base.reading():
                    record = next(records, None)
            except (base.BadRecordingError, EOFError) as error:
                yield base.ReadRecording(base.BadRecording(name, f"the rest of the file cannot be read ({error})"), 0)
                return
            if record is None:
                return
            yield base.read_recording(name, record.compressed, partial(_recording, record.data))


def _recording(data: bytes) -> base.Recording:
    features = read_example(data)
    pictures, trees, entries, instructions = (
        features[name].strings(1) for name in ("screenshots", "accessibility_trees", "actions", "step_instructions")
    )
    if len(trees) != len(pictures):
        raise ValueError(f"{len(pictures)} screenshots and {len(trees)} accessibility trees")
    if len(pictures) != len(entries) + 1 or len(instructions) != len(entries):
        counts = f"{len(entries)} actions and {len(instructions)} step instructions"
        raise ValueError(f"{len(pictures)} screenshots, {counts}")
    screens = [
        base.screen_of(picture, f"screenshot {number}", read_forest(tree))
        for number, (picture, tree) in enumerate(zip(pictures, trees, strict=True))
    ]
    steps = [
        base.RecordedStep(screen, action, encoded.decode(), conclusion=instruction.decode())
        for screen, encoded, instruction in zip(screens[:-1], entries, instructions, strict=True)
        for action in _actions(base.parse_json(encoded), screen)
    ]
    end = base.RecordedStep(screens[-1], actions.Terminate(status="success"), "", conclusion="The task is done.")
    return base.Recording(
        name=str(features["episode_id"].numbers(1)[0]),
        platform=Platform.PHONE,
        instruction=features["goal"].strings(1)[0].decode(),
        steps=(*steps, end),
    )


def _actions(found: Mapping[str, Any], screen: base.RecordedScreen) -> tuple[actions.Action | None, ...]:
    """Return the actions of an entry: `type` presses a field, writes into it and presses Enter."""
    match found:
        case {"action_type": "type", "x": x, "y": y, "text": str(text)}:
            return actions.Click(x=int(x), y=int(y)), actions.TypeText(text=text), actions.SystemButton(button="Enter")
        case {"action_type": "click", "x": x, "y": y}:
            return (actions.Click(x=int(x), y=int(y)),)
        case {"action_type": "long_press", "x": x, "y": y}:
            return (actions.LongPress(x=int(x), y=int(y)),)
        case {"action_type": "scroll", "direction": str(direction)} if direction in _FINGER:
            wide, high, wide2, high2 = _FINGER[direction]
            x, x2 = round(wide * screen.width), round(wide2 * screen.width)
            return (actions.Swipe(x=x, y=round(high * screen.height), x2=x2, y2=round(high2 * screen.height)),)
        case {"action_type": "input_text", "text": str(text)}:
            return (actions.TypeText(text=text),)
        case {"action_type": "open_app", "app_name": str(app)}:
            return (actions.OpenApp(app=app),)
        case {"action_type": "navigate_home"}:
            return (actions.SystemButton(button="Home"),)
        case {"action_type": "navigate_back"}:
            return (actions.SystemButton(button="Back"),)
        case {"action_type": "wait"}:
            return (actions.Wait(),)
        case _:
            return (None,)


# Field numbers of an accessibility forest, its windows, trees and nodes.
_WINDOWS: Final = 1
_LAYER, _TREE = 4, 11
_NODES: Final = 1
_BOUNDS, _CLASS, _DESCRIPTION, _HINT, _TEXT, _ID = 2, 3, 4, 5, 7, 10
_EDITABLE, _ENABLED, _VISIBLE = 15, 16, 23
_STATES: Final = {
    14: ("clickable",),
    13: ("checked",),
    22: ("selected",),
    18: ("focused",),
    _EDITABLE: ("editable",),
    21: ("scrollable_down", "scrollable_up"),
    20: ("password",),
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
_FARTHEST = 1 << 20


def read_forest(data: bytes) -> tuple[UIElement, ...]:
    """Return the visible elements with a text or something to press, from the front window to the back."""
    elements = []
    windows = sorted(EncodedMessage(data).messages(_WINDOWS), key=lambda window: -window.number(_LAYER))
    nodes = (node for window in windows for tree in window.messages(_TREE) for node in tree.messages(_NODES))
    for node in nodes:
        description, text, editable = node.text(_DESCRIPTION), node.text(_TEXT), bool(node.number(_EDITABLE))
        label = storable((description or node.text(_HINT)) if editable else (text or description))
        states = [state for field, names in _STATES.items() if node.number(field) for state in names]
        if not node.number(_ENABLED):
            states.append("disabled")
        bounds = Box(0, 0, 0, 0)
        for rect in node.messages(_BOUNDS)[:1]:
            bounds = Box(*(max(-_FARTHEST, min(rect.number(side), _FARTHEST)) for side in (1, 2, 3, 4)))
        if node.number(_VISIBLE) and bounds.area and (label or editable or "clickable" in states):
            role = "text_field" if editable else _ROLES.get(node.text(_CLASS).rpartition(".")[2], "group")
            value = storable(text) if editable else ""
            elements.append(UIElement(role, label, bounds, tuple(states), value, storable(node.text(_ID))))
    return tuple(elements)


_MOST_BYTES = 512 << 20
_HEADER = struct.Struct("<QI")
_CHECKSUM_BYTES = 4


class TFRecord(NamedTuple):
    data: bytes
    compressed: int
    """Bytes of the file that were read for it."""


def read_records(file: Path) -> Iterator[TFRecord]:
    """Yield the records of a TFRecord file, plain or GZIP; raises ValueError or OSError for a damaged one."""
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


_VARINT, _BYTES = 0, 2
_FIXED = {1: 8, 5: 4}
"""Lengths of the wire types of fixed size."""


class EncodedMessage:
    """The fields of an encoded protocol buffer, by number. Raises ValueError for bytes that are none."""

    def __init__(self, data: bytes) -> None:
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
        return (self.numbers(field) or [0])[-1]

    def numbers(self, field: int) -> list[int]:
        """Return all values of a whole number, packed or not."""
        found = list(self._numbers[field])
        for packed in self._bytes[field]:
            position = 0
            while position < len(packed):
                value, position = _varint(packed, position)
                found.append(value)
        return [value - (1 << 64) if value >= 1 << 63 else value for value in found]

    def strings(self, field: int) -> list[bytes]:
        return self._bytes[field]

    def text(self, field: int) -> str:
        return self._bytes[field][-1].decode("utf-8", "replace") if self._bytes[field] else ""

    def messages(self, field: int) -> list[EncodedMessage]:
        return [EncodedMessage(data) for data in self._bytes[field]]


def read_example(data: bytes) -> dict[str, EncodedMessage]:
    """Return the lists of a `tf.train.Example` by name; field 1 of each repeats its byte strings or numbers."""
    found: dict[str, EncodedMessage] = {}
    for features in EncodedMessage(data).messages(1):
        for entry in features.messages(1):
            for feature in entry.messages(2):
                found[entry.text(1)] = EncodedMessage(b"".join([*feature.strings(1), *feature.strings(3)]))
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
