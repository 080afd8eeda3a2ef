"""The origin of a row: the facts about its step, so that the row can be used without the warehouse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, NamedTuple

import pyarrow as pa

from trajmill.schemas.dialects.families import Family
from trajmill.schemas.episode import Episode
from trajmill.schemas.geometry import Size
from trajmill.schemas.record import Int64
from trajmill.schemas.tables.example import Message
from trajmill.schemas.tables.step import Step
from trajmill.stages.derive.conversation import StepConversation

_TOKENS_AROUND_MESSAGE = 16
"""Upper bound on the tokens that a chat template adds to a message: two marks, the role, two line breaks."""
_TOKENS_AROUND_IMAGE = 2


class Lineage(NamedTuple):
    """The origin of a row. No field is ever null, so that files of all sizes are read with the same types."""

    query_id: str
    trajectory_id: str
    step_index: Int64
    round: Int64
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
    """The rule of the judge that judged the trajectory."""
    action: str
    """JSON, in pixels of the stored screenshot; empty if the reply was no action."""
    family: str
    coordinate_space: str
    """The coordinate space of positions in the messages."""
    image_sizes: Annotated[tuple[Size, ...], pa.list_(pa.list_(pa.int64()))]
    """Width and height of each image."""
    image_tokens: Int64
    """Tokens of all images; 0 if it is unknown how the family divides images."""
    text_bytes: Int64
    """Bytes of all messages in UTF-8."""
    tokens_at_most: Int64
    """Upper bound on the tokens of the row: those of the images, and one for each byte of text."""
    screen_ids: tuple[str, ...]


def lineage_of(
    family: Family, episode: Episode, step: Step, spoken: StepConversation, size_of: Callable[[str], Size]
) -> Lineage:
    """The lineage of a step in the conversation of a family.

    Raises:
        ModelFailure: a screen does not fit the family's pixel budget.
    """
    query, trajectory = episode.query, episode.trajectory
    sizes = tuple(size_of(screen) for screen in spoken.screens)
    labels = {verdict.index: verdict.label.value for verdict in episode.step_verdicts}
    shown = sum(image_tokens(family, size) for size in sizes)
    text_bytes = sum(len(message.content.encode()) for message in spoken.messages)
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
        step_label=labels.get(step.index, ""),
        judged_by=episode.judgement.rule if episode.judgement is not None else "",
        action=step.action or "",
        family=family.name,
        coordinate_space=family.space.value,
        image_sizes=sizes,
        image_tokens=shown,
        text_bytes=text_bytes,
        tokens_at_most=shown + text_bytes + _tokens_around(spoken.messages, sizes),
        screen_ids=spoken.screens,
    )


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


def _tokens_around(messages: Sequence[Message], images: Sequence[Size]) -> int:
    return len(messages) * _TOKENS_AROUND_MESSAGE + len(images) * _TOKENS_AROUND_IMAGE
