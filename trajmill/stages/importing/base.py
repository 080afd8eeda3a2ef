"""Recordings of other people's data sets: their layouts, and bounded reading of untrusted files."""

from __future__ import annotations

import io
import json
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

from PIL import Image

from trajmill.schemas.actions import Action
from trajmill.schemas.coordinates import CoordinateFrame, CoordinateSpace
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Point, Size
from trajmill.schemas.observation import UIElement
from trajmill.schemas.spec import Spec
from trajmill.schemas.tables.query import Platform
from trajmill.stages.models.base import ReplyTokens
from trajmill.stages.models.prompts import refuse_constant
from trajmill.stages.parts import PartGroup

_LONGEST_REASON = 200
MOST_JSON_BYTES: Final = 64 << 20
_MOST_IMAGE_BYTES: Final = 32 << 20
_MOST_PIXELS: Final = 40_000_000


class BadRecordingError(Exception):
    """A recording cannot be read; the message is one line."""


class RecordedScreen(NamedTuple):
    image: bytes
    """The encoded image, as the file has it."""
    width: int
    height: int
    elements: tuple[UIElement, ...] | None = None
    """The accessibility tree; None if the layout has none."""
    app: str = ""

    def at(self, x: float, y: float, space: CoordinateSpace) -> Point:
        size = Size(self.width, self.height)
        return CoordinateFrame(space, size, size).to_pixels(x, y)


class RecordedStep(NamedTuple):
    screen: RecordedScreen
    action: Action | None
    """In pixels of the screen; None if the source's action has no counterpart."""
    raw: str
    """The action in the words of the source."""
    thought: str = ""
    conclusion: str = ""
    tokens: ReplyTokens | None = None
    is_context: bool = False
    """Whether the step was copied from another attempt: it is shown in the history and never learned."""
    role_outputs: Mapping[str, str] = MappingProxyType({})


class Recording(NamedTuple):
    name: str
    platform: Platform
    instruction: str
    steps: tuple[RecordedStep, ...]
    last: RecordedScreen | None = None
    """The screen after the last action; None if the source has none."""
    agent: str = "human"
    """Who acted: `human`, or the name of an agent."""
    apps: tuple[str, ...] = ()
    task: str = ""
    """Name of the kind of task; empty for the layout's name."""
    reward: float | None = None
    """The programmatic reward in [0, 1]; None if the source has none."""


class BadRecording(NamedTuple):
    name: str
    reason: str


@dataclass
class ImportCounts:
    trajectories: int = 0
    steps: int = 0
    known: int = 0
    """Recordings that were imported before, or stand in the folder twice."""
    bad: list[BadRecording] = field(default_factory=list)
    """Recordings that cannot be used, each with its reason."""


class ReadRecording(NamedTuple):
    recording: Recording | BadRecording
    size: int
    """Its bytes in the files that list the recordings, for a progress display."""


class LayoutSpec(Spec):
    """A published layout of trajectories."""

    expected: ClassVar[str]
    """Contents of a folder of this layout, for a message."""

    @abstractmethod
    def lists(self, folder: Path) -> Sequence[Path]:
        """Return the files that list the recordings of a folder, sorted; empty if the folder has another layout."""

    @abstractmethod
    def read(self, file: Path, folder: Path) -> Iterator[ReadRecording]:
        """Yield the recordings of one of these files, bad ones included."""

    def checked_lists(self, folder: Path) -> Sequence[Path]:
        """Return the files that list the recordings, or raise BadInputError with what was expected."""
        if not folder.is_dir():
            raise BadInputError(f"there is no folder {folder}; name the folder of the recordings")
        files = self.lists(folder)
        if not files:
            raise BadInputError(f"{folder}: nothing to import: expected {self.expected}")
        return files


