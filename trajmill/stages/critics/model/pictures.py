"""Gives stored screens as images of a request; they are read, and marks drawn, only when the request is sent.

So an answer from the request cache costs neither reading nor drawing.
"""

from __future__ import annotations

from functools import partial

from PIL import Image

from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.observation import ScreenHandle, ScreenReader, UIElement
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.step import Step
from trajmill.stages.critics.model.marking import MARKS, marked

_UNREADABLE = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)
"""The errors of Pillow for bytes that are no image, a broken one or an extremely large one."""


def picture(screen_id: str, screens: ScreenReader) -> ScreenHandle:
    """A stored screen without marks.

    Raises:
        KeyError: the screen is not stored.
    """
    return ScreenHandle(screen_id, screens.size(screen_id), partial(screens.image, screen_id))


def marked_picture(step: Step, screens: ScreenReader) -> ScreenHandle:
    """The screen before a step with its action marked (paper 6.3); its id is the screen's id followed by the mark's.

    Encoding it raises `ModelFailure` if the stored image does not decode.

    Raises:
        KeyError: the screen is not stored.
    """
    size, elements = screens.size(step.screen_before), screens.elements(step.screen_before)
    mark = content_id(MARKS, step.action)[:12]
    return ScreenHandle(f"{step.screen_before}+{mark}", size, partial(_drawn, step, elements, screens))


def _drawn(step: Step, elements: tuple[UIElement, ...], screens: ScreenReader) -> bytes:
    """Draw the mark; runs in any thread, and uses only `image` of the screen reader."""
    stored = screens.image(step.screen_before)
    try:
        return stored if step.action is None else marked(stored, step.action, elements)
    except _UNREADABLE as error:
        raise ModelFailure(f"screen {step.screen_before}: the image does not decode") from error
