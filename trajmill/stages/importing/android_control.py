"""Reads AndroidControl: GZIP TFRecord files with an episode in each record.

Between consecutive screenshots there is one action. The demonstrations end without one, so the last screen gets the
action that says that the task is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final, Literal

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
from trajmill.schemas.tables.query import Platform
from trajmill.stages.importing.android_forest import read_forest
from trajmill.stages.importing.base import (
    BadRecording,
    BadRecordingError,
    ReadRecording,
    RecordedScreen,
    RecordedStep,
    Recording,
    reading,
)
from trajmill.stages.importing.files import parse_json, screen_of
from trajmill.stages.importing.spec import LayoutSpec
from trajmill.stages.importing.wire import EncodedMessage, TFRecord, read_example, read_records

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
            yield _found(name, record)


def _found(name: str, record: TFRecord) -> ReadRecording:
    try:
        with reading():
            return ReadRecording(_recording(read_example(record.data)), record.compressed)
    except BadRecordingError as error:
        return ReadRecording(BadRecording(name, str(error)), record.compressed)


def _recording(features: Mapping[str, EncodedMessage]) -> Recording:
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
