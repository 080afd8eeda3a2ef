"""Canonical rows of a release's steps: a step as a conversation of a family, with the target of its reply."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from trajmill.schemas.actions import Action, TypeText, action_from_json, pressed_point
from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.base import NotExpressible, Reply
from trajmill.schemas.dialects.families import Family
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER, Message
from trajmill.schemas.tables.step import Step
from trajmill.stages.derive.conversation import PLACEHOLDERS, StepConversation, family_conversation
from trajmill.stages.export.formats.lineage import Lineage, lineage_of
from trajmill.stages.export.target import ReplyTarget
from trajmill.stages.guidance.strip import quotes_guidance


class FamilyStep(NamedTuple):
    """A step and its conversation in a family's dialect."""

    step: Step
    conversation: StepConversation
    frame: CoordinateFrame
    """The coordinates of positions in its reply."""


class LeftOutStep(NamedTuple):
    """A step that gives no row, and why."""

    reason: str
    """`not_expressible`, `screen_outside_budget`, ..."""


def family_step(
    family: Family, episode: Episode, step_index: int, size_of: Callable[[str], Size]
) -> FamilyStep | LeftOutStep:
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
    made = FamilyStep(step, conversation, family.frame(size_of(step.screen_before)))
    reason = _unfit(family, episode, made)
    return made if reason is None else LeftOutStep(reason)


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


def _unfit(family: Family, episode: Episode, made: FamilyStep) -> str | None:
    texts = [message.content for message in made.conversation.messages]
    placeholders = sum(text.count(placeholder) for text in texts for placeholder in PLACEHOLDERS)
    if placeholders != len(made.conversation.screens) or IMAGE_PLACEHOLDER in texts[-1]:
        return "placeholder_in_text"
    if quotes_guidance("\n".join(texts), episode.guidance):
        return "quotes_guidance"
    read = family.dialect(episode.query.platform).parse(texts[-1], made.frame)
    said = read.action if isinstance(read, Reply) else None
    stored = None if made.step.action is None else action_from_json(made.step.action)
    if said is None or stored is None:
        return None if said is stored else "not_round_trip"
    return None if same_action(said, stored, made.frame) else "not_round_trip"


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
    """One training row, before it is made in a trainer's format."""

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

    def weight(self) -> dict[str, str | float]:
        """Return the values of the columns `WEIGHT`."""
        return {"example_id": self.example_id, "loss_weight": self.loss_weight, "copy": self.copy}


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
    made = family_step(family, episode, row.step_index, screens.size)
    if isinstance(made, LeftOutStep):
        return made
    step, conversation, frame = made
    if step.action is None:
        return LeftOutStep("no_action")
    action = action_from_json(step.action)
    earlier = [one.screen_before for one in episode.steps if one.index <= step.index]
    prompt = [message.content for message in conversation.messages[:-1]]
    if _types_forgotten_text(action, prompt, conversation.screens, earlier, screens):
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


def _types_forgotten_text(
    action: Action, prompt: Sequence[str], shown: Collection[str], earlier: Sequence[str], screens: ScreenReader
) -> bool:
    """Whether a reply types what was read on an earlier screen, and neither its prompt nor its screens hold it.

    An agent that notes what it reads can carry a code from one app to another. A family whose history is its past
    actions, as the one published for Qwen2.5-VL, forgets the code with the screen.

    Args:
        action: what the reply does.
        prompt: the texts before the reply.
        shown: ids of the screens that the prompt shows.
        earlier: ids of all screens of the episode up to the reply.
        screens: reads the accessibility trees; a screen without a tree holds no text.
    """
    if not isinstance(action, TypeText):
        return False
    typed = action.text.casefold()
    if any(typed in text.casefold() for text in prompt):
        return False
    holds = {screen for screen in dict.fromkeys((*earlier, *shown)) if _holds(screens, screen, typed)}
    return bool(holds) and holds.isdisjoint(shown)


def _holds(screens: ScreenReader, screen: str, typed: str) -> bool:
    return any(
        typed in element.text.casefold() or typed in element.value.casefold() for element in screens.elements(screen)
    )