LAYOUTS: Final = PartGroup(
    "trajmill.layouts",
    "layout",
    {
        "trajmill": "trajmill.stages.importing.exported:ExportedLayout",
        "agentnet": "trajmill.stages.importing.agentnet:AgentNetLayout",
        "android-control": "trajmill.stages.importing.android_control:AndroidControlLayout",
        "gui-odyssey": "trajmill.stages.importing.phones:GuiOdysseyLayout",
        "amex": "trajmill.stages.importing.phones:AmexLayout",
        "aitz": "trajmill.stages.importing.phones:AitzLayout",
        "atif": "trajmill.stages.importing.atif:AtifLayout",
    },
)


def layout_spec(kind: str, settings: Mapping[str, Any] | None = None) -> LayoutSpec:
    return LAYOUTS.default_spec(kind, LayoutSpec, settings)


@contextmanager
def reading() -> Iterator[None]:
    """Turn what untrusted content can raise into a BadRecordingError of one line."""
    try:
        yield
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        what = "there is no key" if isinstance(error, KeyError) else f"{type(error).__name__}:"
        reason = " ".join(f"cannot be read ({what} {error})".split())[:_LONGEST_REASON]
        raise BadRecordingError(reason) from None


def read_recording(name: str, size: int, make: Callable[[], Recording]) -> ReadRecording:
    """Return the recording that `make` reads from untrusted content, or why it cannot be read."""
    try:
        with reading():
            return ReadRecording(make(), size)
    except BadRecordingError as error:
        return ReadRecording(BadRecording(name, str(error)), size)


def only_recording(file: Path, read: Callable[[Any], Recording]) -> ReadRecording:
    """Return the recording that a function makes of a JSON file, or why it cannot be read."""

    def make() -> Recording:
        with file.open("rb") as stream:
            return read(parse_json(stream.read(MOST_JSON_BYTES)))

    return read_recording(file.stem, file.stat().st_size, make)


def lines_of(file: Path) -> Iterator[bytes]:
    """Yield the lines of a file, one in memory at a time; a line that is too long is cut."""
    with file.open("rb") as stream:
        while text := stream.readline(MOST_JSON_BYTES):
            yield text
            while not text.endswith(b"\n") and len(text) == MOST_JSON_BYTES:
                text = stream.readline(MOST_JSON_BYTES)


def parse_json(text: bytes) -> Any:
    """Parse JSON; raises ValueError if it is none or too long, RecursionError if it is too deep."""
    if len(text) >= MOST_JSON_BYTES:
        raise ValueError(f"more than {MOST_JSON_BYTES >> 20} MiB of JSON")
    return json.loads(text, parse_constant=refuse_constant)


def within(folder: Path, *names: str) -> Path | None:
    """Return the first of some files that exists in a folder; a name that leads out of the folder matches none."""
    home = folder.resolve()
    for name in names:
        path = (folder / name).resolve()
        if "\0" not in name and path.is_relative_to(home) and path.is_file():
            return path
    return None


def read_screen(file: Path | None, name: str) -> RecordedScreen:
    """Read a picture file, or raise BadRecordingError if it is missing, too large or no picture."""
    if file is None:
        raise BadRecordingError(f"screenshot {name!r:.80} is not in the folder of the recordings")
    with file.open("rb") as stream:
        return screen_of(stream.read(_MOST_IMAGE_BYTES + 1), name)


def screen_of(image: bytes, name: str, elements: tuple[UIElement, ...] | None = None) -> RecordedScreen:
    """Decode an encoded picture once, or raise BadRecordingError if it is too large or no whole picture."""
    if len(image) > _MOST_IMAGE_BYTES:
        raise BadRecordingError(f"screenshot {name!r:.80} has more than {_MOST_IMAGE_BYTES >> 20} MiB")
    try:
        with Image.open(io.BytesIO(image)) as picture:
            width, height = picture.size
            if width * height > _MOST_PIXELS:
                raise BadRecordingError(
                    f"screenshot {name!r:.80} has {width} x {height} pixels; at most {_MOST_PIXELS:,} are read"
                )
            picture.load()
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise BadRecordingError(f"screenshot {name!r:.80} cannot be decoded: {type(error).__name__}") from None
    return RecordedScreen(image, width, height, elements)
