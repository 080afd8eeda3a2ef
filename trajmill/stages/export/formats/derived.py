"""Turns an example of a derived kind into a training row of a family, with a target if its reply is an action."""

from __future__ import annotations

import re
from typing import Final

from trajmill.schemas.actions import action_from_json
from trajmill.schemas.coordinates import native_frame
from trajmill.schemas.dialects.base import NotExpressible, Reply, bare_call, dialect_seen_in
from trajmill.schemas.dialects.families import ANY, Family
from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import ModelFailure
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.example import Example, Message
from trajmill.schemas.tables.trajectory import Step, TargetElement
from trajmill.stages.agents.mobile_agent_v3.agent import WORKER_REPORTS
from trajmill.stages.agents.roles import action_words
from trajmill.stages.derive.conversation import StepConversation, family_conversation, holds_placeholder
from trajmill.stages.export.card import words_of
from trajmill.stages.export.formats.steps import (
    LedAction,
    LeftOutStep,
    ReleasedStep,
    StepExample,
    lineage_of,
    right_box,
    same_action,
    step_example,
)
from trajmill.stages.export.rewards import ReplyTarget

STEP_KINDS: Final = frozenset({"step", "reasoning", "rft", "forks"})
"""Kinds whose rows are steps in the conversation of an agent."""
_CALL: Final = "<tool_call>"
_LAST_ACTION: Final = re.compile(r"(?<=^### Last Action ###\n).+", re.MULTILINE)
_STEP_SO_FAR: Final = re.compile(r"^((\d+)\. Plan: .*? Action: )(.+?)(?=(?:<image>)*$)", re.MULTILINE)
LEADING_KINDS: Final = frozenset({"ces", "coda"})
"""Kinds whose replies are words of one role that lead to the action of another: that of the row's step."""


def kind_example(
    family: Family, episode: Episode, example: Example, weight: float, screens: ScreenReader
) -> StepExample | LeftOutStep:
    """Return the row of a stored example of a derived kind, or why there is none; `episode` is whole and judged."""
    try:
        if example.kind in STEP_KINDS and example.step_index is not None:
            row = ReleasedStep(example.example_id, example.trajectory_id, example.step_index, weight)
            made = step_example(family, _with_reply(episode, example, screens), row, screens)
            if example.rejected is not None and isinstance(made, StepExample):
                made = made._replace(rejected=_rejected(made, family, episode, screens))
        else:
            made = _text_example(family, episode, example, weight, screens)
    except NotExpressible:
        return LeftOutStep("not_expressible")
    except ModelFailure:
        return LeftOutStep("screen_outside_budget")
    if isinstance(made, LeftOutStep):
        return made
    author = example.written_by or episode.trajectory.model_version
    return made._replace(words=words_of(example.kind, example.variant or "", author))


def _with_reply(episode: Episode, example: Example, screens: ScreenReader) -> Episode:
    frame = native_frame(screens.size(example.screens[-1]))
    parsed = ANY.dialect(episode.query.platform).parse(example.messages[-1].content, frame)
    if not isinstance(parsed, Reply):
        return episode
    changes: dict[str, object] = {"thought": parsed.thought, "conclusion": parsed.conclusion, "raw_response": ""}
    if example.rejected is not None:
        # The reply is not that of the step itself.
        elements = screens.elements(example.screens[-1])
        hit = next((each for each in elements if each.bounds == example.box), None)
        target = TargetElement(role=hit.role, text=hit.text, bounds=hit.bounds) if hit is not None else None
        changes |= {"action": example.action, "target": target}
    steps = (step.model_copy(update=changes) if step.index == example.step_index else step for step in episode.steps)
    return episode.model_copy(update={"steps": tuple(steps)})


def _rejected(made: StepExample, family: Family, episode: Episode, screens: ScreenReader) -> str:
    """Return the step's own reply, which the example rejects; empty if the family cannot say it differently."""
    at = next(at for at, step in enumerate(episode.steps) if step.index == made.lineage.step_index)
    try:
        reply = family_conversation(family, episode, at, screens.size).messages[-1].content
    except NotExpressible:
        return ""
    return "" if holds_placeholder([reply]) or reply == made.messages[-1].content else reply


