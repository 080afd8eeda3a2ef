"""Draws the dialogs and the file chooser that headless Chromium does not draw; the page waits for its buttons."""

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


class BrowserDialog(NamedTuple):
    text: str
    buttons: tuple[str, ...]
    """The buttons from top to bottom; Enter presses the first one, Escape the last one."""
    typed: str | None = None
    """The text in its field; None if it has no field."""


class DialogLayout(NamedTuple):
    content: BrowserDialog
    window: Box
    lines: tuple[str, ...]
    text: Box
    field: Box | None
    buttons: tuple[Box, ...]
    text_size: int


class DialogAnswer(NamedTuple):
    button: int
    typed: str


def lay_out_dialog(content: BrowserDialog, size: Size, scale: int) -> DialogLayout:
    """Place a dialog in the upper middle of a screenshot of `size` pixels, `scale` per CSS pixel."""
    gap, text_size = _GAP * scale, _TEXT_SIZE * scale
    # A small screen gets smaller text, so that all buttons are on it.
    row = text_size * 2
    rows = len(content.buttons) + (content.typed is not None)
    while rows * (row + gap) + 3 * gap + 2 * text_size > size.height and text_size > 6:
        text_size -= 1
        row, gap = text_size * 2, max(2, gap - 1)
    width = min(_WIDTH * scale, size.width - 2 * gap)
    left = (size.width - width) // 2
    lines = _wrapped(content.text, text_size, width - 2 * gap)
    leading = text_size * 5 // 4
    height = 2 * gap + leading * len(lines) + rows * (row + gap)
    top = max(0, min(gap * 2, size.height - height))
    inner_left, inner_right = left + gap, left + width - gap
    text = Box(inner_left, top + gap, inner_right, top + gap + leading * len(lines))
    boxes = [
        Box(inner_left, begin, inner_right, begin + row)
        for begin in (text.bottom + gap + (row + gap) * number for number in range(rows))
    ]
    field = boxes.pop(0) if content.typed is not None else None
    window = Box(left, top, left + width, min(size.height, top + height))
    return DialogLayout(content, window, lines, text, field, tuple(boxes), text_size)


def draw_dialog(layout: DialogLayout, page_png: bytes | None, size: Size) -> bytes:
    white = Image.new("RGB", size, "white")
    page = Image.open(io.BytesIO(page_png)).convert("RGB") if page_png is not None else white
    picture = Image.blend(page, Image.new("RGB", page.size, "black"), _SHADE)
    pen, font = ImageDraw.Draw(picture), _font(layout.text_size)
    pen.rectangle(_inclusive(layout.window), fill=_PAPER, outline=_EDGE)
    pen.multiline_text(layout.text[:2], "\n".join(layout.lines), fill=_INK, font=font, spacing=layout.text_size // 4)
    if layout.field is not None:
        _labelled(pen, layout.field, layout.content.typed or "", _FIELD, layout.text_size)
    for box, label in zip(layout.buttons, layout.content.buttons, strict=True):
        _labelled(pen, box, label, _BUTTON, layout.text_size)
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()


def dialog_elements(layout: DialogLayout) -> tuple[UIElement, ...]:
    content = layout.content
    found = [UIElement("dialog", "", layout.window), UIElement("text", content.text, layout.text)]
    if layout.field is not None:
        states = ("clickable", "focused", "editable")
        found.append(UIElement("text_field", content.text, layout.field, states, content.typed or ""))
    for box, label in zip(layout.buttons, content.buttons, strict=True):
        found.append(UIElement("button", label, box, ("clickable",)))
    return tuple(found)


def use_dialog(layout: DialogLayout, action: Action) -> DialogLayout | DialogAnswer:
    content = layout.content
    typed = content.typed or ""
    match action:
        case Click(x=x, y=y):
            hit = [number for number, box in enumerate(layout.buttons) if box.contains(x, y)]
            return DialogAnswer(hit[0], typed) if hit else layout
        case TypeText(text=text, clear=clear, enter=enter) if content.typed is not None:
            typed = text if clear else typed + text
            written = layout._replace(content=content._replace(typed=typed))
            return DialogAnswer(0, typed) if enter else written
        case PressKeys(keys=(key,)) | SystemButton(button=key) if key.lower() in ("enter", "return"):
            return DialogAnswer(0, typed)
        case PressKeys(keys=(key,)) if key.lower() in ("esc", "escape"):
            return DialogAnswer(len(content.buttons) - 1, typed)
        case SystemButton(button="Back"):
            return DialogAnswer(len(content.buttons) - 1, typed)
        case _:
            return layout


@lru_cache(maxsize=16)
def _font(size: int) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(size)
    assert isinstance(font, ImageFont.FreeTypeFont), "Pillow was built without FreeType"
    return font


def _wrapped(text: str, text_size: int, width: int) -> tuple[str, ...]:
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
