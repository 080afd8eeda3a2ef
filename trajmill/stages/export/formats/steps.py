"""Canonical rows of a release: steps as conversations of a family with their targets, and stored RL replies."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Annotated, NamedTuple

import pyarrow as pa

from trajmill.schemas.actions import Action, TypeText, action_from_json, pressed_point
from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.base import NotExpressible, Reply
from trajmill.schemas.dialects.families import Family
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import BadInputError, ModelFailure
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import ScreenReader, UIElement
from trajmill.schemas.record import Float32, Int64
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER, Message, RLStep
from trajmill.schemas.tables.trajectory import Step
from trajmill.stages.derive.conversation import PLACEHOLDERS, StepConversation, family_conversation
from trajmill.stages.export.rewards import ReplyTarget
from trajmill.stages.guidance.strip import quotes_guidance

_TOKENS_AROUND_MESSAGE = 16
"""Upper bound on the tokens that a chat template adds to a message: two marks, the role, two line breaks."""
_TOKENS_AROUND_IMAGE = 2
_Reads = Callable[[str], Sequence[UIElement]]


class Lineage(NamedTuple):
    """The origin of a row. No field is ever null, so that files of all sizes are read with the same types."""

    query_id: str
    trajectory_id: str
    step_index: Int64
    round: Int64
    instruction: str
    platform: str
    apps: tuple[str, ...]
    task: str
    environment: str
    agent: str
    policy_version: str
    guided: bool
    """Whether the agent was given hints; the messages do not contain them."""
    step_label: str
    """The step critic's label; empty without one."""
    judged_by: str
    """The rule of the judge that judged the trajectory."""
    action: str
    """JSON, in pixels of the stored screenshot; empty if the reply was no action."""
    family: str
    coordinate_space: str
    image_sizes: Annotated[tuple[Size, ...], pa.list_(pa.list_(pa.int64()))]
    image_tokens: Int64
    """Tokens of all images; 0 if it is unknown how the family divides images."""
    text_bytes: Int64
    tokens_at_most: Int64
    """Upper bound on the tokens of the row: those of the images, and one for each byte of text."""
    screen_ids: tuple[str, ...]


class LeftOutStep(NamedTuple):
    reason: str


class ReleasedStep(NamedTuple):
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
    """Author of the text, as `words_of` classifies it; empty for the policy that acted."""
    rejected: str = ""
    """The worse reply to the same prompt; empty without one."""

    def target_json(self) -> str:
        """Return the target as trainers for RL read it, or raise ValueError for a reply that is no action."""
        if self.target is None:
            raise ValueError(f"example {self.example_id} has no target")
        return self.target.model_dump_json()


class Comparison(NamedTuple):
    """The rewards of a reply and the group that it was compared in. No field is ever null."""

    rl_step_id: str
    group: str
    """The query whose attempts are compared."""
    group_size: Int64
    branch: str
    """The screen whose branches are compared with each other alone; empty for whole attempts."""
    replayed: bool
    """Whether the attempt is a success of an earlier round that replaced a failed one."""
    accuracy_reward: float
    format_reward: float
    reward: float
    advantage: float
    """The normalised reward, equal on all steps of the attempt."""
    step_weight: float
    """One over the steps of the attempt, or 1."""
    temperature: float
    """Sampling temperature of the reply; 0 if it was not stored."""
    response_token_ids: tuple[int, ...]
    """Token ids of the reply from the policy's server. Empty if it gave none, or if the row's prompt or reply is not
    exactly the policy's."""
    old_logprobs: tuple[Float32, ...]
    """Natural logarithm of each token's probability."""


class RLStepExample(NamedTuple):
    messages: tuple[Message, ...]
    comparison: Comparison
    lineage: Lineage


def step_example(
    family: Family, episode: Episode, row: ReleasedStep, screens: ScreenReader
) -> StepExample | LeftOutStep:
    """Return the training example of a released step, or why there is none; `episode` is whole and judged."""
    made = _family_step(family, episode, row.step_index, screens.size)
    if isinstance(made, LeftOutStep):
        return made
    step, conversation, frame = made
    if step.action is None:
        return LeftOutStep("no_action")
    action = action_from_json(step.action)
    earlier = [one.screen_before for one in episode.steps if one.index <= step.index]
    prompt = [message.content for message in conversation.messages[:-1]]
    shown, read = conversation.screens, screens.elements
    if isinstance(action, TypeText) and _is_forgotten(action.text, prompt, shown, earlier, read):
        return LeftOutStep("types_forgotten_text")
    if step.target is not None and pressed_point(action) is not None:
        # The present screen shows the pressed text, among others.
        before = [screen for screen in earlier if screen != step.screen_before]

        def told(screen: str) -> list[UIElement]:
            return [each for each in read(screen) if not (each.clickable or "title" in each.states)]

        if _is_forgotten(step.target.text, prompt, shown[:-1], before, told):
            return LeftOutStep("presses_forgotten_text")
    target = ReplyTarget.of(family, episode.query.platform, action, right_box(step, action), frame)
    lineage = lineage_of(family, episode, step, conversation, screens.size)
    return StepExample(row.example_id, conversation.messages, target, lineage, row.loss_weight)


