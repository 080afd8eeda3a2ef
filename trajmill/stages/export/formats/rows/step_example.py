"""Turns a step of a release into a training example of a family, with the target of its reply."""

from __future__ import annotations

from typing import NamedTuple

from trajmill.schemas.actions import Action, action_from_json, pressed_point
from trajmill.schemas.dialects.families import Family
from trajmill.schemas.episode import Episode
from trajmill.schemas.geometry import Box
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.example import Message
from trajmill.schemas.tables.step import Step
from trajmill.stages.export.formats.rows.forgotten_text import types_forgotten_text
from trajmill.stages.export.formats.rows.lineage import Lineage, lineage_of
from trajmill.stages.export.formats.rows.spoken_step import LeftOutStep, spoken_step
from trajmill.stages.export.target import ReplyTarget


class ReleasedStep(NamedTuple):
    """A row of a release's supervised file."""

    example_id: str
    trajectory_id: str
    step_index: int
    loss_weight: float


class LedAction(NamedTuple):
    """The action of an accepted step that the words of a role must lead to (CES A.1, CODA 3.3.1)."""

    variant: str
    """The sort of the row within its kind: the role (`ces`), or the app of the screen (`coda`)."""
    target: ReplyTarget
    past: tuple[tuple[str, str], ...]
    """The reply and the conclusion of each step before it."""


class StepExample(NamedTuple):
    """One training row, before it is written in a trainer's format."""

    example_id: str
    messages: tuple[Message, ...]
    """Each image is the placeholder `<image>`; the last message is the reply."""
    target: ReplyTarget | None
    """None for a reply that is no action, of a derived kind."""
    lineage: Lineage
    loss_weight: float
    copy: int = 0
    """0 for the first row of the step; a step of weight 2 has two rows where a trainer reads no weights."""
    leads_to: LedAction | None = None
    """For a role's words that another role acts on: the right action; None for all other rows."""
    words: str = ""
    """Whose words it teaches, a text of `trajmill.stages.export.words`; those of the policy that acted if empty."""


def step_example(
    family: Family, episode: Episode, row: ReleasedStep, screens: ScreenReader
) -> StepExample | LeftOutStep:
    """The training example of a released step, or the reason why there is none.

    Args:
        family: with the pixel budget that its model is trained with.
        episode: with all its steps, its verdicts and its guidance.
        row: names the step and its weight.
        screens: reads sizes and accessibility trees of the stored screens.
    """
    spoken = spoken_step(family, episode, row.step_index, screens.size)
    if isinstance(spoken, LeftOutStep):
        return spoken
    step, conversation, frame = spoken
    if step.action is None:
        return LeftOutStep("no_action")
    action = action_from_json(step.action)
    earlier = [one.screen_before for one in episode.steps if one.index <= step.index]
    prompt = [message.content for message in conversation.messages[:-1]]
    if types_forgotten_text(action, prompt, conversation.screens, earlier, screens):
        return LeftOutStep("types_forgotten_text")
    target = ReplyTarget(
        family=family.name,
        platform=episode.query.platform,
        action=action,
        box=right_box(step, action),
        screen=frame.screen,
        resized=frame.resized,
    )
    lineage = lineage_of(family, episode, step, conversation, screens.size)
    return StepExample(row.example_id, conversation.messages, target, lineage, row.loss_weight)


def target_json(example: StepExample) -> str:
    """The target of an example as trainers for RL read it.

    Raises:
        ValueError: its reply is no action, so that nothing can be compared with it.
    """
    if example.target is None:
        raise ValueError(f"example {example.example_id} has no target")
    return example.target.model_dump_json()


def right_box(step: Step, action: Action) -> Box | None:
    """The element at the position of a step's action, None if it is unknown."""
    point = pressed_point(action)
    return step.target.bounds if step.target is not None and point and step.target.bounds.contains(*point) else None
