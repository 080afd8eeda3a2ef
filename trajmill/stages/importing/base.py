"""What a layout gives: recordings with their screens as they are stored, and recordings that cannot be read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from trajmill.schemas.actions import Action
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.observation import UIElement
from trajmill.schemas.spec import Spec
from trajmill.schemas.tables.query import Platform
from trajmill.stages.parts import PartGroup

_LONGEST_REASON = 200


class BadRecordingError(Exception):
    """A recording cannot be read; the message is one line."""


class RecordedScreen(NamedTuple):
    """A screen of a recording."""

    image: bytes
    """The encoded image, as the file has it."""
    width: int
    height: int
    """Height in pixels, as the width."""
    elements: tuple[UIElement, ...] | None = None
    """The accessibility tree; None if the layout has none."""
    app: str = ""


class RecordedStep(NamedTuple):
    """One action of a recording."""

    screen: RecordedScreen
    action: Action | None
    """In pixels of the screen; None if the source's action has no counterpart."""
    raw: str
    """The action in the words of the source."""
    thought: str = ""
    conclusion: str = ""


class Recording(NamedTuple):
    """One trajectory that was recorded elsewhere."""

    name: str
    """Its name in the source."""
    platform: Platform
    instruction: str
    steps: tuple[RecordedStep, ...]
    last: RecordedScreen | None
    """The screen after the last action; None if the source has none."""
    agent: str
    """Who acted: `human`, or the name of an agent."""
    apps: tuple[str, ...] = ()
    task: str = ""
    """Name of the kind of task; empty for the layout's name."""


class BadRecording(NamedTuple):
    """A recording that cannot be read."""

    name: str
    reason: str


class ReadRecording(NamedTuple):
    """A recording of a folder, or why it cannot be read."""

    recording: Recording | BadRecording
    size: int
    """Its bytes in the files that list the recordings, so that progress can be shown."""


def read_recording(name: str, size: int, make: Callable[[], Recording]) -> ReadRecording:
    """Return the recording that a function makes of untrusted content, or why it cannot be read.

    Args:
        name: its name in the source.
        size: its bytes in the files that list the recordings.
        make: reads it.
    """
    try:
        with reading():
            return ReadRecording(make(), size)
    except BadRecordingError as error:
        return ReadRecording(BadRecording(name, str(error)), size)


@contextmanager
def reading() -> Iterator[None]:
    """Turn what untrusted content can raise into one line.

    Raises:
        BadRecordingError: the block has raised one, or an error of malformed content.
    """
    try:
        yield
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST_REASON]
        raise BadRecordingError(reason) from None


class LayoutSpec(Spec):
    """A published layout of trajectories."""

    @abstractmethod
    def lists(self, folder: Path) -> Sequence[Path]:
        """The files that list the recordings of a folder, sorted; empty if the folder has another layout."""

    @abstractmethod
    def read(self, file: Path, folder: Path) -> Iterator[ReadRecording]:
        """The recordings of one of these files, one at a time; a bad one is given as such and ends nothing."""

    @abstractmethod
    def expected(self) -> str:
        """What a folder of this layout contains, for a message."""

    def checked_lists(self, folder: Path) -> Sequence[Path]:
        """The files that list the recordings.

        Raises:
            BadInputError: there are none; the message says what was expected.
        """
        files = self.lists(folder) if folder.is_dir() else ()
        if not files:
            raise BadInputError(f"{folder}: nothing to import: expected {self.expected()}")
        return files


LAYOUTS: Final = PartGroup(
    "trajmill.layouts",
    "layout",
    {
        "trajmill": "trajmill.stages.importing.exported:ExportedLayout",
        "agentnet": "trajmill.stages.importing.agentnet:AgentNetLayout",
        "android-control": "trajmill.stages.importing.android_control:AndroidControlLayout",
        "gui-odyssey": "trajmill.stages.importing.gui_odyssey:GuiOdysseyLayout",
        "aitz": "trajmill.stages.importing.aitz:AitzLayout",
    },
)


def layout_spec(kind: str) -> LayoutSpec:
    """The spec of a layout.

    Raises:
        BadInputError: there is no such layout; the nearest one is named.
    """
    return LAYOUTS.default_spec(kind, LayoutSpec)
