"""Writes the reply for a chosen action; thought and conclusion come from templates."""

from __future__ import annotations

from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.user_text import UserText
from trajmill.stages.models.embedded.reading.candidates import CandidateAction
from trajmill.stages.models.embedded.reading.conclusions import (
    Conclusion,
    noted_values,
    plain,
    quoted,
    write_conclusion,
)
from trajmill.stages.models.embedded.reading.features import CONCLUSION_VERBS
from trajmill.stages.models.embedded.reading.situation import PolicyInput
from trajmill.stages.models.embedded.reading.words import tokens

_MOST_NOTES = 3
_HOW = {"down": "down", "up": "up"}
_PLANS = {
    "press": "tap",
    "open": "open",
    "type": "type",
    "down": "scroll down",
    "up": "scroll up",
    "back": "go back",
    "home": "go to the home screen",
    "enter": "confirm the input",
    "finish": "report success",
}


def reply_for(policy_input: PolicyInput, chosen: int, user: UserText, *, phone: bool) -> Reply:
    """The reply for the candidate at index `chosen`."""
    candidate = policy_input.candidates[chosen]
    parts = Conclusion(
        CONCLUSION_VERBS[candidate.verb],
        candidate.text,
        candidate.field,
        policy_input.title,
        _new_notes(policy_input, user.instruction),
    )
    conclusion = write_conclusion(parts, how=_HOW.get(candidate.verb, ""), into=candidate.verb == "type")
    return Reply(_thought(policy_input, candidate, user.instruction), candidate.action(phone=phone), conclusion)


def _thought(policy_input: PolicyInput, candidate: CandidateAction, instruction: str) -> str:
    plan = _PLANS[candidate.verb] + (f" {quoted(candidate.text)}" if candidate.text else "")
    asked = {token.normal for token in tokens(instruction)}
    text = candidate.text
    shared = [text[token.start : token.end] for token in tokens(text) if token.normal in asked]
    reason = f": the user speaks of {quoted(' '.join(shared))}" if shared else ""
    return f"I see {quoted(policy_input.title)}. Next I {plan}{reason}."


def _new_notes(policy_input: PolicyInput, instruction: str) -> tuple[str, ...]:
    """Values on the screen that are neither in the instruction nor noted yet; later steps may need them."""
    known = {*noted_values(policy_input.conclusions)}
    fresh = [text for value in policy_input.values if (text := plain(value)) not in known and text not in instruction]
    return tuple(fresh[:_MOST_NOTES])
