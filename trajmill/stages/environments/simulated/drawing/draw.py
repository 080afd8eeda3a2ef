"""Draws a `Scene` as a PNG: equal scenes give equal bytes, on every machine.

Each kind of shape has a painter. Texts scale with their box, so only the layout decides their size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from trajmill.schemas.geometry import Box
from trajmill.stages.environments.simulated.drawing.canvas import (
    BLACK,
    DARK,
    LIGHT,
    WHITE,
    Canvas,
    Rgb,
    Theme,
    inset,
    mix,
    parse_color,
    square,
)
from trajmill.stages.environments.simulated.drawing.scene import Scene, Shape

_CHECK_MARK = ((0.24, 0.52), (0.43, 0.71), (0.78, 0.30))
_MINUS = ((0.26, 0.5), (0.74, 0.5))
_CHEVRON = ((0.4, 0.25), (0.62, 0.5), (0.4, 0.75))
_GLASS = (
    (0.62, 0.62), (0.68, 0.5), (0.68, 0.38), (0.6, 0.26), (0.46, 0.2), (0.32, 0.25),
    (0.24, 0.38), (0.24, 0.5), (0.32, 0.62), (0.46, 0.68), (0.62, 0.62), (0.85, 0.85),
)  # fmt: skip
_RED = Rgb(200, 55, 55)
_OTHER_LIGHTS = (Rgb(233, 185, 60), Rgb(90, 180, 95))
_SKY = Rgb(72, 104, 158)
_DIM = 0.5
_TEXT_SIZE = 0.46
"""Size of plain text, as a share of its line's height."""
_WALLPAPER_BANDS = 6
_LIGHTER_ON_DARK = 0.35


class Brush(NamedTuple):
    """The canvas and colours that all painters use."""

    canvas: Canvas
    theme: Theme
    accent: Rgb
    ink: Rgb
    """The accent colour, light enough to be read on the page."""


def _height(box: Box) -> int:
    return box.bottom - box.top


def _on(background: Rgb) -> Rgb:
    return BLACK if background.is_light else WHITE


def _colored(shape: Shape, otherwise: Rgb) -> Rgb:
    return parse_color(shape.color) if shape.color else otherwise


def _tint(brush: Brush, part: float) -> Rgb:
    return mix(brush.theme.page, brush.ink, part)


def _text_color(brush: Brush, shape: Shape) -> Rgb:
    return mix(brush.theme.muted, brush.theme.page, 0.35) if shape.state == "disabled" else brush.theme.text


