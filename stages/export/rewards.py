"""Reward functions for RL trainers: they compare a reply to a step's prompt with the target of the row.

TRL calls `ces_rewards`, `coda_rewards` or `action_rewards` with the column `target`; verl calls `compute_score` with
the ground truth of a row. A reply is parsed in the dialect of the target's family and never executed. No reply raises.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from trajmill.schemas.actions import (
    Action,
    Answer,
    Drag,
    HorizontalScroll,
    Interact,
    OpenApp,
    PressKeys,
    Scroll,
    Swipe,
    SystemButton,
    Terminate,
    TypeText,
    pressed_point,
)
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.families import family_named
from trajmill.schemas.geometry import Size
from trajmill.stages.derive.rewards import MALFORMED_PENALTY
from trajmill.stages.export.target import ReplyTarget

CES_FORMAT, CES_ACTION = 0.1, 0.9
"""Coefficients alpha of CES, equation 21."""
CES_TYPE, CES_PARAMETERS = 0.2, 0.8
"""Coefficients gamma of CES, equation 23."""
UNBOXED_REACH: Final = 0.14
"""Largest distance of a right position, as a share of the screen, if the element is unknown (GUI-Odyssey)."""
_ALIKE = 0.5
"""Two texts count as equal if their F1 is above this (CES, equation 25)."""


class ReplyScore(NamedTuple):
    """The parts of all rewards, each from 0 to 1."""

    format: float
    """1 for a reply that the dialect can parse."""
    type: float
    """1 for an action of the target's type."""
    parameters: float
    """1 if the parameters are right too: a position within the element, the same words, the same direction."""
    closeness: float
    """How close the parameters are: for positions 1 minus the distance as a share of the screen, for texts their F1."""


_NOTHING = ReplyScore(0.0, 0.0, 0.0, 0.0)


def score_reply(text: str, target: str) -> ReplyScore:
    """Compare a reply with a target.

    Args:
        text: what the model wrote.
        target: JSON of a `ReplyTarget`, as the column `target` holds it.

    Raises:
        pydantic.ValidationError: `target` is no `ReplyTarget`.
    """
    wanted = _target(target)
    read = family_named(wanted.family).dialect(wanted.platform).parse(text, wanted.frame())
    if not isinstance(read, Reply):
        return _NOTHING
    if _type_of(read.action) != _type_of(wanted.action):
        return _NOTHING._replace(format=1.0)
    return ReplyScore(1.0, 1.0, float(_right(read.action, wanted)), _closeness(read.action, wanted))


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
"""The values of `rule` of `compute_score`."""


def ces_rewards(completions: Sequence[Any], target: Sequence[str], **columns: object) -> list[float]:
    """`ces_reward` of each completion, as TRL calls it."""
    return [
        ces_reward(score_reply(_text_of_completion(one), wanted))
        for one, wanted in zip(completions, target, strict=True)
    ]


def coda_rewards(completions: Sequence[Any], target: Sequence[str], **columns: object) -> list[float]:
    """`coda_reward` of each completion, as TRL calls it."""
    return [
        coda_reward(score_reply(_text_of_completion(one), wanted))
        for one, wanted in zip(completions, target, strict=True)
    ]


def action_rewards(completions: Sequence[Any], target: Sequence[str], **columns: object) -> list[float]:
    """`action_reward` of each completion, as TRL calls it."""
    return [
        action_reward(score_reply(_text_of_completion(one), wanted))
        for one, wanted in zip(completions, target, strict=True)
    ]


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Mapping[str, Any] | None = None,
    rule: str = "ces",
    **others: object,
) -> dict[str, float]:
    """The reward of one reply and its parts, as verl calls it.

    Raises:
        ValueError: there is no such rule.
    """
    if rule not in RULES:
        raise ValueError(f"there is no reward rule {rule!r}; there are {', '.join(RULES)}")
    score = score_reply(solution_str, ground_truth)
    return {"score": RULES[rule](score), **{f"reward_{name}": part for name, part in score._asdict().items()}}


