"""What the two channels with models share: they select what fits into one request, and turn answers into votes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.base import StepResult, Vote, VoteFailure, vote_of
from trajmill.stages.critics.model.action_words import untrusted
from trajmill.stages.critics.model.answers import TrajectoryAnswer, trajectory_answer
from trajmill.stages.critics.model.context_fit import fit, kept, text_tokens
from trajmill.stages.critics.model.request import ask_critic_several
from trajmill.stages.critics.model.transcript import Transcript, lay_out, omission_note, transcribe
from trajmill.stages.models.base import ChatModel, ChatRequest, MessagePart, gives_several
from trajmill.stages.models.context_budget import USUAL_BUDGET, ContextBudget
from trajmill.stages.models.prompted import GREEDY, PromptedModel, Sampling
from trajmill.stages.models.prompts import Prompt


class ScreenPart(NamedTuple):
    """A screen as a part of a request."""

    part: MessagePart
    """An image or a text."""
    tokens: int
    """Estimated number of tokens."""


@dataclass(frozen=True, slots=True)
class ModelChannel(ABC):
    """Asks a model whether a trajectory did what its query asks."""

    model: ChatModel
    prompt: Prompt
    sampling: Sampling = GREEDY
    budget: ContextBudget = USUAL_BUDGET

    channel: ClassVar[Channel]

    @property
    @abstractmethod
    def resolution(self) -> str:
        """`full`, or the scale of the screenshots."""

    @property
    def version(self) -> str:
        """Prompt and model."""
        return PromptedModel(self.model, self.prompt).version

    @abstractmethod
    async def screen_parts(
        self, shown: Transcript, episode: Episode, screens: ScreenReader
    ) -> Mapping[str, ScreenPart]:
        """The screens of a transcript as parts of a request, by id.

        Raises:
            JudgeFailure: a screen is missing, or cannot be described.
            ModelFailure: a model did not answer.
        """

    @abstractmethod
    def request(
        self, fields: Mapping[str, str], parts: tuple[MessagePart, ...], sampling: Sampling, subject: str
    ) -> ChatRequest:
        """The request that shows the screens and steps.

        Args:
            fields: the values of the prompt's fields.
            parts: the screens and steps, in order.
            sampling: how the answer is drawn.
            subject: id of the trajectory.
        """

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        """Vote on a finished episode; equal draws send equal requests.

        Raises:
            JudgeFailure: no usable answer, a screen is missing, or not even two screens fit into the request.
            ModelFailure: a model did not answer, or a stored image does not decode.
        """
        (vote,) = await self.judge_together(episode, screens, steps, [draw])
        if isinstance(vote, Vote):
            return vote
        raise vote

    @property
    def votes_together(self) -> bool:
        """Whether its model gives several sampled answers to one request."""
        return self.sampling.temperature > 0 and gives_several(self.model)

    async def judge_together(
        self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draws: Sequence[int]
    ) -> list[Vote | VoteFailure]:
        """Cast all votes in one request; the first draw decides its seed.

        Raises:
            JudgeFailure: a screen is missing, or not even two screens fit into the request.
            ModelFailure: a model did not answer, or a stored image does not decode.
        """
        request = replace(await self._request(episode, screens, steps, draws[0]), n=len(draws), draws=tuple(draws))
        record = trajectory_answer(len(episode.steps))
        answers = await ask_critic_several(self.model, request, record, episode.trajectory.trajectory_id)
        return [self._vote(answer, episode) if isinstance(answer, TrajectoryAnswer) else answer for answer in answers]

    async def _request(
        self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int
    ) -> ChatRequest:
        subject = episode.trajectory.trajectory_id
        whole = transcribe(episode, screens, steps)
        shown = whole.only(kept(len(whole.screens), self.budget.screens))
        parts = await self.screen_parts(shown, episode, screens)
        room = self.budget.tokens - text_tokens(self.prompt.system + self.prompt.user + episode.query.instruction)
        chosen = fit(
            [parts[screen.screen_id].tokens for screen in shown.screens],
            [text_tokens(line) for line in shown.steps],
            room,
            subject,
        )
        fields = {
            "instruction": untrusted(episode.query.instruction),
            "left_out": omission_note(len(whole.screens), shown, chosen),
        }
        evidence = lay_out(shown, chosen, lambda screen_id: parts[screen_id].part)
        sampling = self.sampling._replace(seed=self.sampling.seed + draw)
        return self.request(fields, evidence, sampling, subject)

    def _vote(self, answer: TrajectoryAnswer, episode: Episode) -> Vote:
        """The vote of an answer; its steps are indices from 0."""
        index = [step.index for step in episode.steps]
        first = answer.first_error_step
        return vote_of(
            self,
            answer.correct,
            answer.reason,
            tuple(index[number - 1] for number in answer.redundant_steps),
            None if first is None else index[first - 1],
        )
