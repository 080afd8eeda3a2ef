"""A question that the browser itself asks, drawn over the page as a window with buttons.

Chromium without a head shows neither the dialogs of a page (alert, confirm, prompt, leaving) nor its file chooser, and
the page stands still while one is open. So it is drawn here, the agent presses its buttons by pixel like any other,
and what it presses is told to the browser.
"""

from __future__ import annotations

import io
from functools import lru_cache
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont

from trajmill.schemas.actions import Action, Click, PressKeys, SystemButton, TypeText
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import UIElement

_WIDTH, _TEXT_SIZE, _GAP = 300, 13, 10  # CSS pixels
_MOST_LINES = 12
_SHADE = 0.45
_PAPER, _EDGE, _INK, _BUTTON, _FIELD = (255, 255, 255), (120, 120, 120), (20, 20, 20), (225, 230, 240), (250, 250, 235)


class Question(NamedTuple):
    """What is asked."""

    text: str
    buttons: tuple[str, ...]
    """From top to bottom; the last one is what Escape presses, the first one what Enter presses."""
    typed: str | None = None
    """What its field holds; None if it has none."""


class Sheet(NamedTuple):
    """A question and where it is drawn, in pixels of the screenshot."""

    question: Question
    window: Box
    lines: tuple[str, ...]
    text: Box
    field: Box | None
    buttons: tuple[Box, ...]
    text_size: int


class Pressed(NamedTuple):
    """The agent has answered."""

    button: int
    typed: str


def lay_out(question: Question, size: Size, scale: int) -> Sheet:
    """Place a question in the upper middle of a screen.

    Args:
        question: what is asked.
        size: of the screenshot, in pixels.
        scale: screenshot pixels per CSS pixel.
    """
    gap, text_size = _GAP * scale, _TEXT_SIZE * scale
    # A small screen gets smaller text, so that all buttons are on it.
    row = text_size * 2
    rows = len(question.buttons) + (question.typed is not None)
    while rows * (row + gap) + 3 * gap + 2 * text_size > size.height and text_size > 6:
        text_size -= 1
        row, gap = text_size * 2, max(2, gap - 1)
    width = min(_WIDTH * scale, size.width - 2 * gap)
    left = (size.width - width) // 2
    lines = _wrapped(question.text, text_size, width - 2 * gap)
    leading = text_size * 5 // 4
    height = 2 * gap + leading * len(lines) + rows * (row + gap)
    top = max(0, min(gap * 2, size.height - height))
    inner_left, inner_right = left + gap, left + width - gap
    text = Box(inner_left, top + gap, inner_right, top + gap + leading * len(lines))
    boxes = [
        Box(inner_left, begin, inner_right, begin + row)
        for begin in (text.bottom + gap + (row + gap) * number for number in range(rows))
    ]
    field = boxes.pop(0) if question.typed is not None else None
    window = Box(left, top, left + width, min(size.height, top + height))
    return Sheet(question, window, lines, text, field, tuple(boxes), text_size)


def draw(sheet: Sheet, behind: bytes | None, size: Size) -> bytes:
    """The sheet over the page as it was seen last, darkened.

    Args:
        sheet: what to draw.
        behind: PNG of the page; white if None.
        size: of the picture.

    Returns:
        A PNG.
    """
    white = Image.new("RGB", size, "white")
    page = Image.open(io.BytesIO(behind)).convert("RGB") if behind is not None else white
    picture = Image.blend(page, Image.new("RGB", page.size, "black"), _SHADE)
    pen, font = ImageDraw.Draw(picture), _font(sheet.text_size)
    pen.rectangle(_inclusive(sheet.window), fill=_PAPER, outline=_EDGE)
    pen.multiline_text(sheet.text[:2], "\n".join(sheet.lines), fill=_INK, font=font, spacing=sheet.text_size // 4)
    if sheet.field is not None:
        _labelled(pen, sheet.field, sheet.question.typed or "", _FIELD, sheet.text_size)
    for box, label in zip(sheet.buttons, sheet.question.buttons, strict=True):
        _labelled(pen, box, label, _BUTTON, sheet.text_size)
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()


def elements_of(sheet: Sheet) -> tuple[UIElement, ...]:
    """What can be read and pressed; nothing of the page behind can be."""
    question = sheet.question
    found = [UIElement("dialog", "", sheet.window), UIElement("text", question.text, sheet.text)]
    if sheet.field is not None:
        states = ("clickable", "focused", "editable")
        found.append(UIElement("text_field", question.text, sheet.field, states, question.typed or ""))
    for box, label in zip(sheet.buttons, question.buttons, strict=True):
        found.append(UIElement("button", label, box, ("clickable",)))
    return tuple(found)


def react(sheet: Sheet, action: Action) -> Sheet | Pressed:
    """What an action does to a sheet: an answer, another text in its field, or nothing."""
    question = sheet.question
    typed = question.typed or ""
    match action:
        case Click(x=x, y=y):
            hit = [number for number, box in enumerate(sheet.buttons) if box.contains(x, y)]
            return Pressed(hit[0], typed) if hit else sheet
        case TypeText(text=text, clear=clear, enter=enter) if question.typed is not None:
            typed = text if clear else typed + text
            written = sheet._replace(question=question._replace(typed=typed))
            return Pressed(0, typed) if enter else written
        case PressKeys(keys=(key,)) if key.lower() in ("enter", "return"):
            return Pressed(0, typed)
        case PressKeys(keys=(key,)) if key.lower() in ("esc", "escape"):
            return Pressed(len(question.buttons) - 1, typed)
        case SystemButton(button="Enter"):
            return Pressed(0, typed)
        case SystemButton(button="Back"):
            return Pressed(len(question.buttons) - 1, typed)
        case _:
            return sheet


@lru_cache(maxsize=16)
def _font(size: int) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(size)
    assert isinstance(font, ImageFont.FreeTypeFont), "Pillow was built without FreeType"
    return font


def _wrapped(text: str, text_size: int, width: int) -> tuple[str, ...]:
    """The text in lines of at most `width` pixels; what is too much for a sheet is left out."""
    font = _font(text_size)
    lines: list[str] = []
    for paragraph in text.splitlines():
        line = ""
        for word in paragraph.split():
            longer = f"{line} {word}".strip()
            if line and font.getlength(longer) > width:
                lines.append(line)
                longer = word
            line = longer
        lines.append(line)
    return tuple(lines[:_MOST_LINES])


def _labelled(pen: ImageDraw.ImageDraw, box: Box, label: str, fill: tuple[int, int, int], text_size: int) -> None:
    pen.rectangle(_inclusive(box), fill=fill, outline=_EDGE)
    middle = (box.top + box.bottom) // 2
    pen.text((box.left + text_size // 2, middle), label, fill=_INK, font=_font(text_size), anchor="lm")


def _inclusive(box: Box) -> tuple[int, int, int, int]:
    return box.left, box.top, box.right - 1, box.bottom - 1