def rl_step_example(
    family: Family, episode: Episode, row: RLStep, size_of: Callable[[str], Size]
) -> RLStepExample | LeftOutStep:
    """Return the example of a stored RL step. A reply without an action stays unchanged: its advantage is about it.

    Args:
        family: with the pixel budget that its model is trained with.
        episode: with all its steps, its verdicts and its guidance.
        row: the step with its advantage.
        size_of: width and height of a stored screen.

    Raises:
        BadInputError: the step does not have one log probability for each token.
    """
    made = _family_step(family, episode, row.step_index, size_of)
    if isinstance(made, LeftOutStep):
        return made
    tokens, logprobs = row.response_token_ids or (), row.old_logprobs or ()
    if len(tokens) != len(logprobs):
        raise BadInputError(
            f"step {row.step_index} of trajectory {row.trajectory_id}: {len(logprobs)} log probabilities for "
            f"{len(tokens)} tokens; derive its round again"
        )
    messages = made.conversation.messages
    as_given = messages[:-1] == row.prompt and messages[-1].content == row.response
    stored = Comparison(*(getattr(row, name) for name in Comparison._fields))
    comparison = stored._replace(
        group_size=row.group_size or 0,
        branch=row.branch or "",
        temperature=row.temperature or 0.0,
        response_token_ids=tokens if as_given else (),
        old_logprobs=logprobs if as_given else (),
    )
    return RLStepExample(messages, comparison, lineage_of(family, episode, made.step, made.conversation, size_of))


class _FamilyStep(NamedTuple):
    step: Step
    conversation: StepConversation
    frame: CoordinateFrame
    """The coordinates of positions in its reply."""


def _family_step(
    family: Family, episode: Episode, step_index: int, size_of: Callable[[str], Size]
) -> _FamilyStep | LeftOutStep:
    """Return a step in the dialect of a family, unless its reply cannot be read back."""
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
    frame = family.frame(size_of(step.screen_before))
    texts = [message.content for message in conversation.messages]
    placeholders = sum(text.count(placeholder) for text in texts for placeholder in PLACEHOLDERS)
    if placeholders != len(conversation.screens) or IMAGE_PLACEHOLDER in texts[-1]:
        return LeftOutStep("placeholder_in_text")
    if quotes_guidance("\n".join(texts), episode.guidance):
        return LeftOutStep("quotes_guidance")
    parsed = family.dialect(episode.query.platform).parse(texts[-1], frame)
    read = parsed.action if isinstance(parsed, Reply) else None
    stored = None if step.action is None else action_from_json(step.action)
    is_same = read is stored if read is None or stored is None else same_action(read, stored, frame)
    return _FamilyStep(step, conversation, frame) if is_same else LeftOutStep("not_round_trip")


def same_action(one: Action, other: Action, frame: CoordinateFrame) -> bool:
    """Whether two actions are equal, except that positions were rounded to whole units of the frame's space.

    Positions may differ by half a unit of the space in stored pixels, plus half a pixel.
    """
    first, second = one.model_dump(), other.model_dump()
    if first.keys() != second.keys():
        return False
    wide, high = frame.extent
    limit_x, limit_y = 0.5 * frame.screen.width / wide + 0.5, 0.5 * frame.screen.height / high + 0.5
    limits = {"x": limit_x, "x2": limit_x, "y": limit_y, "y2": limit_y}
    return all(
        abs(first[name] - second[name]) <= limits[name]
        if name in limits and isinstance(first[name], int) and isinstance(second[name], int)
        else first[name] == second[name]
        for name in first
    )


def right_box(step: Step, action: Action) -> Box | None:
    """Return the element at the position of a step's action, None if it is unknown."""
    point = pressed_point(action)
    return step.target.bounds if step.target is not None and point and step.target.bounds.contains(*point) else None


def _is_forgotten(
    text: str, prompt: Sequence[str], shown: Collection[str], earlier: Sequence[str], read: _Reads
) -> bool:
    """Whether a typed or pressed text was read on an earlier screen, and is in neither the prompt nor its screens.

    An agent that notes what it reads can carry a code from one app to another. A family whose history is its past
    actions, as the one published for Qwen2.5-VL, forgets the code with the screen.

    `shown` are the ids of the screens that the prompt shows, `earlier` those of all screens of the episode up to the
    reply; `read` returns the elements of a screen that tell something, none without an accessibility tree.
    """
    whole = re.compile(rf"(?<!\w){re.escape(text)}(?!\w)", re.IGNORECASE)
    if not re.search(r"\w", text) or any(text.casefold() in each.casefold() for each in prompt):
        return False
    has = {screen for screen in (*earlier, *shown) if any(whole.search(f"{e.text}\n{e.value}") for e in read(screen))}
    return bool(has) and has.isdisjoint(shown)


def lineage_of(
    family: Family, episode: Episode, step: Step, conversation: StepConversation, size_of: Callable[[str], Size]
) -> Lineage:
    """Return the lineage of a step; raises ModelFailure if a screen does not fit the family's pixel budget."""
    query, trajectory, messages = episode.query, episode.trajectory, conversation.messages
    sizes = tuple(size_of(screen) for screen in conversation.screens)
    shown = sum(image_tokens(family, size) for size in sizes)
    text_bytes = sum(len(message.content.encode()) for message in messages)
    tokens_around = len(messages) * _TOKENS_AROUND_MESSAGE + len(sizes) * _TOKENS_AROUND_IMAGE
    return Lineage(
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
        step_label=episode.labels.get(step.index, ""),
        judged_by=episode.judgement.rule if episode.judgement is not None else "",
        action=step.action or "",
        family=family.name,
        coordinate_space=family.space.value,
        image_sizes=sizes,
        image_tokens=shown,
        text_bytes=text_bytes,
        tokens_at_most=shown + text_bytes + tokens_around,
        screen_ids=conversation.screens,
    )


def image_tokens(family: Family, size: Size) -> int:
    """Return the tokens of an image, 0 for unknown patches; raises ModelFailure if it does not fit the budget."""
    patch = family.budget.factor
    if patch == 1:
        return 0
    resized = family.budget.fit(size)
    return resized.width // patch * (resized.height // patch)
