"""The milestone channel: what the goal needs is named, each is checked on its own screens, the evidence is reviewed.

After OS-Themis (arXiv 2603.19191): a selector, a verifier for each milestone, a reviewer. One request with all screens
dilutes the few that matter; a claim that is checked on two screens does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple, cast

from pydantic import Field, StrictBool, StrictInt, create_model

from trajmill.schemas.episode import Episode
from trajmill.schemas.geometry import Size
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.record import Record
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.concurrency import side_by_side
from trajmill.stages.critics.model.channels import trajectory_answer
from trajmill.stages.critics.model.marking import marked_picture, picture, untrusted
from trajmill.stages.critics.model.transcript import (
    Said,
    Transcript,
    ask_critic,
    fit,
    lay_out,
    picture_tokens,
    text_tokens,
    transcribe,
)
from trajmill.stages.critics.replay import stored_evidence
from trajmill.stages.critics.spec import CriticPrompts
from trajmill.stages.critics.voting import StepResult, Vote, resolution_of, vote_of
from trajmill.stages.models.base import USUAL_BUDGET, ChatModel, ChatRequest, ContextBudget, MessagePart
from trajmill.stages.models.prompts import GREEDY, Prompt, PromptedModel, Sampling, on_lines

_MOST_MILESTONES = 8
_MOST_STEPS = 3
"""Most steps whose screens the verifier of one milestone sees."""
_ROLE = f"critic.{Channel.MULTIMODAL}"


class Milestone(Record):
    """One thing that must be so at the end, and the numbers of the steps whose screens can show it."""

    what: Said
    steps: tuple[StrictInt, ...]


class Milestones(Record):
    milestones: tuple[Milestone, ...]


class Checked(Record):
    """The verifier's answer, the evidence first."""

    evidence: Said
    met: StrictBool


def milestones_answer(steps: int) -> type[Milestones]:
    """Return the class of the selector's answers on this many steps, for guided decoding."""
    number: Any = Annotated[StrictInt, Field(ge=1, le=steps)]
    numbers: Any = Annotated[tuple[number, ...], Field(min_length=1, max_length=_MOST_STEPS)]
    one: Any = create_model("Milestone", __base__=Milestone, steps=(numbers, ...))
    several: Any = Annotated[tuple[one, ...], Field(min_length=1, max_length=_MOST_MILESTONES)]
    return cast(type[Milestones], create_model("Milestones", __base__=Milestones, milestones=(several, ...)))


@dataclass(frozen=True, slots=True)
class MilestoneChannel:
    """Votes in the multimodal channel; Correct only if every milestone is met and the reviewer agrees."""

    model: ChatModel
    prompts: CriticPrompts
    sampling: Sampling = GREEDY
    budget: ContextBudget = USUAL_BUDGET
    image_scale: float = 1.0

    @property
    def channel(self) -> Channel:
        return Channel.MULTIMODAL

    @property
    def resolution(self) -> str:
        return resolution_of(self.image_scale)

    @property
    def version(self) -> str:
        own, before = PromptedModel(self.model, self.prompts.review), (self.prompts.milestones, self.prompts.milestone)
        return f"{own.version}[{'|'.join(prompt.version for prompt in before)}]"

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        """Vote on a finished episode; equal draws send equal requests. Raises as `ModelChannel.judge`."""
        asked = _Asked(self, episode, screens, self.sampling._replace(seed=self.sampling.seed + draw))
        record, count = transcribe(episode, screens, steps), len(episode.steps)
        found = await ask_critic(self.model, asked.selector(record), milestones_answer(count), asked.subject)
        requests = [asked.verifier(each) for each in found.milestones]
        checked = await side_by_side(ask_critic(self.model, each, Checked, asked.subject) for each in requests)
        pairs = list(zip(found.milestones, checked, strict=True))
        lines = (
            f"{number}. {'Met' if check.met else 'NOT met'}: {untrusted(each.what)}. {untrusted(check.evidence)}"
            for number, (each, check) in enumerate(pairs, start=1)
        )
        reviewed = asked.reviewer(record, "\n".join(lines))
        review = await ask_critic(self.model, reviewed, trajectory_answer(count), asked.subject)
        unmet = next((each.what for each, check in pairs if not check.met), None)
        reason = review.reason if unmet is None or not review.correct else f"not met: {unmet}"
        return vote_of(self, review.correct and unmet is None, reason, *review.by_index(episode))


class _Asked(NamedTuple):
    critic: MilestoneChannel
    episode: Episode
    screens: ScreenReader
    sampling: Sampling

    @property
    def subject(self) -> str:
        return self.episode.trajectory.trajectory_id

    def selector(self, record: Transcript) -> ChatRequest:
        return self._request(self.critic.prompts.milestones, {"report": self._report(record, 0)}, ())

    def verifier(self, milestone: Milestone) -> ChatRequest:
        """Show the screens around the milestone's steps; without room for all, those of the last ones."""
        room, shown = self.critic.budget.tokens, list[MessagePart]()
        with stored_evidence(self.episode):
            for number in sorted(set(milestone.steps), reverse=True):
                step = self.episode.steps[number - 1]
                pictures = [marked_picture(step, self.screens), picture(step.screen_after, self.screens)]
                room -= sum(self._tokens(each.size) for each in pictures)
                if room < 0 and shown:
                    break
                before, after = f"The screen before step {number}, its action marked:", f"After step {number}:"
                shown = [before, pictures[0], after, pictures[1], *shown]
        return self._request(self.critic.prompts.milestone, {"milestone": untrusted(milestone.what)}, shown)

    def reviewer(self, record: Transcript, evidence: str) -> ChatRequest:
        with stored_evidence(self.episode):
            last = picture(self.episode.steps[-1].screen_after, self.screens)
        fields = {"report": self._report(record, self._tokens(last.size)), "evidence": evidence}
        return self._request(self.critic.prompts.review, fields, ("The last screen:", last))

    def _report(self, record: Transcript, reserved: int) -> str:
        """Return the lines of the steps, as many as fit beside `reserved` tokens. Raises JudgeFailure for not two."""
        room = self.critic.budget.tokens - reserved
        shown = fit((), list(map(text_tokens, record.steps)), room, self.subject)
        return "\n".join(map(str, lay_out(record._replace(screens=()), shown, str)))

    def _tokens(self, size: Size) -> int:
        return picture_tokens(self.critic.model, size, self.critic.image_scale)

    def _request(self, prompt: Prompt, fields: dict[str, str], shown: Sequence[MessagePart]) -> ChatRequest:
        prompted = PromptedModel(self.critic.model, prompt)
        fields = {"instruction": untrusted(self.episode.query.instruction), **fields}
        request = prompted.request(_ROLE, fields, tuple(shown), self.sampling, on_lines, self.subject)
        return replace(request, image_scale=self.critic.image_scale)
