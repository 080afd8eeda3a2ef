"""Makes trajectory-level RL rows (TRPO, paper 3.1.2): the steps of a trajectory share its one reward and advantage.

Where branches went on from a screen of it, the steps before and after that screen have advantages of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from trajmill.schemas.dialects.base import NotExpressible
from trajmill.schemas.dialects.families import Family
from trajmill.schemas.episode import Episode
from trajmill.schemas.geometry import Size
from trajmill.schemas.record import Origin, content_id
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER, RLStep
from trajmill.stages.derive.collected import LeftOut
from trajmill.stages.derive.conversation import StepConversation, family_conversation, prompt_messages, unfit_text
from trajmill.stages.derive.rl_plan import ComparedTrajectory
from trajmill.stages.derive.spec import StepWeight
from trajmill.stages.guidance.strip import quotes_guidance

MADE_BY = "derive.rl_steps/2"


class PolicyWords(NamedTuple):
    family: Family
    size_of: Callable[[str], Size]
    with_tokens: bool = False
    """Whether the tokens of the replies were requested."""
    temperature: float = 1.0


class RLRows(NamedTuple):
    rows: tuple[RLStep, ...]
    dropped: tuple[LeftOut, ...]


def rl_steps(
    episode: Episode, compared: ComparedTrajectory, step_weight: StepWeight, words: PolicyWords, origin: Origin
) -> RLRows:
    """Return the RL rows of one trajectory, with the policy's own responses and prompts without guidance."""
    trajectory = episode.trajectory
    weight = 1.0 / (len(episode.steps) - (trajectory.branched_at or 0)) if step_weight == "inverse_length" else 1.0
    rows, dropped = [], []
    for position, step in enumerate(episode.steps[compared.from_step : compared.until_step], compared.from_step):
        asked = _prompt(episode, position, words)
        if isinstance(asked, str):
            dropped.append(LeftOut(trajectory.trajectory_id, step.index, asked))
            continue
        row = RLStep(
            rl_step_id=content_id("rl_step", origin.run_id, origin.round, trajectory.trajectory_id, step.index),
            group=compared.group,
            group_size=compared.group_size,
            trajectory_id=trajectory.trajectory_id,
            step_index=step.index,
            prompt=asked.messages,
            response=step.raw_response,
            screens=asked.screens,
            accuracy_reward=compared.accuracy,
            format_reward=compared.format,
            reward=compared.accuracy + compared.format,
            advantage=compared.advantage,
            step_weight=weight,
            replayed=compared.replayed,
            guided=trajectory.guidance_id is not None,
            policy_version=trajectory.model_version,
            response_token_ids=step.reply_token_ids,
            old_logprobs=step.reply_logprobs,
            temperature=words.temperature,
            branch=compared.branch or None,
            **origin.common(MADE_BY),
        )
        rows.append(row)
    return RLRows(tuple(rows), tuple(dropped))


def compares_members(rl_steps: pa.Table) -> bool:
    """Return whether any group has two or more trajectories, from the columns `group` and `trajectory_id`."""
    sizes = rl_steps.group_by("group").aggregate([("trajectory_id", "count_distinct")])
    return bool(pc.any(pc.greater(sizes["trajectory_id_count_distinct"], 1)).as_py())


def _prompt(episode: Episode, position: int, words: PolicyWords) -> StepConversation | str:
    """Return the prompt of a step without guidance and its screens, or the reason for having no row."""
    step, family = episode.steps[position], words.family
    reason = unfit_text(step.prompt, step, step.raw_response, episode.guidance)
    if reason is not None:
        return reason
    if words.with_tokens and (step.reply_token_ids is None or step.reply_logprobs is None):
        return "no_log_probabilities"
    if len(step.reply_token_ids or ()) != len(step.reply_logprobs or ()):
        return "log_probabilities_of_another_length"
    if not (family.past_screens or family.keeps_replies):
        frame = family.frame(words.size_of(step.screen_before))
        messages = prompt_messages(family.dialect(episode.query.platform), step, frame)
        return StepConversation(messages, (step.screen_before,))
    try:
        said = family_conversation(family, episode, position, words.size_of)
    except NotExpressible:
        return "not_expressible"
    prompt = said.messages[:-1]
    if sum(message.content.count(IMAGE_PLACEHOLDER) for message in prompt) != len(said.screens):
        return "placeholder_in_text"
    if any(quotes_guidance(message.content, episode.guidance) for message in prompt):
        return "quotes_guidance"
    return StepConversation(prompt, said.screens)
