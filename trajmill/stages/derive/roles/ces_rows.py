"""Makes warm-up rows for a Coordinator and a State Tracker from the trajectories of any agent (CES 4.3.1 and B.1).

The paper takes the annotations of GUI-Odyssey; here an accepted step has them: what it thought is the intention, its
action on a named element the low-level instruction, and the conclusions before the next step are that step's context.
A row names the step whose action its reply must lead to, so the rows are the task pool of the stages with execution
feedback, too: the right action and its element stand in table `steps`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from trajmill.schemas.actions import (
    Action,
    Answer,
    Click,
    HorizontalScroll,
    LongPress,
    OpenApp,
    Scroll,
    Swipe,
    SystemButton,
    Terminate,
    TypeText,
    Wait,
    action_from_json,
)
from trajmill.schemas.episode import Episode
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER, Message
from trajmill.schemas.tables.step import Step
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.agents.ces.agent import executor_output
from trajmill.stages.agents.replies import NONE, one_line
from trajmill.stages.critics.trees.caption import scroll_direction
from trajmill.stages.derive.base import DerivedRows, unfit
from trajmill.stages.derive.collected import WALK_WORDS, Collected, Lesson, Maker, is_walk
from trajmill.stages.derive.conversation import unfit_text
from trajmill.stages.derive.end_to_end import LEARNED_FROM
from trajmill.stages.models.prompts import FilledPrompt, load_prompt

COORDINATOR, STATE_TRACKER = "coordinator", "state_tracker"
_PACKAGE = "trajmill.stages.agents.ces"


@dataclass(frozen=True)
class CesRows:
    """Derives rows of CES; needs no model. The prompts are those that the agent `ces` asks with."""

    maker: Maker

    async def derive(self, episode: Episode, only: frozenset[int] | None) -> DerivedRows:
        """A Coordinator's row for each good step, and a State Tracker's for each step after a good one."""
        collected = Collected(self.maker, episode)
        reason = unfit(episode, LEARNED_FROM)
        if reason is None and episode.judgement is not None and not episode.judgement.correct:
            reason = "judged_incorrect"
        if reason is None and is_walk(episode):
            reason = WALK_WORDS
        if reason is not None:
            collected.refuse(reason)
            return collected.rows()
        harmful = {verdict.index for verdict in episode.step_verdicts if verdict.label is StepLabel.HARMFUL}
        contexts = _contexts(episode)
        for step in episode.steps:
            made = "harmful" if step.index in harmful else _coordinator_row(episode, step, contexts)
            _collect(collected, made, step, COORDINATOR)
        for step, after in pairwise(episode.steps):
            made = "harmful" if step.index in harmful else _tracker_row(episode, step, after, contexts)
            _collect(collected, made, after, STATE_TRACKER)
        return collected.rows()


def instruction_of(action: Action, named: str) -> str | None:
    """The atomic instruction for an action, as the agent `ces` writes them; None if its element has no name.

    Args:
        action: what is done.
        named: text of the element at its position; empty without one.
    """
    match action:
        case Click(count=count) if named:
            return f'{"Double-tap" if count > 1 else "Tap"} "{one_line(named)}".'
        case LongPress() if named:
            return f'Hold "{one_line(named)}".'
        case TypeText(text=text):
            return f'Type "{one_line(text)}"{f" into {chr(34)}{one_line(named)}{chr(34)}" if named else ""}.'
        case Swipe() | Scroll() | HorizontalScroll():
            return f"Scroll {scroll_direction(action)}."
        case SystemButton(button=button):
            return f"Press {button}."
        case OpenApp(app=app):
            return f'Open "{one_line(app)}".'
        case Wait():
            return "Wait."
        case Answer(text=text):
            return f'The task is complete. Answer "{one_line(text)}".'
        case Terminate(status="success"):
            return "The task is complete."
        case _:
            return None


def _coordinator_row(episode: Episode, step: Step, contexts: Mapping[int, str]) -> Lesson | str:
    """`<think>intention</think><answer>low_level_instruction</answer>` on the screen before the step."""
    if step.action is None:
        return "unparsed"
    action = action_from_json(step.action)
    instruction = instruction_of(action, step.target.text if step.target is not None else "")
    if instruction is None:
        return "element_without_name"
    reply = f"<think>{one_line(step.thought)}</think><answer>{instruction}</answer>"
    asked = load_prompt(_PACKAGE, f"{COORDINATOR}-1").fill(
        instruction=one_line(episode.query.instruction), state=contexts[step.index] or NONE
    )
    return _lesson(episode, step, asked, reply, COORDINATOR, with_screen=True)


def _tracker_row(episode: Episode, step: Step, after: Step, contexts: Mapping[int, str]) -> Lesson | str:
    """The context of the next step, from that of this one and the Executor's output."""
    asked = load_prompt(_PACKAGE, f"{STATE_TRACKER}-1").fill(
        instruction=one_line(episode.query.instruction),
        output=executor_output(step.thought, action_from_json(step.action) if step.action else None, step.conclusion),
        state=contexts[step.index] or NONE,
    )
    reply = f"<answer>{contexts[after.index]}</answer>"
    return _lesson(episode, after, asked, reply, STATE_TRACKER, with_screen=False)


def _lesson(
    episode: Episode, target: Step, asked: FilledPrompt, reply: str, variant: str, with_screen: bool
) -> Lesson | str:
    """A row whose reply leads to the action of `target`; the reply itself is text and no action."""
    if target.action is None:
        return "unparsed"
    user = asked.user + (IMAGE_PLACEHOLDER if with_screen else "")
    reason = unfit_text(target.model_copy(update={"prompt": asked.user}), reply, episode.guidance)
    if reason is not None:
        return reason
    messages = (
        Message(role="system", content=asked.system),
        Message(role="user", content=user),
        Message(role="assistant", content=reply),
    )
    shown = (target.screen_before,) if with_screen else ()
    author = episode.trajectory.model_version
    return Lesson(messages, shown, variant, author, sources=(target.screen_before,))


def _contexts(episode: Episode) -> dict[int, str]:
    """By index of each step, what was done before it: the conclusions, in order."""
    found: dict[int, str] = {}
    said: list[str] = []
    for step in episode.steps:
        found[step.index] = one_line(" ".join(said))
        if step.conclusion:
            said.append(step.conclusion)
    return found


def _collect(collected: Collected, made: Lesson | str, step: Step, variant: str) -> None:
    if isinstance(made, str):
        collected.refuse(made, step, variant=variant)
    else:
        collected.add(made, step)