@lru_cache(maxsize=1024)
def _target(text: str) -> ReplyTarget:
    # The replies of a group share their target.
    return ReplyTarget.model_validate_json(text)


def _text_of_completion(completion: Any) -> str:
    """The text of a completion: TRL passes a string, or messages whose content is a string or blocks."""
    if isinstance(completion, str):
        return completion
    contents = [message["content"] for message in completion]
    return "".join(
        content if isinstance(content, str) else "".join(block.get("text") or "" for block in content)
        for content in contents
    )


def _type_of(action: Action) -> tuple[object, ...]:
    """The type of an action and those parameters that are never just close: button, count, keys, status."""
    match action:
        case SystemButton(button=button):
            return action.kind, button
        case PressKeys(keys=keys):
            return action.kind, *(key.lower() for key in keys)
        case Terminate(status=status):
            return action.kind, status
        case _:
            return action.kind, getattr(action, "button", None), getattr(action, "count", None)


def _right(action: Action, target: ReplyTarget) -> bool:
    """Whether an action of the target's type has the right parameters."""
    wanted = target.action
    if isinstance(action, Swipe) and isinstance(wanted, Swipe):
        return _direction(action) == _direction(wanted)
    if isinstance(action, Scroll | HorizontalScroll) and isinstance(wanted, Scroll | HorizontalScroll):
        return (action.clicks > 0) == (wanted.clicks > 0)
    if isinstance(action, Drag) and isinstance(wanted, Drag):
        begun = _within(action.x, action.y, target)
        return begun and _near((action.x2, action.y2), (wanted.x2, wanted.y2), target.screen)
    said = _text_of(wanted)
    if said is not None:
        return _f1(_text_of(action) or "", said) > _ALIKE
    point = pressed_point(action)
    return point is None or _within(*point, target)


def _within(x: int, y: int, target: ReplyTarget) -> bool:
    if target.box is not None:
        return target.box.contains(x, y)
    wanted = pressed_point(target.action)
    return wanted is not None and _near((x, y), wanted, target.screen)


def _near(one: tuple[int, int], other: tuple[int, int], screen: Size) -> bool:
    across, down = (one[0] - other[0]) / screen.width, (one[1] - other[1]) / screen.height
    return across**2 + down**2 <= UNBOXED_REACH**2


def _closeness(action: Action, target: ReplyTarget) -> float:
    said = _text_of(target.action)
    if said is not None:
        return _f1(_text_of(action) or "", said)
    pairs = list(zip(_positions(action), _positions(target.action), strict=False))
    if not pairs:
        return float(_right(action, target))
    return sum(_nearness(one, other, target.screen) for one, other in pairs) / len(pairs)


def _nearness(one: tuple[int, int], other: tuple[int, int], screen: Size) -> float:
    far = abs(one[0] - other[0]) / screen.width + abs(one[1] - other[1]) / screen.height
    return 1.0 - far / 2


def _positions(action: Action) -> list[tuple[int, int]]:
    point = pressed_point(action)
    ends = [(action.x2, action.y2)] if isinstance(action, Swipe | Drag) else []
    return ([point] if point is not None else []) + ends


def _direction(action: Swipe) -> tuple[bool, bool]:
    across, down = action.x2 - action.x, action.y2 - action.y
    vertical = abs(down) >= abs(across)
    return vertical, (down if vertical else across) > 0


def _text_of(action: Action) -> str | None:
    match action:
        case TypeText(text=text) | Answer(text=text) | Interact(text=text):
            return text
        case OpenApp(app=app):
            return app
        case _:
            return None


def _f1(said: str, wanted: str) -> float:
    """F1 of the words of two texts; 1 for equal texts, even empty ones."""
    one, other = Counter(said.lower().split()), Counter(wanted.lower().split())
    if one == other:
        return 1.0
    shared = (one & other).total()
    return 2 * shared / (one.total() + other.total()) if shared else 0.0
