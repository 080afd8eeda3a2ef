"""Draws the report's charts as inline SVG without scripts, fonts or colours.

Colours are classes (`series-0`, `series-1`, ...) that the page's style sheet defines for light and dark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup, escape

WIDTH = 760
LINE_HEIGHT = 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 168, 14, 34
_LABEL_GAP = 17.0
_BAR, _BAR_GAP = 18, 8


class Series(NamedTuple):
    name: str
    points: Sequence[Any]
    """With `round`, `share` and its interval from `low` to `high`, all in [0, 1]; in the order of the rounds."""


class Bar(NamedTuple):
    label: str
    segments: Mapping[str, float]
    note: str


def share_chart(series: Sequence[Series], title: str) -> Markup:
    """Draw shares over the rounds; each line has the band of its interval and a label at its end."""
    lines = [(index, line) for index, line in enumerate(series) if line.points]
    rounds: list[int] = sorted({point.round for _, line in lines for point in line.points})
    if not rounds:
        return Markup("")
    right = WIDTH - _RIGHT

    def x(number: int) -> float:
        return _LEFT + (number - rounds[0]) / max(rounds[-1] - rounds[0], 1) * (right - _LEFT)

    def y(share: float) -> float:
        return _TOP + (1.0 - share) * (LINE_HEIGHT - _TOP - _BOTTOM)

    parts = []
    for percent in (0, 25, 50, 75, 100):
        at = y(percent / 100)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(_text(_LEFT - 8, at + 4, f"{percent} %", "axis", "end"))
    for number in rounds[:: max(1, len(rounds) // 12)]:
        parts.append(_text(x(number), LINE_HEIGHT - 18, str(number), "axis", "middle"))
    parts.append(_text((_LEFT + right) / 2, LINE_HEIGHT - 4, "round", "axis", "middle"))
    for index, line in lines:
        upper = [f"{x(p.round):.1f},{y(p.high):.1f}" for p in line.points]
        lower = [f"{x(p.round):.1f},{y(p.low):.1f}" for p in reversed(line.points)]
        parts.append(f'<polygon class="band series-{index}" points="{" ".join(upper + lower)}"/>')
    for index, line in lines:
        points = " ".join(f"{x(p.round):.1f},{y(p.share):.1f}" for p in line.points)
        parts.append(f'<polyline class="line series-{index}" points="{points}"/>')
        parts += [
            f'<circle class="dot series-{index}" cx="{x(p.round):.1f}" cy="{y(p.share):.1f}" r="3.2"><title>'
            f"{escape(line.name)}, round {p.round}: {p.share:.0%} ({p.low:.0%} to {p.high:.0%})</title></circle>"
            for p in line.points
        ]
    # Labels are moved apart where lines end close together.
    ordered = sorted(lines, key=lambda item: -item[1].points[-1].share)
    heights: list[float] = []
    for _, line in ordered:
        height = y(line.points[-1].share)
        heights.append(max(height, heights[-1] + _LABEL_GAP) if heights else height)
    too_low = max(0.0, heights[-1] - (LINE_HEIGHT - _BOTTOM + 4))
    for height, (index, line) in zip(heights, ordered, strict=True):
        label = f"{line.points[-1].share:.0%}  {line.name}"
        parts.append(_text(right + 12, height - too_low + 4, label, f"label series-{index}", "start"))
    return _svg(LINE_HEIGHT, title, parts)


def stacked_bars(bars: Sequence[Bar], title: str) -> Markup:
    """Draw horizontal stacked bars on one common scale; segments of one name have one colour."""
    longest = max((sum(bar.segments.values()) for bar in bars), default=0.0)
    if longest <= 0.0:
        return Markup("")
    names, room, parts = segment_names(bars), WIDTH - 84 - 92, list[str]()
    for row, bar in enumerate(bars):
        top, x = row * (_BAR + _BAR_GAP), 84.0
        parts.append(_text(76, top + _BAR - 5, bar.label, "axis", "end"))
        for name, amount in bar.segments.items():
            if amount > 0.0:
                wide = amount / longest * room
                parts.append(
                    f'<rect class="series-{names.index(name)}" x="{x:.1f}" y="{top}" height="{_BAR}" '
                    f'width="{max(wide - 1, 0):.1f}"><title>{escape(name)}: {amount:.1f}</title></rect>'
                )
                x += wide
        parts.append(_text(x + 6, top + _BAR - 5, bar.note, "axis", "start"))
    return _svg(len(bars) * (_BAR + _BAR_GAP), title, parts)


def segment_names(bars: Sequence[Bar]) -> list[str]:
    return list(dict.fromkeys(name for bar in bars for name, amount in bar.segments.items() if amount > 0.0))


def _text(x: float, y: float, words: str, style: str, anchor: str) -> str:
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _svg(height: int, title: str, parts: Iterable[str]) -> Markup:
    body = "".join(parts)
    return Markup(  # every word in it went through `escape`
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">{body}</svg>'
    )
