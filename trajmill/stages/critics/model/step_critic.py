"""The step critic with a vision-language model; it reads the screens before and after an action (paper 6.3).

The steps of one trajectory are judged one after the other, because the history of a step is the summaries of the steps
before it. This costs latency but no throughput: many trajectories are judged at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.record import Record
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.critics.base import StepResult, at_most_words
from trajmill.stages.critics.model.action_words import action_in_words, untrusted
from trajmill.stages.critics.model.marking import marked_picture, picture
from trajmill.stages.critics.model.transcript import Said, ask_critic, kept, picture_tokens, text_tokens
from trajmill.stages.critics.trees.replay import stored_evidence
from trajmill.stages.models.base import USUAL_BUDGET, ChatModel, ChatRequest, ContextBudget, MessagePart
from trajmill.stages.models.prompts import GREEDY, Prompt, PromptedModel, Sampling, on_lines

LONGEST_SUMMARY = 400
"""Most characters of a summary; a bound on words has no effect in languages without spaces."""
_LONGEST_HISTORY = 60
"""Most summaries in one request; of a longer history it has the first, the last half and some between."""


class StepAnswer(Record):
    """The step critic's answer on one step (paper 6.3)."""

    analysis: Said
    summary: Said
    """The prompt asks for at most 30 words; a longer text is cut, because the label is still valid."""
    label: StepLabel


@dataclass(frozen=True, slots=True)
class ModelStepCritic:
    model: ChatModel
    prompt: Prompt
    sampling: Sampling = GREEDY
    budget: ContextBudget = USUAL_BUDGET
    """Most tokens of a request; both screens must fit, and the history gets the remaining room."""

    @property
    def version(self) -> str:
        return PromptedModel(self.model, self.prompt).version

    async def judge(self, episode: Episode, screens: ScreenReader) -> list[StepResult]:
        """Judge each step of an episode, in order.

        Raises:
            JudgeFailure: there is no usable answer on a step, or its screens are missing or do not fit.
            ModelFailure: the model did not answer, or a stored image does not decode.
        """
        results: list[StepResult] = []
        for at, step in enumerate(episode.steps):
            with stored_evidence(episode):
                request = self._request(episode, at, results, screens)
            subject = f"{episode.trajectory.trajectory_id}: step {step.index}"
            answer = await ask_critic(self.model, request, StepAnswer, subject)
            summary = at_most_words(" ".join(answer.summary.split()))
            if len(summary) > LONGEST_SUMMARY:
                summary = summary[: LONGEST_SUMMARY - 4] + " ..."
            results.append(StepResult(step.index, answer.analysis, summary, answer.label))
        return results

    def _request(self, episode: Episode, at: int, earlier: Sequence[StepResult], screens: ScreenReader) -> ChatRequest:
        step, trajectory_id = episode.steps[at], episode.trajectory.trajectory_id
        before, after = marked_picture(step, screens), picture(step.screen_after, screens)
        pictures = [before, after]
        shown: list[MessagePart] = ["The screen before the action:", before, "The screen after the action:", after]
        if step.screen_after == step.screen_before:
            # A second equal image costs tokens and suggests a difference.
            pictures.pop()
            shown[2:] = ["After the action the screen is exactly the same, without the mark."]
        action = action_in_words(step.action, screens.elements(step.screen_before), before.size)
        fixed = self.prompt.system + self.prompt.user + episode.query.instruction + action
        room = self.budget.tokens - text_tokens(fixed)
        room -= sum(text_tokens(part) for part in shown if isinstance(part, str))
        room -= sum(picture_tokens(self.model, each.size, 1.0) for each in pictures)
        if room < 0:
            raise JudgeFailure(
                f"{trajectory_id}: the screens of step {step.index} do not fit into {self.budget.tokens} tokens"
            )
        fields = {
            "instruction": untrusted(episode.query.instruction),
            "history": _history(earlier, room),
            "number": str(at + 1),
            "action": action,
        }
        prompted = PromptedModel(self.model, self.prompt)
        return prompted.request("critic.step", fields, shown, self.sampling, on_lines, trajectory_id, step.index)


def _history(earlier: Sequence[StepResult], room: int) -> str:
    if not earlier:
        return "(nothing yet)"
    lines = [f"Step {number}: {untrusted(step.summary)}" for number, step in enumerate(earlier, start=1)]
    costs = [text_tokens(line) for line in lines]
    counts = range(min(len(lines), _LONGEST_HISTORY), 0, -1)
    choices = (kept(len(lines), count) for count in counts)
    shown = next((chosen for chosen in choices if sum(costs[at] for at in chosen) <= room), ())
    left_out = len(lines) - len(shown)
    note = [f"({left_out} steps between them are left out.)"] if left_out else []
    return "\n".join([*(lines[at] for at in shown), *note])
