"""Drops accepted trajectories and steps that should not be learned from (GUI-Owl 2.2.3)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from trajmill.schemas import actions
from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader, UIElement
from trajmill.schemas.tables.trajectory import Step
from trajmill.stages.agents.candidates import STEP_SCORES
from trajmill.stages.curate.spec import CurateSpec
from trajmill.stages.overlap import words_of

_USUAL_LEAST = 0.5
"""Up to this score, the derivation itself decides: it drops HARMFUL steps, and NEUTRAL ones without an effect."""
LOW_SCORE: Final = "low_step_score"
NO_SCORE: Final = "no_step_score"
UNGROUNDED: Final = "ungrounded_answer"
OTHER_ACTION: Final = "thought_of_other_action"
OTHER_ELEMENT: Final = "thought_of_other_element"


class RefusedStep(NamedTuple):
    step_index: int | None
    """None for the whole trajectory."""
    reason: str


class CuratedEpisode(NamedTuple):
    """An episode with the steps that are learned from, and what was left out."""

    episode: Episode | None
    """None if the whole trajectory was left out."""
    dropped: tuple[RefusedStep, ...]


def curated_episode(episode: Episode, spec: CurateSpec, screens: ScreenReader) -> CuratedEpisode:
    """Drop what `spec` refuses from an episode with its step verdicts.

    The prompts of the remaining steps stay unchanged: their history is what really happened.
    """
    if spec.grounded_answers and is_ungrounded(episode, screens.elements):
        return CuratedEpisode(None, (RefusedStep(None, UNGROUNDED),))
    scores = {index: STEP_SCORES[label] for index, label in episode.labels.items()}
    needs_score = bool(episode.step_verdicts) and spec.least_step_score > _USUAL_LEAST
    kept, dropped = list[Step](), list[RefusedStep]()
    for step in episode.steps:
        if needs_score and step.index not in scores:
            reason: str | None = NO_SCORE
        elif needs_score and scores[step.index] < spec.least_step_score:
            reason = LOW_SCORE
        else:
            reason = contradiction(step) if spec.consistent_thoughts else None
        if reason is None:
            kept.append(step)
        else:
            dropped.append(RefusedStep(step.index, reason))
    if not dropped:
        return CuratedEpisode(episode, ())
    return CuratedEpisode(episode.model_copy(update={"steps": tuple(kept)}), tuple(dropped))


_THOUSANDS: Final = re.compile(r"(?<=\d)[,'’](?=\d{3}(?!\d))")
_FILLER: Final = frozenset(
    words_of(
        "a an and are at be been by done for from has have i in is it its no not of on or success successfully task "
        "that the there this to was were with yes you your"
    )
)
_ENOUGH = 0.5
"""The part of an answer's words, beside numbers, that must have been on screens: agents answer in sentences."""


def is_ungrounded(episode: Episode, elements_of: Callable[[str], Sequence[UIElement]]) -> bool:
    """Whether an episode ends with an answer whose facts never were on a screen that the agent saw.

    Every number of the answer and half of its other words must have been on such a screen, or be in the instruction;
    at least one of them must have been on a screen. Filler words do not count. Where no screen has an accessibility
    tree, no answer is refused.

    Args:
        episode: with its steps in order.
        elements_of: the accessibility tree of a screen by id, empty where there was none.
    """
    last = episode.steps[-1].action if episode.steps else None
    action = None if last is None else actions.action_from_json(last)
    facts = [word for word in _words(action.text) if word not in _FILLER] if isinstance(action, actions.Answer) else []
    if not facts:
        return False
    seen: set[str] = set()
    for screen_id in dict.fromkeys(step.screen_before for step in episode.steps):
        seen.update(word for element in elements_of(screen_id) for word in _words(f"{element.text} {element.value}"))
    if not seen:
        return False
    known = seen.union(_words(episode.query.instruction))
    numbers = [word for word in facts if any(map(str.isdigit, word))]
    others = [word for word in facts if word not in numbers]
    read = all(word in known for word in numbers) and sum(word in known for word in others) >= _ENOUGH * len(others)
    return not (read and any(word in seen for word in facts))


def _words(text: str) -> list[str]:
    return words_of(_THOUSANDS.sub("", text))


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
    """Return why a step's thought contradicts its action; None if it agrees, or if the rules cannot decide.

    A thought contradicts if it speaks only of other kinds of actions (of typing, before a tap), or if it quotes names
    and the pressed element has none of them. One that names the pressed element agrees.
    """
    if step.action is None or not step.thought:
        return None
    thought, families = step.thought.casefold(), _verb_families(actions.action_from_json(step.action))
    element = set(words_of(step.target.text)) if step.target is not None else set()
    if not families or (element and element <= set(words_of(thought))):
        return None
    spoken = {_FAMILY_OF[word] for word in words_of(_QUOTED.sub(" ", thought)) if word in _FAMILY_OF}
    if spoken and not spoken & families:
        return OTHER_ACTION
    quoted = [set(words_of(name)) for name in _QUOTED.findall(thought)]
    if _PRESS in families and element and any(quoted) and not any(name & element for name in quoted):
        return OTHER_ELEMENT
    return None


def _verb_families(action: actions.Action) -> frozenset[str]:
    """Return the kinds of actions that a thought may speak of before this one; empty if any will do."""
    match action:
        case actions.Click() | actions.LongPress() | actions.OpenApp():
            return frozenset({_PRESS})
        case actions.TypeText():
            return frozenset({"write"})
        case actions.Scroll() | actions.HorizontalScroll() | actions.Swipe():
            return frozenset({"scroll"})
        case actions.Wait():
            return frozenset({"wait"})
        case actions.SystemButton(button="Enter"):
            return frozenset({_PRESS, "write"})
        case actions.SystemButton():
            return frozenset({"leave", _PRESS})
        case _:
            # A final thought sums up the past, and keys and drags have many names.
            return frozenset()