def _text_example(
    family: Family, episode: Episode, example: Example, weight: float, screens: ScreenReader
) -> StepExample | LeftOutStep:
    """Return an example with its own messages; an action is written as a call of the family, with its tools."""
    platform, messages, target = episode.query.platform, example.messages, None
    if example.action is not None and example.screens:
        action, frame = action_from_json(example.action), family.frame(screens.size(example.screens[-1]))
        dialect = family.dialect(platform)
        reply = bare_call(action, dialect, frame)
        parsed = dialect.parse(reply, frame)
        if not isinstance(parsed, Reply) or not same_action(parsed.action, action, frame):
            return LeftOutStep("not_round_trip")
        system = {"content": dialect.system_prompt(frame)}
        prompt = (each.model_copy(update=system) if each.role == "system" else each for each in messages[:-1])
        messages = (*prompt, Message(role="assistant", content=reply))
        target = ReplyTarget.of(family, platform, action, example.box, frame)
    elif example.screens and _is_of_other_family(family, episode, example, screens):
        return LeftOutStep("other_family")
    elif example.screens and example.kind in ("roles", "coda"):
        messages = _in_words_of(family, episode, example, screens)
    index = -1 if example.step_index is None else example.step_index
    step = next((step for step in episode.steps if step.index == index), episode.steps[0])
    stored = step.model_copy(update={"action": example.action, "index": index})
    lineage = lineage_of(family, episode, stored, StepConversation(messages, example.screens), screens.size)
    leads_to = _led_action(family, episode, example, step, screens) if example.kind in LEADING_KINDS else None
    return StepExample(example.example_id, messages, target, lineage, weight, leads_to=leads_to)


def _in_words_of(family: Family, episode: Episode, example: Example, screens: ScreenReader) -> tuple[Message, ...]:
    """Return the messages of a role, which is told the last actions as a model of the family would be."""
    *system, asked, reply = example.messages
    steps, dialect = {step.index: step for step in episode.steps}, family.dialect(episode.query.platform)

    def said(index: int, told: str) -> str:
        step = steps.get(index)
        if step is None or step.action is None:
            return told
        return action_words(action_from_json(step.action), dialect, family.frame(screens.size(step.screen_before)))

    # The Manager is asked about the Worker's report before it is the action of the step.
    last = (example.step_index or 0) - (WORKER_REPORTS not in asked.content)
    content = _LAST_ACTION.sub(lambda told: said(last, told[0]), asked.content)
    content = _STEP_SO_FAR.sub(lambda told: told[1] + said(int(told[2]) - 1, told[3]), content)
    return (*system, asked.model_copy(update={"content": content}), reply)


def _is_of_other_family(family: Family, episode: Episode, example: Example, screens: ScreenReader) -> bool:
    """Whether the reply is the action of a role whose model has another family, in whose words it is stored."""
    reply = example.messages[-1].content
    if not (_CALL in reply or dialect_seen_in(reply)):
        return False
    frame = family.frame(screens.size(example.screens[-1]))
    step = next((step for step in episode.steps if step.index == example.step_index), None)
    read = family.dialect(episode.query.platform).parse(reply, frame)
    if not isinstance(read, Reply) or step is None or step.action is None:
        return True
    return not same_action(read.action, action_from_json(step.action), frame)


def _led_action(
    family: Family, episode: Episode, example: Example, step: Step, screens: ScreenReader
) -> LedAction | None:
    if step.index != example.step_index or step.action is None:
        return None
    action, frame = action_from_json(step.action), family.frame(screens.size(step.screen_before))
    past = tuple((one.raw_response, one.conclusion) for one in episode.steps if one.index < step.index)
    target = ReplyTarget.of(family, episode.query.platform, action, right_box(step, action), frame)
    return LedAction(example.variant or "", target, past)
