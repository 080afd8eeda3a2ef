"""Writes a stored step as a conversation of a family, and checks that its reply still means the stored action."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from trajmill.schemas.actions import Action, action_from_json
from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.base import NotExpressible, Reply
from trajmill.schemas.dialects.families import Family
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER
from trajmill.schemas.tables.step import Step
from trajmill.stages.derive.conversation import PLACEHOLDERS
from trajmill.stages.derive.family_conversation import StepConversation, family_conversation
from trajmill.stages.guidance.strip import quotes_guidance


class SpokenStep(NamedTuple):
    """A step and its conversation in a family's dialect."""

    step: Step
    conversation: StepConversation
    frame: CoordinateFrame
    """The coordinates of positions in its reply."""


class LeftOutStep(NamedTuple):
    """A step that gives no row, and why."""

    reason: str
    """`not_expressible`, `screen_outside_budget`, ..."""


def spoken_step(
    family: Family, episode: Episode, step_index: int, size_of: Callable[[str], Size]
) -> SpokenStep | LeftOutStep:
    """The conversation of a step, or the reason why it cannot be a row.

    Args:
        family: with the pixel budget that its model is trained with.
        episode: with all its steps and its guidance.
        step_index: index of the step in the episode.
        size_of: width and height of a stored screen.
    """
    at = next((at for at, step in enumerate(episode.steps) if step.index == step_index), None)
    if at is None:
        return LeftOutStep("no_step")
    step = episode.steps[at]
    try:
        conversation = family_conversation(family, episode, at, size_of)
    except NotExpressible:
        return LeftOutStep("not_expressible")
    except ModelFailure:
        return LeftOutStep("screen_outside_budget")
    spoken = SpokenStep(step, conversation, family.frame(size_of(step.screen_before)))
    reason = _unfit(family, episode, spoken)
    return spoken if reason is None else LeftOutStep(reason)


def same_action(one: Action, other: Action, frame: CoordinateFrame) -> bool:
    """Whether two actions are equal, except that positions were rounded to whole units of the frame's space."""
    first, second = one.model_dump(), other.model_dump()
    if first.keys() != second.keys():
        return False
    unit_x, unit_y = _half_unit(frame)
    limits = {"x": unit_x, "x2": unit_x, "y": unit_y, "y2": unit_y}
    return all(_near(first[name], second[name], limits.get(name, 0.0)) for name in first)


def _near(one: object, other: object, limit: float) -> bool:
    if limit and isinstance(one, int) and isinstance(other, int):
        return abs(one - other) <= limit
    return one == other


def _half_unit(frame: CoordinateFrame) -> tuple[float, float]:
    """The largest rounding error in x and y: half a unit of the space in stored pixels, plus half a pixel."""
    wide, high = frame.extent
    return 0.5 * frame.screen.width / wide + 0.5, 0.5 * frame.screen.height / high + 0.5


def _unfit(family: Family, episode: Episode, spoken: SpokenStep) -> str | None:
    texts = [message.content for message in spoken.conversation.messages]
    placeholders = sum(text.count(placeholder) for text in texts for placeholder in PLACEHOLDERS)
    if placeholders != len(spoken.conversation.screens) or IMAGE_PLACEHOLDER in texts[-1]:
        return "placeholder_in_text"
    if quotes_guidance("\n".join(texts), episode.guidance):
        return "quotes_guidance"
    read = family.dialect(episode.query.platform).parse(texts[-1], spoken.frame)
    said = read.action if isinstance(read, Reply) else None
    stored = None if spoken.step.action is None else action_from_json(spoken.step.action)
    if said is None or stored is None:
        return None if said is stored else "not_round_trip"
    return None if same_action(said, stored, spoken.frame) else "not_round_trip"
