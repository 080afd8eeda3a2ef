"""Makes rows that train critics: a judge of trajectories (CODA A), and a process reward model of candidate actions."""

from __future__ import annotations

import json

from trajmill.schemas.actions import action_from_json
from trajmill.schemas.episode import Episode
from trajmill.schemas.tables.example import IMAGE_PLACEHOLDER
from trajmill.schemas.tables.model_call import ModelCall
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.agents.candidates import PROMPT, prm_fields
from trajmill.stages.critics.model.channels import TrajectoryAnswer, trajectory_answer
from trajmill.stages.critics.voting import PASSED
from trajmill.stages.curate.training_set import VERDICT_CORRECT, VERDICT_INCORRECT
from trajmill.stages.derive.collected import Collected, KindDeriver, Lesson, unfit
from trajmill.stages.derive.conversation import dialogue, unfit_text
from trajmill.stages.derive.role_rows import conversation_of
from trajmill.stages.derive.spec import JudgeDataSpec, PrmDataSpec
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
            said = conversation_of(call.model_copy(update={"response": reply}), episode.guidance)
            made = said if isinstance(said, str) else Lesson(said.messages, said.screens, variant, call.made_by)
            collected.add_or_refuse(_refused(call) or made if reply else "no_right_verdict", None, variant)


class PrmRows(KindDeriver[PrmDataSpec]):
    """Derives a row of each step with a verdict, of failed attempts too: the request before the step, and its label.

    The steps that a branch took over are its parent's. The prompt is that of `agent.prm`; needs no model.
    """

    async def collect(self, episode: Episode, only: frozenset[int] | None, collected: Collected) -> None:
        labels = {verdict.index: verdict for verdict in episode.step_verdicts}
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
                made = reason or Lesson(messages, (step.screen_before,), verdict.label.lower(), verdict.made_by)
            collected.add_or_refuse(made, step)


def _right_reply(call: ModelCall, is_correct: bool, answer: type[TrajectoryAnswer]) -> str | None:
    """Return the first well-formed reply with this verdict; None without one."""
    for reply in (call.response or "", *(call.other_responses or ())):
        try:
            if parse_answer(reply, answer).correct is is_correct:
                return reply
        except ValueError:
            continue
    return None


def _refused(call: ModelCall) -> str | None:
    # A repeated question shows the critic its own broken reply, which no judge is asked with at first.
    asked_again = any(message["role"] == "assistant" for message in json.loads(call.messages))
    return "asked_again" if asked_again else None
