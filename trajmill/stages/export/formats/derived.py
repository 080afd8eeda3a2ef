"""Turns an example of a derived kind into a training row of a family, with a target if its reply is an action."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from trajmill.schemas.actions import Action, action_from_json
from trajmill.schemas.coordinates import CoordinateFrame, native_frame
from trajmill.schemas.dialects.base import NotExpressible, Reply, bare_call
from trajmill.schemas.dialects.families import Family
from trajmill.schemas.dialects.gui_owl_v3 import dialect_for
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.example import Example, Message
from trajmill.schemas.tables.step import Step
from trajmill.stages.derive.conversation import StepConversation
from trajmill.stages.export.formats.lineage import lineage_of
from trajmill.stages.export.formats.steps import (
    LedAction,
    LeftOutStep,
    ReleasedStep,
    StepExample,
    right_box,
    same_action,
    step_example,
)
from trajmill.stages.export.target import ReplyTarget
from trajmill.stages.export.words import words_of

STEP_KINDS: Final = frozenset({"step", "reasoning", "rft"})
"""Kinds whose rows are steps in the conversation of an agent."""
LEADING_KINDS: Final = frozenset({"ces", "coda"})
"""Kinds whose replies are words of one role that lead to the action of another: that of the row's step."""


def kind_example(
    family: Family, episode: Episode, example: Example, weight: float, screens: ScreenReader
) -> StepExample | LeftOutStep:
    """Return the training row of an example of a derived kind, or the reason why there is none.

    Args:
        family: with the pixel budget that its model is trained with.
        episode: of the example's trajectory, with all its steps, its verdicts and its guidance.
        example: as it is stored; positions in its reply are pixels of its last screen.
        weight: what it counts in the release.
        screens: reads sizes and accessibility trees of the stored screens.
    """
    try:
        made = _made(family, episode, example, weight, screens)
    except NotExpressible:
        return LeftOutStep("not_expressible")
    except ModelFailure:
        return LeftOutStep("screen_outside_budget")
    if isinstance(made, LeftOutStep):
        return made
    author = example.written_by or episode.trajectory.model_version
    return made._replace(words=words_of(example.kind, example.variant or "", author))


def _made(
    family: Family, episode: Episode, example: Example, weight: float, screens: ScreenReader
) -> StepExample | LeftOutStep:
    if example.kind in STEP_KINDS and example.step_index is not None:
        row = ReleasedStep(example.example_id, example.trajectory_id, example.step_index, weight)
        return step_example(family, _with_reply(episode, example), row, screens)
    return _other_example(family, episode, example, weight, screens.size)


def _with_reply(episode: Episode, example: Example) -> Episode:
    """Return the episode with the thought and the conclusion of the example at its step."""
    dialect = dialect_for(episode.query.platform)
    # The frame only converts positions, and the stored action has these already.
    read = dialect.parse(example.messages[-1].content, native_frame(Size(1, 1)))
    if not isinstance(read, Reply):
        return episode
    changes = {"thought": read.thought, "conclusion": read.conclusion, "raw_response": ""}
    steps = (step.model_copy(update=changes) if step.index == example.step_index else step for step in episode.steps)
    return episode.model_copy(update={"steps": tuple(steps)})


def _other_example(
    family: Family, episode: Episode, example: Example, weight: float, size_of: Callable[[str], Size]
) -> StepExample | LeftOutStep:
    action = None if example.action is None else action_from_json(example.action)
    frame = family.frame(size_of(example.screens[-1])) if example.screens else None
    messages = _family_messages(family, episode, example, action, frame)
    if isinstance(messages, LeftOutStep):
        return messages
    index = -1 if example.step_index is None else example.step_index
    step = next((step for step in episode.steps if step.index == index), episode.steps[0])
    stored = step.model_copy(update={"action": example.action, "index": index})
    conversation = StepConversation(messages, example.screens)
    target = None
    if action is not None and frame is not None:
        target = _target(family, episode, action, example.box, frame)
    lineage = lineage_of(family, episode, stored, conversation, size_of)
    led = _led_action(family, episode, example, step, size_of)
    return StepExample(example.example_id, messages, target, lineage, weight, leads_to=led)


def _target(family: Family, episode: Episode, action: Action, box: Box | None, frame: CoordinateFrame) -> ReplyTarget:
    return ReplyTarget(
        family=family.name,
        platform=episode.query.platform,
        action=action,
        box=box,
        screen=frame.screen,
        resized=frame.resized,
    )


def _led_action(
    family: Family, episode: Episode, example: Example, step: Step, size_of: Callable[[str], Size]
) -> LedAction | None:
    """Return the action of the row's step, for a row whose reply must lead to it."""
    if example.kind not in LEADING_KINDS or step.index != example.step_index or step.action is None:
        return None
    action = action_from_json(step.action)
    frame = family.frame(size_of(step.screen_before))
    past = tuple((one.raw_response, one.conclusion) for one in episode.steps if one.index < step.index)
    target = _target(family, episode, action, right_box(step, action), frame)
    return LedAction(example.variant or "", target, past)


def _family_messages(
    family: Family, episode: Episode, example: Example, action: Action | None, frame: CoordinateFrame | None
) -> tuple[Message, ...] | LeftOutStep:
    """Return the messages with the family's tools and the action in its dialect."""
    if action is None or frame is None:
        return example.messages
    dialect = family.dialect(episode.query.platform)
    reply = bare_call(action, dialect, frame)
    read = dialect.parse(reply, frame)
    if not isinstance(read, Reply) or not same_action(read.action, action, frame):
        return LeftOutStep("not_round_trip")
    asked = [
        message.model_copy(update={"content": dialect.system_prompt(frame)}) if message.role == "system" else message
        for message in example.messages[:-1]
    ]
    return (*asked, Message(role="assistant", content=reply))
