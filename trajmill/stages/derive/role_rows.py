"""Makes rows of stored calls: each reply of a role (GUI-Owl 2.2.3, mode 2 of online sampling; CODA 3.4), and critics'.

The rows of a Reflector follow rules of their own: see `curate/training_set.py`. Those of critics train a judge of
trajectories (CODA A), and a process reward model of candidate actions.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import fmean

from trajmill.schemas.actions import action_from_json
from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER, Message
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.verdict import Channel, StepLabel
from trajmill.stages.agents.candidates import PROMPT, prm_fields
from trajmill.stages.agents.replies import SUCCESS
from trajmill.stages.agents.roles import ECHOES
from trajmill.stages.critics.model.channels import TrajectoryAnswer, trajectory_answer
from trajmill.stages.critics.voting import PASSED
from trajmill.stages.curate.training_set import (
    NEGATIVE,
    POSITIVE,
    VERDICT_CORRECT,
    VERDICT_INCORRECT,
    retained_reflections,
)
from trajmill.stages.derive.collected import Collected, KindDeriver, Lesson, unaccepted, unfit
from trajmill.stages.derive.conversation import dialogue, holds_placeholder, unfit_text
from trajmill.stages.derive.forks import transitions
from trajmill.stages.derive.spec import CodaDataSpec, JudgeDataSpec, PrmDataSpec, RolesSpec
from trajmill.stages.guidance.strip import quotes_guidance, without_guidance
from trajmill.stages.models.prompts import load_prompt, parse_answer

_VOTERS = frozenset(f"critic.{channel}" for channel in (Channel.TEXT, Channel.MULTIMODAL))


class JudgeRows(KindDeriver[JudgeDataSpec]):
    """Derives one row of each request to a trajectory critic: its prompt, and the first reply whose verdict is right.

    Critics of all judges are used, so a strong judge can teach a small one (`trajmill judge --again`). Needs no model.
    """

    def unusable(self, episode: Episode) -> str | None:
        return unfit(episode) or ("no_reward" if episode.trajectory.reward is None else None)

    async def collect(self, episode: Episode, only: frozenset[int] | None, collected: Collected) -> None:
        calls = [call for call in episode.calls if call.role in _VOTERS]
        if not calls:
            collected.refuse("no_critic_calls")
        is_correct, answer = (episode.trajectory.reward or 0.0) >= PASSED, trajectory_answer(len(episode.steps))
        variant = VERDICT_CORRECT if is_correct else VERDICT_INCORRECT
        for call in calls:
            reply = _right_reply(call, is_correct, answer)
            made: Lesson | str = "no_right_verdict"
            if reply:
                # A repeated question shows the critic its own broken reply, which no judge is asked with at first.
                is_repeated = any(message["role"] == "assistant" for message in json.loads(call.messages))
                answered = call.model_copy(update={"response": reply})
                made = "asked_again" if is_repeated else lesson_of(answered, episode.guidance, variant)
            collected.add_or_refuse(made, None, variant)


class PrmRows(KindDeriver[PrmDataSpec]):
    """Derives a row of each step with a label, of failed attempts too: the request before the step, and its label.

    Labels are those of branches where they tell, elsewhere the step critic's. The steps that a branch took over are
    its parent's. The prompt is that of `agent.prm`; needs no model.
    """

    async def collect(self, episode: Episode, only: frozenset[int] | None, collected: Collected) -> None:
        sources, name = self.tools.of_tasks, episode.trajectory.trajectory_id
        branches = [each for each in (sources.others.get(name, ()) if sources else ()) if unfit(each) is None]
        said = branch_labels(episode, branches, self.tools.screens)
        by_branches = {index: {"label": label, "made_by": BRANCHES} for index, label in said.items()}
        verdicts = [each.model_copy(update=by_branches.get(each.index)) for each in episode.step_verdicts]
        labels = {each.index: each for each in verdicts if each.label is not StepLabel.UNKNOWN}
        lineage = tuple(dict.fromkeys((name, *(each.trajectory.trajectory_id for each in branches))))
        for at, step in enumerate(episode.steps):
            if step.index < (episode.trajectory.branched_at or 0):
                continue
            verdict = labels.get(step.index)
            made: Lesson | str = "not_judged" if verdict is None else "unparsed"
            if verdict is not None and step.action is not None:
                done = [before.conclusion for before in episode.steps[:at]]
                action, size = action_from_json(step.action), self.tools.screens.size(step.screen_before)
                asked = load_prompt(*PROMPT).fill(**prm_fields(episode.query.instruction, done, action, size))
                reason = unfit_text(asked.user, step, verdict.label.value, episode.guidance)
                messages = dialogue(asked.system, asked.user + IMAGE_PLACEHOLDER, verdict.label.value)
                about = (messages, (step.screen_before,), verdict.label.lower(), verdict.made_by)
                made = reason or Lesson(*about, trajectories=lineage if step.index in by_branches else ())
            collected.add_or_refuse(made, step)


BRANCHES = "branches"
"""Author of a label that the outcomes of branches give."""


def branch_labels(episode: Episode, branches: Sequence[Episode], screens: ScreenReader) -> dict[int, StepLabel]:
    """Return by index the labels of the steps around the one screen that finished and judged branches started from.

    V is the mean reward (1 if judged correct, else 0) of the branches that did as the episode did since that screen, Q
    that of those which also do the step's action: it is GOOD if its advantage Q - V is above 0, HARMFUL if below
    (VinePPO, 2410.01679, section 4). The step that led to the screen is GOOD if a branch succeeded (Math-Shepherd,
    2312.08935, hard estimation).
    """
    if not branches:
        return {}
    at = branches[0].trajectory.branched_at or 0
    own, *others = (transitions(one, screens)[at:] for one in (episode, *branches))
    rewards = (each.judged_reward or 0.0 for each in branches)
    along = list(zip(rewards, others, strict=True))
    labels = {at - 1: StepLabel.GOOD} if any(reward for reward, _ in along) else {}
    for number, step in enumerate(own):
        same = [(r, taken) for r, taken in along if len(taken) > number and taken[number][:2] == step[:2]]
        gain = fmean(reward for reward, _ in same) - fmean(reward for reward, _ in along) if same else 0.0
        labels |= {at + number: StepLabel.GOOD if gain > 0 else StepLabel.HARMFUL} if gain else {}
        along = [(reward, taken) for reward, taken in same if taken[number].after == step.after]
    return labels


def _right_reply(call: ModelCall, is_correct: bool, answer: type[TrajectoryAnswer]) -> str | None:
    """Return the first well-formed reply with this verdict; None without one."""
    for reply in (call.response or "", *(call.other_responses or ())):
        try:
            if parse_answer(reply, answer).correct is is_correct:
                return reply
        except ValueError:
            continue
    return None


REFLECTOR, PLANNER = "reflector", "planner"
_OTHER_CALLERS = ("critic", "policy", "explorer", "writer", "describer", "proposer", "prm")
_HOME = "home"
"""The variant of rows on the home screen, which belongs to no app."""


def lesson_of(call: ModelCall, guidance: str, variant: str) -> Lesson | str:
    """Return the conversation of a call without guidance, or the reason for not learning it."""
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
    if holds_placeholder(texts):
        return "placeholder_in_text"
    if any(quotes_guidance(text, guidance) for text in texts):
        return "quotes_guidance"
    return Lesson((*messages, Message(role="assistant", content=call.response)), screens, variant, call.made_by)


class RoleRows(KindDeriver[RolesSpec]):
    """Derives one example for each kept call of a role, which is its variant; needs no model."""

    def unusable(self, episode: Episode) -> str | None:
        return unfit(episode) or (None if self._calls(episode) else "no_role_calls")

    def _calls(self, episode: Episode) -> list[ModelCall]:
        return [call for call in episode.calls if call.role.partition(".")[0] not in _OTHER_CALLERS]

    async def collect(self, episode: Episode, only: frozenset[int] | None, collected: Collected) -> None:
        steps = {step.index: step for step in episode.steps}
        # The step after a reflection has its outcome.
        outcomes = {step.index - 1: json.loads(step.role_outputs).get("outcome") for step in episode.steps}
        reflections = {index: outcome == SUCCESS for index, outcome in outcomes.items() if outcome and index >= 0}
        retained = retained_reflections(reflections)
        # An Executor that was given the whole task did not follow an instruction.
        whole_task = {one.step_index for one in episode.calls if one.made_by in ECHOES and one.role == "coordinator"}
        for call in self._calls(episode):
            step, variant, refused = steps.get(-1 if call.step_index is None else call.step_index), call.role, ""
            if call.made_by in ECHOES or (call.role == "executor" and call.step_index in whole_task):
                refused = "passes_on_what_it_got"
            elif call.role == REFLECTOR:
                reflected = (call.step_index or 0) - 1
                if reflected in reflections:
                    variant = POSITIVE if reflections[reflected] else NEGATIVE
                    refused = "" if reflected in retained else "reflection_not_retained"
                else:
                    refused = "no_outcome"
            elif not episode.judged_reward:
                refused = "judged_incorrect"
            elif step is None or step.action is None:
                refused = "unparsed"
            elif step.index in episode.harmful:
                refused = "harmful"
            collected.add_or_refuse(refused or lesson_of(call, episode.guidance, variant), step, variant)


class CodaRows(KindDeriver[CodaDataSpec]):
    """Derives a generalist Planner's rows of the thoughts of specialists (CODA 3.3.2 and 3.4); needs no model.

    Only clean successes are used: judged correct, no step redundant and none wrong. The variant of a row is the app of
    its screen. The positive action, with which CODA rewards candidate plans (equation 1), is that of its step.
    """

    def unusable(self, episode: Episode) -> str | None:
        reason, judgement = unaccepted(episode), episode.judgement
        if reason is not None or judgement is None:
            return reason
        if judgement.redundant_steps or judgement.first_error_step is not None:
            return "not_clean"
        planners = {call.made_by for call in episode.calls if call.role == PLANNER}
        return "passes_on_what_it_got" if planners & ECHOES else None if planners else "no_planner"

    async def collect(self, episode: Episode, only: frozenset[int] | None, collected: Collected) -> None:
        planned = [call for call in episode.calls if call.role == PLANNER]
        # A step has two calls if the Planner was retried after a malformed reply.
        calls = {call.step_index: call for call in sorted(planned, key=lambda call: call.malformed is None)}
        for step in episode.steps:
            call = calls.get(step.index)
            made: Lesson | str = "no_planner" if call is None else "unparsed"
            if call is not None and step.action is not None:
                made = lesson_of(call, episode.guidance, step.app_before or _HOME)
            collected.add_or_refuse(made, step)
