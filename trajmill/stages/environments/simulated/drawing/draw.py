"""Draws a `Scene` as a PNG: equal scenes give equal bytes, on every machine."""

from __future__ import annotations

from trajmill.stages.environments.simulated.drawing.canvas import Canvas
from trajmill.stages.environments.simulated.drawing.palette import DARK, LIGHT, WHITE, mix, parse_color
from trajmill.stages.environments.simulated.drawing.scene import Scene
from trajmill.stages.environments.simulated.drawing.shapes import PAINTERS, Brush

_LIGHTER_ON_DARK = 0.35


def draw(scene: Scene) -> bytes:
    """The PNG of a scene, as a palette image of the scene's size.

    Nothing is painted outside a shape's box, except that `dim` darkens everything painted before it.
    """
    theme = DARK if scene.dark else LIGHT
    accent = parse_color(scene.accent)
    ink = mix(accent, WHITE, _LIGHTER_ON_DARK) if scene.dark else accent
    brush = Brush(Canvas(scene.size, theme.page), theme, accent, ink)
    for shape in scene.shapes:
        PAINTERS[shape.kind](brush, shape)
    return brush.canvas.encode()
