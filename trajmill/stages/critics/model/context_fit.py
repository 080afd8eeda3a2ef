"""Selects the screens and steps of a trajectory for one request when not all of them fit.

The first and the last are always kept: they show the start and the outcome. Half of the remaining room goes to the
screens right before the last one, where a task is usually decided; the rest is spread evenly over the others. Screens
are left out before steps, because a step's line costs few tokens and says what happened.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.geometry import Size
from trajmill.stages.models.base import ChatModel

_BYTES_PER_TOKEN = 3
"""UTF-8 bytes per token, chosen low: Latin text has about four, Chinese about three."""
_PATCH = 28
"""Pixels on one side of an image token in Qwen2.5-VL; later families have larger tokens."""
_FRAME_TOKENS = 10
"""Tokens around an image or a line."""


class KeptPositions(NamedTuple):
    """Positions of the screens and steps that are kept, ascending."""

    screens: tuple[int, ...]
    steps: tuple[int, ...]


def text_tokens(text: str) -> int:
    """Estimate the tokens of a text; the estimate is more often too high than too low."""
    return math.ceil(len(text.encode("utf-8", "replace")) / _BYTES_PER_TOKEN) + _FRAME_TOKENS


def picture_tokens(model: ChatModel, screen: Size, scale: float) -> int:
    """Estimate the tokens of a scaled screen, within the model's own pixel budget."""
    sent = model.frame(Size(*(max(1, round(side * scale)) for side in screen))).resized
    return math.ceil(sent.width / _PATCH) * math.ceil(sent.height / _PATCH) + _FRAME_TOKENS


def kept(count: int, wanted: int) -> tuple[int, ...]:
    """The kept positions if only `wanted` of `count` screens or steps fit, by the rule of this module.

    If there is room for one, the last is kept.
    """
    if wanted >= count:
        return tuple(range(count))
    if wanted <= 1:
        return tuple(range(count - wanted, count))
    tail = wanted // 2
    between, spread = count - 1 - tail, wanted - 1 - tail
    middle = (1 + (2 * at + 1) * between // (2 * spread) for at in range(spread))
    return (0, *middle, *range(count - tail, count))


def fit(screen_tokens: Sequence[int], step_tokens: Sequence[int], room: int, subject: str) -> KeptPositions:
    """Select screens and steps that fit into `room` tokens; at least two of each, if there are two.

    Raises:
        JudgeFailure: not even these fit; the message names `subject`.
    """
    screens, steps = len(screen_tokens), len(step_tokens)
    least = min(2, screens)
    sizes = [(count, steps) for count in range(screens, least, -1)]
    sizes += [(least, count) for count in range(steps, min(2, steps) - 1, -1)]
    for screen_count, step_count in sizes:
        found = KeptPositions(kept(screens, screen_count), kept(steps, step_count))
        if sum(screen_tokens[at] for at in found.screens) + sum(step_tokens[at] for at in found.steps) <= room:
            return found
    raise JudgeFailure(f"{subject}: not even the first and the last screen fit into the {room} tokens left for them")
