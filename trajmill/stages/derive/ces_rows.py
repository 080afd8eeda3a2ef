"""Makes warm-up rows for a Coordinator and a State Tracker from the trajectories of any agent (CES 4.3.1 and B.1).

An accepted step replaces the paper's annotations of GUI-Odyssey: its thought is the intention, its action on a named
element the low-level instruction, and the conclusions before the next step, compressed, are that step's context. The
rows are also the task pool of the stages with execution feedback: a row names the step whose action it must lead to.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby, pairwise
from operator import itemgetter

from trajmill.schemas import actions
from trajmill.schemas.actions import Action, action_from_json, in_quotes, order_for, pressed_point, scroll_direction
from trajmill.schemas.episode import Episode
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.trajectory import Step
from trajmill.schemas.text import one_line
from trajmill.stages.agents.ces.agent import INTENTION, LONGEST_STATE, TRACKER_PROMPT, executor_output
from trajmill.stages.agents.replies import NONE, bounded
from trajmill.stages.derive.collected import WALK_WORDS, Collected, KindDeriver, Lesson, is_walk, unaccepted
from trajmill.stages.derive.conversation import dialogue, order_to_slide, unfit_text
from trajmill.stages.derive.spec import CesDataSpec
from trajmill.stages.models.embedded.words import quoted, read_conclusion
from trajmill.stages.models.prompts import Prompt, load_prompt

COORDINATOR, STATE_TRACKER = "coordinator", "state_tracker"
_PACKAGE = "trajmill.stages.agents.ces"


class CesRows(KindDeriver[CesDataSpec]):
    """Derives rows of CES with the prompts of the agent `ces`; needs no model."""

    def unusable(self, episode: Episode) -> str | None:
        return unaccepted(episode) or (WALK_WORDS if is_walk(episode) else None)

    async def collect(self, episode: Episode, only: frozenset[int] | None, collected: Collected) -> None:
        said = [step.conclusion for step in episode.steps]
        contexts = {step.index: state_after(said[:at]) for at, step in enumerate(episode.steps)}
        for step in episode.steps:
            made = "harmful" if step.index in episode.harmful else _coordinator_row(episode, step, contexts[step.index])
            collected.add_or_refuse(made, step, COORDINATOR)
        for step, after in pairwise(episode.steps):
            made = "harmful" if step.index in episode.harmful else _tracker_row(episode, step, after, contexts)
            collected.add_or_refuse(made, after, STATE_TRACKER)


def state_after(conclusions: Sequence[str]) -> str:
    """Return the compressed state after some steps (CES 4.2.3): what was done once, and values until they are typed.

    It leaves out titles of screens, steps that only moved the view, repeated steps on one screen, and values that a
    newer one replaces. Steps of one verb share it. Sentences of models stay. If it exceeds `LONGEST_STATE` characters,
    the oldest steps go.
    """
    done, notes = dict[tuple[str, str, str], None](), dict[tuple[str, str], str]()
    for conclusion in conclusions:
        read = read_conclusion(conclusion)
        if not read.verb and conclusion.strip():
            done["", bounded(conclusion), ""] = None
        if read.target:
            joint = "into" if read.verb == "Typed" else "beside" if '" beside "' in conclusion else "for"
            field = f" {joint} {quoted(read.field)}" if read.field else ""
            done[conclusion.split()[0], quoted(read.target) + field, read.title] = None
        notes |= {(read.title, note.partition(": ")[0]): note for note in read.notes}
        if read.verb == "Typed":
            notes = {place: note for place, note in notes.items() if note != read.target}
    kept, values = list(done), list(dict.fromkeys(notes.values()))
    while len(state := _told(kept, values)) > LONGEST_STATE and kept:
        del kept[0]
    return one_line(state, LONGEST_STATE)


def _told(done: Sequence[tuple[str, str, str]], notes: Sequence[str]) -> str:
    sentences = list[str]()
    for verb, same in groupby(done, key=itemgetter(0)):
        what = [said for _, said, _ in same]
        sentences += [f"{verb} {', then '.join(what)}."] if verb else what
    return " ".join([*sentences, *([f"Noted on the way: {', '.join(map(quoted, notes))}."] if notes else [])])


def instruction_of(action: Action, named: str, *, touch: bool = True) -> str | None:
    """Return the atomic instruction for an action on an element of a text, as the agent `ces` writes it.

    None if the action needs an element's name, and its text is empty.
    """
    match action:
        case actions.Answer():
            return f"The task is complete. {order_for(action, '')}"
        case actions.Terminate(status=status):
            return "The task is complete." if status == "success" else None
        case actions.SwitchDevice() | actions.Interact():
            return None
        case _ if named or pressed_point(action) is None or scroll_direction(action):
            return order_for(action, in_quotes(named) if named else "", touch=touch)
        case _:
            return None


def _coordinator_row(episode: Episode, step: Step, context: str) -> Lesson | str:
    """`<think>intention</think><answer>low_level_instruction</answer>` on the screen before the step."""
    if step.action is None:
        return "unparsed"
    named = step.target.text if step.target is not None else ""
    touch = episode.query.platform is Platform.PHONE
    instruction = order_to_slide(step.target) or instruction_of(action_from_json(step.action), named, touch=touch)
    if instruction is None:
        return "element_without_name"
    # The Executor of `ces` does not see the past, so its own thought may be that nothing is done yet.
    of_ces = episode.trajectory.agent == "ces"
    intention = bounded(json.loads(step.role_outputs).get(INTENTION, "") if of_ces else step.thought)
    if not intention:
        return "no_intention"
    reply = f"<think>{intention}</think><answer>{instruction}</answer>"
    asked = load_prompt(_PACKAGE, f"{COORDINATOR}-1").fill(
        instruction=bounded(episode.query.instruction), state=context or NONE
    )
    return _lesson(episode, step, asked, reply, COORDINATOR)


def _tracker_row(episode: Episode, step: Step, after: Step, contexts: dict[int, str]) -> Lesson | str:
    asked = load_prompt(_PACKAGE, TRACKER_PROMPT).fill(
        instruction=bounded(episode.query.instruction),
        output=executor_output(step.thought, action_from_json(step.action) if step.action else None, step.conclusion),
        state=contexts[step.index] or NONE,
    )
    before, state = contexts[step.index], contexts[after.index]
    change = "It takes the task on, so it joins the state." if state != before else "It leaves the state as it was."
    if state != before and state.partition(" Noted on ")[0] == before.partition(" Noted on ")[0]:
        change = "It did nothing that lasts; what it noted joins the state."
    reply = f"<think>The Executor's step: {bounded(step.conclusion)} {change}</think><answer>{state}</answer>"
    return _lesson(episode, after, asked, reply, STATE_TRACKER)


def _lesson(episode: Episode, target: Step, asked: Prompt, reply: str, variant: str) -> Lesson | str:
    """Return a row whose reply leads to the action of `target`; a State Tracker's has no screen."""
    if target.action is None:
        return "unparsed"
    reason = unfit_text(asked.user, target, reply, episode.guidance)
    if reason is not None:
        return reason
    shown = (target.screen_before,) if variant == COORDINATOR else ()
    messages = dialogue(asked.system, asked.user + IMAGE_PLACEHOLDER * len(shown), reply)
    return Lesson(messages, shown, variant, episode.trajectory.model_version, sources=(target.screen_before,))
