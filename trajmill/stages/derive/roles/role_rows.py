"""Makes a row of each thing that a role said in an accepted trajectory (GUI-Owl 2.2.3, mode 2 of online sampling).

The rows of a Reflector follow rules of their own: see `curate/reflector.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from trajmill.schemas.episode import Episode
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER, Message
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.step import Step
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.agents.replies import SUCCESS
from trajmill.stages.curate.reflector import NEGATIVE, POSITIVE, retained_reflections
from trajmill.stages.derive.base import DerivedRows, unfit
from trajmill.stages.derive.collected import Collected, Lesson, Maker
from trajmill.stages.derive.conversation import PLACEHOLDERS
from trajmill.stages.derive.end_to_end import LEARNED_FROM
from trajmill.stages.derive.roles.spec import RolesSpec
from trajmill.stages.guidance.strip import quotes_guidance, without_guidance

_OTHER_CALLERS = ("policy", "explorer", "writer", "describer", "proposer")
_CRITIC = "critic"


class RoleConversation(NamedTuple):
    """The messages of a call with its answer, and the screens in the order of their placeholders."""

    messages: tuple[Message, ...]
    screens: tuple[str, ...]


def is_of_role(call: ModelCall) -> bool:
    """Whether a role of an agent was asked, not an agent of one model, a critic or a writer."""
    return not call.role.startswith(_CRITIC) and call.role not in _OTHER_CALLERS


def conversation_of(call: ModelCall, guidance: str) -> RoleConversation | str:
    """The conversation of a call without guidance, or the reason why it cannot be learned.

    Args:
        call: as it is stored.
        guidance: the hints that the agent was given; empty without any.
    """
    if call.error is not None or not call.response:
        return "no_answer"
    if call.malformed is not None:
        return "malformed"
    messages, screens, texts = [], [], [call.response]
    for message in json.loads(call.messages):
        content = ""
        for part in message["content"]:
            if isinstance(part, str):
                texts.append(without_guidance(part, guidance))
                content += texts[-1]
            else:
                content += IMAGE_PLACEHOLDER
                screens.append(part["screen"])
        messages.append(Message(role=message["role"], content=content))
    if any(placeholder in text for placeholder in PLACEHOLDERS for text in texts):
        return "placeholder_in_text"
    if any(quotes_guidance(text, guidance) for text in texts):
        return "quotes_guidance"
    return RoleConversation((*messages, Message(role="assistant", content=call.response)), tuple(screens))


REFLECTOR = "reflector"


@dataclass(frozen=True)
class RoleRows:
    """Derives role data; needs no model."""

    spec: RolesSpec
    maker: Maker

    async def derive(self, episode: Episode, only: frozenset[int] | None) -> DerivedRows:
        """One example for each kept call of a role; its variant is the role."""
        collected = Collected(self.maker, episode)
        calls = [call for call in episode.calls if is_of_role(call) and call.role in (self.spec.only or (call.role,))]
        reason = unfit(episode, LEARNED_FROM) or (None if calls else "no_role_calls")
        if reason is not None:
            collected.refuse(reason)
            return collected.rows()
        steps = {step.index: step for step in episode.steps}
        labels = {verdict.index: verdict.label for verdict in episode.step_verdicts}
        reflections = _reflections(episode)
        retained = retained_reflections(reflections)
        for call in calls:
            step = steps.get(-1 if call.step_index is None else call.step_index)
            if call.role == REFLECTOR:
                variant, refused = _reflection(call, reflections, retained)
            else:
                variant, refused = call.role, _refused(episode, step, labels)
            said = refused or conversation_of(call, episode.guidance)
            if isinstance(said, str):
                collected.refuse(said, step, variant=variant)
            else:
                collected.add(Lesson(said.messages, said.screens, variant, call.made_by), step)
        return collected.rows()


def _reflections(episode: Episode) -> Mapping[int, bool]:
    """By index of a step, whether the Reflector called it a success; the step after it has the outcome."""
    outcomes = {step.index - 1: json.loads(step.role_outputs).get("outcome") for step in episode.steps}
    return {index: outcome == SUCCESS for index, outcome in outcomes.items() if outcome and index >= 0}


def _reflection(call: ModelCall, reflections: Mapping[int, bool], retained: frozenset[int]) -> tuple[str, str]:
    """The variant of a reflection, and why it is refused; empty if it is kept."""
    reflected = (call.step_index or 0) - 1
    if reflected not in reflections:
        return REFLECTOR, "no_outcome"
    variant = POSITIVE if reflections[reflected] else NEGATIVE
    return variant, "" if reflected in retained else "reflection_not_retained"


def _refused(episode: Episode, step: Step | None, labels: Mapping[int, StepLabel]) -> str:
    """Why what a role said before a step is not learned; empty if it is."""
    if episode.judgement is None or not episode.judgement.correct:
        return "judged_incorrect"
    if step is None or step.action is None:
        return "unparsed"
    return "harmful" if labels.get(step.index) is StepLabel.HARMFUL else ""
