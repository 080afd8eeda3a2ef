"""Checks that a thought and the action after it agree (paper 2.2.3, thought-action consistency).

The check is rules over words: it refuses what clearly contradicts, and keeps what it cannot tell.
"""

from __future__ import annotations

import re
from typing import Final

from trajmill.schemas.actions import (
    Action,
    Click,
    HorizontalScroll,
    LongPress,
    OpenApp,
    Scroll,
    Swipe,
    SystemButton,
    TypeText,
    Wait,
    action_from_json,
)
from trajmill.schemas.tables.step import Step
from trajmill.stages.overlap import words_of

OTHER_ACTION: Final = "thought_of_other_action"
OTHER_ELEMENT: Final = "thought_of_other_element"

_PRESS = "press"
_VERBS: Final = {
    _PRESS: "tap taps tapping click clicks clicking press presses pressing select selecting choose choosing open opens "
    "opening launch launching hit toggle toggling pick check hold",
    "write": "type types typing write writes writing enter enters entering input inputs fill fills filling",
    "scroll": "scroll scrolls scrolling swipe swipes swiping",
    "leave": "back home return returns returning leave leaves leaving close closing exit recents menu",
    "wait": "wait waits waiting",
    "end": "finish finished done complete completed terminate report reports answer stop success",
}
_FAMILY_OF: Final = {verb: family for family, verbs in _VERBS.items() for verb in verbs.split()}
_QUOTED: Final = re.compile(r"[\"“]([^\"”]{1,80})[\"”]")


def contradiction(step: Step) -> str | None:
    """Why a step's thought contradicts its action; None if it agrees, or if nobody can tell.

    A thought contradicts if it speaks only of other kinds of actions (of typing, before a tap), or if it quotes names
    and the pressed element has none of them. One that names the pressed element agrees.
    """
    if step.action is None or not step.thought:
        return None
    action, thought = action_from_json(step.action), step.thought.casefold()
    families = _families(action)
    if not families or _names_target(thought, step):
        return None
    spoken = {_FAMILY_OF[word] for word in words_of(_QUOTED.sub(" ", thought)) if word in _FAMILY_OF}
    if spoken and not spoken & families:
        return OTHER_ACTION
    if _PRESS in families and step.target is not None and step.target.text and _quotes_other_names(thought, step):
        return OTHER_ELEMENT
    return None


def _families(action: Action) -> frozenset[str]:
    """The kinds of actions that a thought may speak of before this one; empty if any will do."""
    match action:
        case Click() | LongPress() | OpenApp():
            return frozenset({_PRESS})
        case TypeText():
            return frozenset({"write"})
        case Scroll() | HorizontalScroll() | Swipe():
            return frozenset({"scroll"})
        case Wait():
            return frozenset({"wait"})
        case SystemButton(button="Enter"):
            return frozenset({_PRESS, "write"})
        case SystemButton():
            return frozenset({"leave", _PRESS})
        case _:
            # An agent that ends tells of what it did, and keys and drags have many names.
            return frozenset()


def _names_target(thought: str, step: Step) -> bool:
    """Whether all words of the pressed element's text are in the thought."""
    named = set(words_of(step.target.text)) if step.target is not None else set()
    return bool(named) and named <= set(words_of(thought))


def _quotes_other_names(thought: str, step: Step) -> bool:
    """Whether the thought quotes names, and none shares a word with the pressed element's text."""
    assert step.target is not None
    names = [set(words_of(name)) for name in _QUOTED.findall(thought)]
    element = set(words_of(step.target.text))
    return any(names) and bool(element) and not any(name & element for name in names)
