"""The format that a role's reply must have, and its reward (CES A.2, CODA equation 1)."""

from __future__ import annotations

import re

from trajmill.schemas.actions import Action
from trajmill.stages.export.rewards import ReplyScore, ces_reward, coda_reward
from trajmill.stages.metrics.action_match import RightAction, match_action
from trajmill.stages.training.execution_feedback.spec import CodaSpecialistSpec, FeedbackRecipe

_UNTAGGED = r"(?:(?!</?(?:think|answer)>).)*?\S(?:(?!</?(?:think|answer)>).)*"
_ANSWER = rf"<answer>{_UNTAGGED}</answer>"
_THINK = rf"<think>{_UNTAGGED}</think>"
_FORMATS = {
    "coordinator": re.compile(rf"\s*{_THINK}\s*{_ANSWER}\s*", re.DOTALL),
    # Its prompt asks for the answer alone; a model that thinks first may.
    "state_tracker": re.compile(rf"\s*(?:{_THINK})?\s*{_ANSWER}\s*", re.DOTALL),
    "planner": re.compile(rf"\s*(?:{_THINK})?\s*{_UNTAGGED}\s*", re.DOTALL),
}


def has_format(role: str, reply: str) -> bool:
    """Return whether a reply has exactly the tags of its role, each around some text (CES, equation 22)."""
    return _FORMATS[role].fullmatch(reply) is not None


def score_of(role: str, reply: str, action: Action | None, right: RightAction) -> ReplyScore:
    """Return the parts of the reward of a role's reply, from the Executor's action on it, if any."""
    match = match_action(action, right)
    return ReplyScore(float(has_format(role, reply)), float(match.type), float(match.parameters), match.closeness)


def reward_of(recipe: FeedbackRecipe, score: ReplyScore) -> float:
    """Return the reward: equation 21 of CES, or equation 1 of CODA, which has no part for the format."""
    return coda_reward(score) if isinstance(recipe, CodaSpecialistSpec) else ces_reward(score)
