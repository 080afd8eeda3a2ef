"""Turns a step of a release into a training example of a family, with all facts that its row needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from trajmill.schemas.actions import Action, action_from_json, pressed_point
from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.base import NotExpressible, Reply
from trajmill.schemas.dialects.families import Family
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER, Message
from trajmill.schemas.tables.step import Step
from trajmill.stages.derive.conversation import PLACEHOLDERS
from trajmill.stages.derive.family_conversation import StepConversation, family_conversation
from trajmill.stages.export.target import ReplyTarget
from trajmill.stages.guidance.strip import quotes_guidance


class ReleasedStep(NamedTuple):
    """A row of a release's supervised file."""

    example_id: str
    trajectory_id: str
    step_index: int
    loss_weight: float


class Lineage(NamedTuple):
    """The origin of a row. No field is ever null, so that files of all sizes are read with the same types."""

    example_id: str
    query_id: str
    trajectory_id: str
    step_index: int
    round: int
    """The round of the attempt."""
    instruction: str
    platform: str
    apps: tuple[str, ...]
    task: str
    environment: str
    agent: str
    policy_version: str
    """The policy that acted."""
    guided: bool
    """Whether the agent was given hints; the messages do not contain them."""
    step_label: str
    """The step critic's label; empty without one."""
    judged_by: str
    """The rule of the judge that found the trajectory correct."""
    action: str
    """JSON, in pixels of the stored screenshot."""
    family: str
    coordinate_space: str
    """The coordinate space of positions in the messages."""
    loss_weight: float
    copy: int
    """0 for the first row of the step. For a trainer that reads no weights, a step of weight 2 has two rows."""
    image_sizes: tuple[Size, ...]
    """Width and height of each image."""
    image_tokens: int
    """Tokens of all images; 0 if it is unknown how the family divides images."""
    text_bytes: int
    """Bytes of all messages in UTF-8."""
    screen_ids: tuple[str, ...]


class StepExample(NamedTuple):
    """One training row, before it is written in a trainer's format."""

    messages: tuple[Message, ...]
    """Each image is the placeholder `<image>`; the last message is the reply."""
    target: ReplyTarget
    lineage: Lineage


class LeftOutStep(NamedTuple):
    """A step that gives no row, and why."""

    reason: str
    """`not_expressible`, `screen_outside_budget`, ..."""


def step_example(
    family: Family, episode: Episode, row: ReleasedStep, size_of: Callable[[str], Size]
) -> StepExample | LeftOutStep:
    """The training example of a released step, or the reason why there is none.

    Args:
        family: with the pixel budget that its model is trained with.
        episode: with all its steps, its verdicts and its guidance.
        row: names the step and its weight.
        size_of: width and height of a stored screen.
    """
    at = next((at for at, step in enumerate(episode.steps) if step.index == row.step_index), None)
    step = None if at is None else episode.steps[at]
    if at is None or step is None or step.action is None:
        return LeftOutStep("no_action")
    try:
        spoken = family_conversation(family, episode, at, size_of)
    except NotExpressible:
        return LeftOutStep("not_expressible")
    except ModelFailure:
        return LeftOutStep("screen_outside_budget")
    frame = family.frame(size_of(step.screen_before))
    action = action_from_json(step.action)
    reason = _unfit(family, episode, spoken, frame, action)
    if reason is not None:
        return LeftOutStep(reason)
    target = ReplyTarget(
        family=family.name,
        platform=episode.query.platform,
        action=action,
        box=_box(step, action),
        screen=frame.screen,
        resized=frame.resized,
    )
    return StepExample(spoken.messages, target, _lineage(family, episode, step, row, spoken, size_of))


def image_tokens(family: Family, size: Size) -> int:
    """Number of tokens of an image for a family's model; 0 if it is unknown how the family divides images.

    Raises:
        ModelFailure: the image does not fit its pixel budget.
    """
    patch = family.budget.factor
    if patch == 1:
        return 0
    resized = family.budget.fit(size)
    return resized.width // patch * (resized.height // patch)


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


def _unfit(
    family: Family, episode: Episode, spoken: StepConversation, frame: CoordinateFrame, action: Action
) -> str | None:
    texts = [message.content for message in spoken.messages]
    placeholders = sum(text.count(placeholder) for text in texts for placeholder in PLACEHOLDERS)
    if placeholders != len(spoken.screens) or IMAGE_PLACEHOLDER in texts[-1]:
        return "placeholder_in_text"
    if quotes_guidance("\n".join(texts), episode.guidance):
        return "quotes_guidance"
    read = family.dialect(episode.query.platform).parse(texts[-1], frame)
    if not isinstance(read, Reply) or not same_action(read.action, action, frame):
        return "not_round_trip"
    return None


def _box(step: Step, action: Action) -> Box | None:
    point = pressed_point(action)
    return step.target.bounds if step.target is not None and point and step.target.bounds.contains(*point) else None


def _lineage(
    family: Family,
    episode: Episode,
    step: Step,
    row: ReleasedStep,
    spoken: StepConversation,
    size_of: Callable[[str], Size],
) -> Lineage:
    query, trajectory = episode.query, episode.trajectory
    sizes = tuple(size_of(screen) for screen in spoken.screens)
    labels = {verdict.index: verdict.label.value for verdict in episode.step_verdicts}
    return Lineage(
        example_id=row.example_id,
        query_id=query.query_id,
        trajectory_id=trajectory.trajectory_id,
        step_index=step.index,
        round=trajectory.round,
        instruction=query.instruction,
        platform=query.platform.value,
        apps=query.apps,
        task=query.task,
        environment=trajectory.environment,
        agent=trajectory.agent,
        policy_version=trajectory.model_version,
        guided=trajectory.guidance_id is not None or step.guided,
        step_label=labels.get(step.index, ""),
        judged_by=episode.judgement.rule if episode.judgement is not None else "",
        action=step.action or "",
        family=family.name,
        coordinate_space=family.space.value,
        loss_weight=row.loss_weight,
        copy=0,
        image_sizes=sizes,
        image_tokens=sum(image_tokens(family, size) for size in sizes),
        text_bytes=sum(len(message.content.encode()) for message in spoken.messages),
        screen_ids=spoken.screens,
    )
