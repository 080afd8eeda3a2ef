"""Draws a `Scene` as a PNG with a painter for each kind of shape: equal scenes give equal bytes everywhere."""

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
    Scene,
    Shape,
    Theme,
    inset,
    mix,
    parse_color,
    square,
)

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
_WALLPAPER_BANDS = 6
_LIGHTER_ON_DARK = 0.35


class Brush(NamedTuple):
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


def _plain(brush: Brush, shape: Shape) -> None:
    canvas, theme, box, text = brush.canvas, brush.theme, shape.box, shape.text
    height = _height(box)
    match shape.kind:
        case "dim":
            canvas.palette.darken(_DIM)
        case "wallpaper":
            tall = -(-height // _WALLPAPER_BANDS)
            for band in range(_WALLPAPER_BANDS):
                top = box.top + band * tall
                part = Box(box.left, top, box.right, min(top + tall, box.bottom))
                canvas.fill(part, mix(_SKY, theme.page, 0.04 * band))
        case "app_bar":
            color = _colored(shape, brush.accent)
            canvas.fill(box, color)
            canvas.text(inset(box, height // 3, 2), text, round(height * 0.36), _on(color))
        case "menu_bar" | "taskbar":
            color = _colored(shape, theme.surface)
            canvas.fill(box, color)
            canvas.text(inset(box, 16, 2), text, round(height * 0.42), _on(color))
        case "menu":
            color = brush.accent if shape.state in ("on", "focused") else theme.surface
            canvas.rounded(box, 6, color)
            ink = theme.text if color == theme.surface else _on(color)
            canvas.text(inset(box, 6, 1), text, round(height * 0.46), ink, "center")
        case "menu_item":
            canvas.outlined(box, 0, theme.line, theme.surface, 1)
            canvas.text(inset(box, height // 3, 2), text, round(height * 0.44), _text_color(brush, shape))
        case "label":
            canvas.text(box, text, round(height * 0.44), theme.muted)
            canvas.text(box, shape.note, round(height * 0.44), theme.text, "right")
        case "keyboard":
            canvas.fill(box, mix(theme.page, theme.line, 0.8))
        case "key":
            letter = len(text) == 1
            canvas.rounded(box, 8, theme.surface if letter else mix(theme.line, theme.muted, 0.25))
            canvas.text(inset(box, 4, 2), text, round(height * (0.36 if letter else 0.28)), theme.text, "center")
        case "dialog":
            canvas.rounded(box, 28, theme.surface)
        case "badge":
            color = _colored(shape, _RED)
            canvas.rounded(box, height // 2, color)
            canvas.text(inset(box, 2), text, round(height * 0.55), _on(color), "center")
        case "scroll_bar":
            canvas.rounded(box, (box.right - box.left) // 2, mix(theme.muted, theme.page, 0.4))


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


def _option(brush: Brush, shape: Shape) -> None:
    height, on = _height(shape.box), shape.state == "on"
    _card(brush, shape.box)
    side = round(height * 0.42)
    mark = square(shape.box, side, shape.box.left + height // 3)
    radio = shape.kind == "radio"
    if on and not radio:
        brush.canvas.rounded(mark, side // 5, brush.accent)
        brush.canvas.strokes(inset(mark, 2), _CHECK_MARK, 4, _on(brush.accent))
    else:
        line = brush.ink if on else brush.theme.muted
        brush.canvas.outlined(mark, side // (2 if radio else 5), line, brush.theme.surface, 3)
        if on:
            brush.canvas.rounded(inset(mark, side // 4), side // 2, brush.ink)
    text = _between(shape, height // 3 * 2 + side, height // 4)
    brush.canvas.text(text, shape.text, round(height * (0.37 if radio else 0.36)), _text_color(brush, shape))


def _slider_mark(brush: Brush, shape: Shape) -> None:
    """A piece of the slider's line with its mark, and the knob if it stands there."""
    box, height = shape.box, _height(shape.box)
    (x, _), line = box.center, box.top + height * 2 // 5
    brush.canvas.fill(box._replace(top=line - 2, bottom=line + 2), brush.theme.muted)
    side = height // 4 if shape.state == "on" else height // 12
    color = brush.accent if shape.state == "on" else brush.theme.muted
    brush.canvas.rounded(Box(x - side, line - side, x + side, line + side), side, color)
    below = box._replace(top=line + height // 5)
    brush.canvas.text(below, shape.text, round(height * 0.28), brush.theme.text, "center")


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


def _input(brush: Brush, shape: Shape) -> None:
    height, searches, focused = _height(shape.box), shape.kind == "search", shape.state == "focused"
    line = brush.ink if focused else brush.theme.line
    radius, indent = (height // 2, round(height * 0.8)) if searches else (12, height // 4)
    brush.canvas.outlined(shape.box, radius, line, brush.theme.surface, 4 if focused else 2)
    inner = Box(shape.box.left + indent, shape.box.top + 5, shape.box.right - height // 4, shape.box.bottom - 5)
    if shape.note:
        middle = inner.top + _height(inner) * 2 // 5
        brush.canvas.text(inner._replace(bottom=middle), shape.text, round(height * 0.21), brush.theme.muted)
        brush.canvas.text(inner._replace(top=middle), shape.note, round(height * 0.31), brush.theme.text)
    else:
        brush.canvas.text(inner, shape.text, round(height * 0.31), brush.theme.muted)
    if searches:
        glass = square(shape.box, round(height * 0.42), shape.box.left + height // 4)
        brush.canvas.strokes(glass, _GLASS, 3, brush.theme.muted)


def _banner(brush: Brush, shape: Shape) -> None:
    box = shape.box
    brush.canvas.outlined(box, 20, brush.theme.line, brush.theme.surface, 2)
    inner = inset(box, 28, 8)
    middle = (inner.top + inner.bottom) // 2 if shape.note else inner.bottom
    size = min(28, round(_height(box) * 0.3))
    brush.canvas.text(inner._replace(bottom=middle), shape.text, size, brush.theme.text)
    brush.canvas.text(inner._replace(top=middle), shape.note, round(size * 0.85), brush.theme.muted)


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


_PLAIN = (
    "app_bar", "wallpaper", "label", "keyboard", "key", "dialog", "dim",
    "menu_bar", "menu", "menu_item", "taskbar", "badge", "scroll_bar",
)  # fmt: skip
PAINTERS: Mapping[str, Callable[[Brush, Shape], None]] = {
    **dict.fromkeys(_PLAIN, _plain),
    **dict.fromkeys(("heading", "text"), _text),
    **dict.fromkeys(("primary_button", "danger_button"), _strong_button),
    **dict.fromkeys(("radio", "checkbox"), _option),
    **dict.fromkeys(("field", "search"), _input),
    **{"status_bar": _status_bar, "icon": _icon, "value": _value, "list_item": _list_item, "button": _button},
    **{"switch": _switch, "stepper_button": _stepper_button, "slider_mark": _slider_mark},
    **{"window": _window, "banner": _banner},
}


def draw(scene: Scene) -> bytes:
    """Draw a scene as a palette PNG; only `dim` changes what is outside a shape's box, all that is painted already."""
    theme, accent = DARK if scene.dark else LIGHT, parse_color(scene.accent)
    ink = mix(accent, WHITE, _LIGHTER_ON_DARK) if scene.dark else accent
    brush = Brush(Canvas(scene.size, theme.page), theme, accent, ink)
    for shape in scene.shapes:
        PAINTERS[shape.kind](brush, shape)
    return brush.canvas.encode()
