"""Reward functions for RL trainers: they compare a reply to a step's prompt with the target of the row.

TRL calls `ces_rewards`, `coda_rewards` or `action_rewards` with the column `target`; verl calls `compute_score` with
the ground truth of a row. A reply is parsed in the dialect of the target's family and never executed. No reply raises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from trajmill.schemas.actions import Action
from trajmill.schemas.coordinates import CoordinateFrame
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.families import Family, family_named
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.record import Record
from trajmill.schemas.tables.query import Platform
from trajmill.stages.derive.rl_plan import MALFORMED_PENALTY
from trajmill.stages.metrics.action_match import RightAction, match_action

CES_FORMAT, CES_ACTION = 0.1, 0.9
"""Coefficients alpha of CES, equation 21."""
CES_TYPE, CES_PARAMETERS = 0.2, 0.8
"""Coefficients gamma of CES, equation 23."""


class ReplyScore(NamedTuple):
    """The parts of all rewards, each from 0 to 1."""

    format: float
    """1 for a reply in the dialect's form: one closed call, and nothing else but what belongs around it."""
    type: float
    parameters: float
    """1 if the parameters are right too, by `ActionMatch`."""
    closeness: float


def score_reply(text: str, target: str) -> ReplyScore:
    """Compare a reply with the JSON of a `ReplyTarget`."""
    right = _target(target)
    parsed = family_named(right.family).dialect(right.platform).parse(text, right.frame())
    if not isinstance(parsed, Reply) or parsed.slip:
        return ReplyScore(0.0, 0.0, 0.0, 0.0)
    match = match_action(parsed.action, RightAction(right.action, right.box, right.screen))
    return ReplyScore(1.0, float(match.type), float(match.parameters), match.closeness)


def ces_reward(score: ReplyScore) -> float:
    """0.1 for the format and 0.9 for the action: 0.2 of these for its type, 0.8 for its parameters (CES, A.2)."""
    return CES_FORMAT * score.format + CES_ACTION * (CES_TYPE * score.type + CES_PARAMETERS * score.parameters)


def coda_reward(score: ReplyScore) -> float:
    """1 for the type plus the closeness of the parameters (CODA, equation 1)."""
    return score.type + score.closeness


def action_reward(score: ReplyScore) -> float:
    """1 for the right action, -0.5 for a reply without an action (like rewards of trajectories, GUI-Owl 3.1.2)."""
    return score.parameters + MALFORMED_PENALTY * (1.0 - score.format)


RULES: Final = {"ces": ces_reward, "coda": coda_reward, "action": action_reward}


def ces_rewards(completions: Sequence[Any], target: Sequence[str], **columns: object) -> list[float]:
    return [ces_reward(score) for score in _scores(completions, target)]


def coda_rewards(completions: Sequence[Any], target: Sequence[str], **columns: object) -> list[float]:
    return [coda_reward(score) for score in _scores(completions, target)]


def action_rewards(completions: Sequence[Any], target: Sequence[str], **columns: object) -> list[float]:
    return [action_reward(score) for score in _scores(completions, target)]


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Mapping[str, Any] | None = None,
    rule: str = "ces",
    **others: object,
) -> dict[str, float]:
    """Return the reward of one reply and its parts, as verl calls it. Raises ValueError if there is no such rule."""
    if rule not in RULES:
        raise ValueError(f"there is no reward rule {rule!r}; there are {', '.join(RULES)}")
    score = score_reply(solution_str, ground_truth)
    return {"score": RULES[rule](score), **{f"reward_{name}": part for name, part in score._asdict().items()}}


@lru_cache(maxsize=1024)
def _target(text: str) -> ReplyTarget:
    # The replies of a group share their target.
    return ReplyTarget.model_validate_json(text)


def _scores(completions: Sequence[Any], targets: Sequence[str]) -> list[ReplyScore]:
    """Score completions: TRL passes strings, or messages whose content is a string or blocks."""
    scores = []
    for completion, target in zip(completions, targets, strict=True):
        contents = [completion] if isinstance(completion, str) else [message["content"] for message in completion]
        texts = (c if isinstance(c, str) else "".join(block.get("text") or "" for block in c) for c in contents)
        scores.append(score_reply("".join(texts), target))
    return scores


class ReplyTarget(Record):
    """The action of a step of a correct trajectory, and the facts that a comparison with a reply needs."""

    family: str
    """The family whose dialect the replies are in."""
    platform: Platform
    action: Action
    """Its positions are pixels of the stored screenshot."""
    box: Box | None
    """The element at the action's position, in the same pixels; null if there was none."""
    screen: Size
    resized: Size
    """Size of the image that the model is shown."""

    @classmethod
    def of(
        cls, family: Family, platform: Platform, action: Action, box: Box | None, frame: CoordinateFrame
    ) -> ReplyTarget:
        return cls(
            family=family.name, platform=platform, action=action, box=box, screen=frame.screen, resized=frame.resized
        )

    def frame(self) -> CoordinateFrame:
        """Return how positions in replies relate to the stored screenshot."""
        return CoordinateFrame(family_named(self.family).space, self.screen, self.resized)
