"""The words around a chosen action: thought and conclusion from templates."""

from __future__ import annotations

from trajmill.schemas.dialects.base import Reply
from trajmill.stages.agents.user_text import UserText
from trajmill.stages.models.embedded.candidates import Candidate
from trajmill.stages.models.embedded.deeds import Deed, noted_values, plain, quoted, write_deed
from trajmill.stages.models.embedded.features import DEED_VERBS
from trajmill.stages.models.embedded.situation import View
from trajmill.stages.models.embedded.words import tokens

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


def reply_for(view: View, chosen: int, user: UserText, *, phone: bool) -> Reply:
    """The reply that carries out the candidate at index `chosen`."""
    candidate = view.candidates[chosen]
    deed = Deed(
        DEED_VERBS[candidate.verb], candidate.text, candidate.field, view.title, _new_notes(view, user.instruction)
    )
    conclusion = write_deed(deed, how=_HOW.get(candidate.verb, ""), into=candidate.verb == "type")
    return Reply(_thought(view, candidate, user.instruction), candidate.action(phone=phone), conclusion)


def _thought(view: View, candidate: Candidate, instruction: str) -> str:
    plan = _PLANS[candidate.verb] + (f" {quoted(candidate.text)}" if candidate.text else "")
    asked = {token.normal for token in tokens(instruction)}
    text = candidate.text
    shared = [text[token.start : token.end] for token in tokens(text) if token.normal in asked]
    reason = f": the user speaks of {quoted(' '.join(shared))}" if shared else ""
    return f"I see {quoted(view.title)}. Next I {plan}{reason}."


def _new_notes(view: View, instruction: str) -> tuple[str, ...]:
    """Data on the screen that the user did not say and that is not noted yet: later steps may need it."""
    known = {*noted_values(view.deeds)}
    fresh = [text for value in view.values if (text := plain(value)) not in known and text not in instruction]
    return tuple(fresh[:_MOST_NOTES])
