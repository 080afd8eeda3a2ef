"""What a layout gives: recordings with their screens as they are stored, and recordings that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from trajmill.schemas.actions import Action
from trajmill.schemas.observation import UIElement
from trajmill.schemas.tables.query import Platform

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
