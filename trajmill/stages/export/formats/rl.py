"""Turns a stored RL step into a training example of a family: the policy's reply with its advantage."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from trajmill.schemas.dialects.families import Family
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.geometry import Size
from trajmill.schemas.record import Float32, Int64
from trajmill.schemas.tables.example import Message
from trajmill.schemas.tables.rl_step import RLStep
from trajmill.stages.export.formats.lineage import Lineage, lineage_of
from trajmill.stages.export.formats.steps import LeftOutStep, family_step


class Comparison(NamedTuple):
    """The rewards of a reply and the group that it was compared in. No field is ever null."""

    rl_step_id: str
    group: str
    """The query whose attempts are compared."""
    group_size: Int64
    """Number of attempts in the group."""
    replayed: bool
    """Whether the attempt is a success of an earlier round that replaced a failed one."""
    accuracy_reward: float
    format_reward: float
    reward: float
    """Accuracy plus format reward of the attempt."""
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
    """One RL row, before it is made in a trainer's format."""

    messages: tuple[Message, ...]
    """Each image is the placeholder `<image>`; the last message is the reply."""
    comparison: Comparison
    lineage: Lineage


def rl_step_example(
    family: Family, episode: Episode, row: RLStep, size_of: Callable[[str], Size]
) -> RLStepExample | LeftOutStep:
    """The example of a stored RL step. A reply without an action is kept unchanged, because its advantage is about it.

    Args:
        family: with the pixel budget that its model is trained with.
        episode: with all its steps, its verdicts and its guidance.
        row: the step with its advantage.
        size_of: width and height of a stored screen.

    Raises:
        BadInputError: the step does not have one log probability for each token.
    """
    made = family_step(family, episode, row.step_index, size_of)
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
    comparison = Comparison(
        rl_step_id=row.rl_step_id,
        group=row.group,
        group_size=row.group_size or 0,
        replayed=row.replayed,
        accuracy_reward=row.accuracy_reward,
        format_reward=row.format_reward,
        reward=row.reward,
        advantage=row.advantage,
        step_weight=row.step_weight,
        temperature=row.temperature or 0.0,
        response_token_ids=tokens if as_given else (),
        old_logprobs=logprobs if as_given else (),
    )
    return RLStepExample(messages, comparison, lineage_of(family, episode, made.step, made.conversation, size_of))