def _card(brush: Brush, box: Box) -> None:
    brush.canvas.rounded(box, min(16, _height(box) // 5), brush.theme.surface)


def _text(brush: Brush, shape: Shape) -> None:
    behind = brush.canvas.color_at((shape.box.left + shape.box.right) // 2, shape.box.top)
    plain = behind in (brush.theme.page, brush.theme.surface)
    _lines(brush, shape.box, shape.text, brush.theme.text if plain else _on(behind))


def _lines(brush: Brush, box: Box, text: str, color: Rgb) -> None:
    lines = text.split("\n")
    tall = _height(box) / len(lines)
    for number, line in enumerate(lines):
        top, bottom = box.top + round(tall * number), box.top + round(tall * (number + 1))
        brush.canvas.text(box._replace(top=top, bottom=bottom), line, round(tall * _TEXT_SIZE), color)


def _label(brush: Brush, shape: Shape) -> None:
    size = round(_height(shape.box) * 0.44)
    brush.canvas.text(shape.box, shape.text, size, brush.theme.muted)
    brush.canvas.text(shape.box, shape.note, size, brush.theme.text, "right")


def _value(brush: Brush, shape: Shape) -> None:
    box = shape.box
    brush.canvas.rounded(box, 12, _tint(brush, 0.12))
    inner = min(12, _height(box) // 4)
    brush.canvas.fill(Box(box.left, box.top + inner, box.left + 6, box.bottom - inner), brush.ink)
    _lines(brush, inset(box, 22, 2), shape.text, brush.theme.text)


def _status_bar(brush: Brush, shape: Shape) -> None:
    box = shape.box
    background = _colored(shape, mix(brush.accent, BLACK, 0.25))
    brush.canvas.fill(box, background)
    inner = inset(box, 28, 2)
    brush.canvas.text(inner, shape.text or "9:41", round(_height(box) * 0.5), _on(background))
    side = round(_height(box) * 0.4)
    battery = square(box, side, inner.right - 2 * side)
    brush.canvas.rounded(battery._replace(right=inner.right), 4, _on(background))
    for bar in range(3):
        left = battery.left - side * 2 + bar * (side // 2)
        rise = side * (3 - bar) // 4
        brush.canvas.fill(Box(left, battery.top + rise, left + side // 3, battery.bottom), _on(background))


def _app_bar(brush: Brush, shape: Shape) -> None:
    color = _colored(shape, brush.accent)
    brush.canvas.fill(shape.box, color)
    height = _height(shape.box)
    brush.canvas.text(inset(shape.box, height // 3, 2), shape.text, round(height * 0.36), _on(color))


def _wallpaper(brush: Brush, shape: Shape) -> None:
    tall = -(-_height(shape.box) // _WALLPAPER_BANDS)
    for band in range(_WALLPAPER_BANDS):
        top = shape.box.top + band * tall
        part = Box(shape.box.left, top, shape.box.right, min(top + tall, shape.box.bottom))
        brush.canvas.fill(part, mix(_SKY, brush.theme.page, 0.04 * band))


def _icon(brush: Brush, shape: Shape) -> None:
    box = shape.box
    height = _height(box)
    side = min(round(height * 0.66), box.right - box.left)
    color = _colored(shape, brush.accent)
    left = (box.left + box.right - side) // 2
    tile = Box(left, box.top, left + side, box.top + side)
    behind = brush.canvas.color_at((box.left + box.right) // 2, box.top + side + 2)
    brush.canvas.rounded(tile, side // 4, color)
    brush.canvas.text(inset(tile, side // 8), shape.note, round(side * 0.42), _on(color), "center")
    brush.canvas.text(box._replace(top=box.top + side), shape.text, round(height * 0.17), _on(behind), "center")


def _list_item(brush: Brush, shape: Shape) -> None:
    box = shape.box
    _card(brush, box)
    height = _height(box)
    side = round(height * 0.3)
    brush.canvas.strokes(square(box, side, box.right - side - height // 6), _CHEVRON, 3, brush.theme.muted)
    inner = Box(box.left + height // 4, box.top + height // 8, box.right - side - height // 4, box.bottom - height // 8)
    if not shape.note:
        brush.canvas.text(inner, shape.text, round(height * 0.31), _text_color(brush, shape))
        return
    middle = (inner.top + inner.bottom) // 2 + height // 20
    brush.canvas.text(inner._replace(bottom=middle), shape.text, round(height * 0.29), _text_color(brush, shape))
    brush.canvas.text(inner._replace(top=middle), shape.note, round(height * 0.23), brush.theme.muted)


def _filled_button(brush: Brush, shape: Shape, color: Rgb) -> None:
    height = _height(shape.box)
    if shape.state == "disabled":
        color = brush.theme.line
    brush.canvas.rounded(shape.box, height // 2, color)
    ink = brush.theme.muted if shape.state == "disabled" else _on(color)
    brush.canvas.text(inset(shape.box, height // 3, 2), shape.text, round(height * 0.34), ink, "center")


def _button(brush: Brush, shape: Shape) -> None:
    height = _height(shape.box)
    disabled = shape.state == "disabled"
    behind = brush.canvas.color_at(shape.box.left, shape.box.top)
    if behind not in (brush.theme.page, brush.theme.surface):
        _filled_button(brush, shape, mix(behind, BLACK, 0.25))
        return
    inside, line, ink = _tint(brush, 0.1), _tint(brush, 0.45), mix(brush.ink, brush.theme.text, 0.3)
    if disabled:
        inside, line, ink = brush.theme.page, brush.theme.line, _text_color(brush, shape)
    brush.canvas.outlined(shape.box, height // 2, line, inside, 2)
    brush.canvas.text(inset(shape.box, height // 3, 3), shape.text, round(height * 0.34), ink, "center")


def _strong_button(brush: Brush, shape: Shape) -> None:
    _filled_button(brush, shape, _RED if shape.kind == "danger_button" else brush.accent)


def _between(shape: Shape, left: int, right: int) -> Box:
    return Box(shape.box.left + left, shape.box.top + 2, shape.box.right - right, shape.box.bottom - 2)


def _radio(brush: Brush, shape: Shape) -> None:
    height = _height(shape.box)
    _card(brush, shape.box)
    side = round(height * 0.42)
    ring = square(shape.box, side, shape.box.left + height // 3)
    on = shape.state == "on"
    brush.canvas.outlined(ring, side // 2, brush.ink if on else brush.theme.muted, brush.theme.surface, 3)
    if on:
        brush.canvas.rounded(inset(ring, side // 4), side // 2, brush.ink)
    text = _between(shape, height // 3 * 2 + side, height // 4)
    brush.canvas.text(text, shape.text, round(height * 0.37), _text_color(brush, shape))


def _checkbox(brush: Brush, shape: Shape) -> None:
    height = _height(shape.box)
    _card(brush, shape.box)
    side = round(height * 0.42)
    mark = square(shape.box, side, shape.box.left + height // 3)
    if shape.state == "on":
        brush.canvas.rounded(mark, side // 5, brush.accent)
        brush.canvas.strokes(inset(mark, 2), _CHECK_MARK, 4, _on(brush.accent))
    else:
        brush.canvas.outlined(mark, side // 5, brush.theme.muted, brush.theme.surface, 3)
    text = _between(shape, height // 3 * 2 + side, height // 4)
    brush.canvas.text(text, shape.text, round(height * 0.36), _text_color(brush, shape))


def _switch(brush: Brush, shape: Shape) -> None:
    height = _height(shape.box)
    _card(brush, shape.box)
    tall = round(height * 0.42)
    wide = round(tall * 1.75)
    track = square(shape.box, tall, shape.box.right - wide - height // 4)
    track = track._replace(right=track.left + wide)
    on = shape.state == "on"
    brush.canvas.rounded(track, tall // 2, brush.accent if on else brush.theme.muted)
    thumb = inset(track, 4)
    side = _height(thumb)
    thumb = thumb._replace(left=thumb.right - side) if on else thumb._replace(right=thumb.left + side)
    brush.canvas.rounded(thumb, side // 2, WHITE)
    text = _between(shape, height // 3, wide + height // 3)
    brush.canvas.text(text, shape.text, round(height * 0.36), _text_color(brush, shape))


def _stepper_button(brush: Brush, shape: Shape) -> None:
    box = shape.box
    disabled = shape.state == "disabled"
    brush.canvas.rounded(box, _height(box) // 4, brush.theme.line if disabled else _tint(brush, 0.2))
    side = min(_height(box), box.right - box.left)
    sign = square(box, side, (box.left + box.right - side) // 2)
    ink = brush.theme.muted if disabled else brush.theme.text
    middle = inset(sign, side // 4)
    brush.canvas.strokes(middle, _MINUS, 4, ink)
    if shape.text == "+":
        center, reach = middle.center, round(_height(middle) * 0.24)
        brush.canvas.fill(Box(center.x - 2, center.y - reach, center.x + 2, center.y + reach), ink)


def _input(brush: Brush, shape: Shape, radius: int, indent: int) -> None:
    height = _height(shape.box)
    focused = shape.state == "focused"
    line = brush.ink if focused else brush.theme.line
    brush.canvas.outlined(shape.box, radius, line, brush.theme.surface, 4 if focused else 2)
    inner = Box(shape.box.left + indent, shape.box.top + 5, shape.box.right - height // 4, shape.box.bottom - 5)
    if not shape.note:
        brush.canvas.text(inner, shape.text, round(height * 0.31), brush.theme.muted)
        return
    middle = inner.top + _height(inner) * 2 // 5
    brush.canvas.text(inner._replace(bottom=middle), shape.text, round(height * 0.21), brush.theme.muted)
    brush.canvas.text(inner._replace(top=middle), shape.note, round(height * 0.31), brush.theme.text)


def _field(brush: Brush, shape: Shape) -> None:
    _input(brush, shape, 12, _height(shape.box) // 4)


def _search(brush: Brush, shape: Shape) -> None:
    height = _height(shape.box)
    _input(brush, shape, height // 2, round(height * 0.8))
    side = round(height * 0.42)
    brush.canvas.strokes(square(shape.box, side, shape.box.left + height // 4), _GLASS, 3, brush.theme.muted)


def _keyboard(brush: Brush, shape: Shape) -> None:
    brush.canvas.fill(shape.box, mix(brush.theme.page, brush.theme.line, 0.8))


def _key(brush: Brush, shape: Shape) -> None:
    height = _height(shape.box)
    cap = brush.theme.surface if len(shape.text) == 1 else mix(brush.theme.line, brush.theme.muted, 0.25)
    brush.canvas.rounded(shape.box, 8, cap)
    size = round(height * (0.36 if len(shape.text) == 1 else 0.28))
    brush.canvas.text(inset(shape.box, 4, 2), shape.text, size, brush.theme.text, "center")


def _dim(brush: Brush, shape: Shape) -> None:
    brush.canvas.palette.darken(_DIM)


def _dialog(brush: Brush, shape: Shape) -> None:
    brush.canvas.rounded(shape.box, 28, brush.theme.surface)


def _banner(brush: Brush, shape: Shape) -> None:
    box = shape.box
    brush.canvas.outlined(box, 20, brush.theme.line, brush.theme.surface, 2)
    inner = inset(box, 28, 8)
    middle = (inner.top + inner.bottom) // 2 if shape.note else inner.bottom
    size = min(28, round(_height(box) * 0.3))
    brush.canvas.text(inner._replace(bottom=middle), shape.text, size, brush.theme.text)
    brush.canvas.text(inner._replace(top=middle), shape.note, round(size * 0.85), brush.theme.muted)


def _badge(brush: Brush, shape: Shape) -> None:
    color = _colored(shape, _RED)
    brush.canvas.rounded(shape.box, _height(shape.box) // 2, color)
    brush.canvas.text(inset(shape.box, 2), shape.text, round(_height(shape.box) * 0.55), _on(color), "center")


def _scroll_bar(brush: Brush, shape: Shape) -> None:
    thumb = mix(brush.theme.muted, brush.theme.page, 0.4)
    brush.canvas.rounded(shape.box, (shape.box.right - shape.box.left) // 2, thumb)


def _window(brush: Brush, shape: Shape) -> None:
    box = shape.box
    brush.canvas.outlined(box, 12, brush.theme.line, brush.theme.page, 1)
    if not shape.text:
        return
    bar = Box(box.left, box.top, box.right, box.top + 40)
    brush.canvas.rounded(bar, 12, brush.accent)
    brush.canvas.fill(bar._replace(top=bar.bottom - 12), brush.accent)
    brush.canvas.text(inset(bar, 20, 2), shape.text, 18, _on(brush.accent))
    for place, color in enumerate((_RED, *_OTHER_LIGHTS)):
        left = bar.right - 36 - 28 * place
        brush.canvas.rounded(square(bar, 16, left), 8, color)


def _strip(brush: Brush, shape: Shape) -> None:
    color = _colored(shape, brush.theme.surface)
    brush.canvas.fill(shape.box, color)
    height = _height(shape.box)
    brush.canvas.text(inset(shape.box, 16, 2), shape.text, round(height * 0.42), _on(color))


def _menu(brush: Brush, shape: Shape) -> None:
    height = _height(shape.box)
    background = brush.accent if shape.state in ("on", "focused") else brush.theme.surface
    brush.canvas.rounded(shape.box, 6, background)
    ink = brush.theme.text if background == brush.theme.surface else _on(background)
    brush.canvas.text(inset(shape.box, 6, 1), shape.text, round(height * 0.46), ink, "center")


def _menu_item(brush: Brush, shape: Shape) -> None:
    height = _height(shape.box)
    brush.canvas.outlined(shape.box, 0, brush.theme.line, brush.theme.surface, 1)
    brush.canvas.text(inset(shape.box, height // 3, 2), shape.text, round(height * 0.44), _text_color(brush, shape))


PAINTERS: Mapping[str, Callable[[Brush, Shape], None]] = {
    "status_bar": _status_bar,
    "app_bar": _app_bar,
    "wallpaper": _wallpaper,
    "icon": _icon,
    "heading": _text,
    "text": _text,
    "value": _value,
    "list_item": _list_item,
    "button": _button,
    "primary_button": _strong_button,
    "danger_button": _strong_button,
    "radio": _radio,
    "checkbox": _checkbox,
    "switch": _switch,
    "label": _label,
    "stepper_button": _stepper_button,
    "field": _field,
    "search": _search,
    "keyboard": _keyboard,
    "key": _key,
    "dialog": _dialog,
    "dim": _dim,
    "menu_bar": _strip,
    "menu": _menu,
    "menu_item": _menu_item,
    "window": _window,
    "taskbar": _strip,
    "badge": _badge,
    "scroll_bar": _scroll_bar,
    "banner": _banner,
}
"""The painter of each `Shape.kind`."""


def draw(scene: Scene) -> bytes:
    """The PNG of a scene, as a palette image of the scene's size.

    Nothing is painted outside a shape's box, except that `dim` darkens everything painted before it.
    """
    theme, accent = DARK if scene.dark else LIGHT, parse_color(scene.accent)
    ink = mix(accent, WHITE, _LIGHTER_ON_DARK) if scene.dark else accent
    brush = Brush(Canvas(scene.size, theme.page), theme, accent, ink)
    for shape in scene.shapes:
        PAINTERS[shape.kind](brush, shape)
    return brush.canvas.encode()
