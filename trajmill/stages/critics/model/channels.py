"""The two channels with a model: they select what fits into a request, and turn answers into votes."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.base import StepResult, Vote, VoteFailure, vote_of
from trajmill.stages.critics.model.action_words import untrusted
from trajmill.stages.critics.model.marking import picture
from trajmill.stages.critics.model.request import (
    TrajectoryAnswer,
    ask_critic_several,
    critic_prompts,
    critic_request,
    trajectory_answer,
)
from trajmill.stages.critics.model.transcript import (
    ScreenCaptioner,
    Transcript,
    fit,
    kept,
    lay_out,
    omission_note,
    picture_tokens,
    text_tokens,
    transcribe,
)
from trajmill.stages.critics.trees.replay import stored_evidence
from trajmill.stages.critics.voting import resolution_of
from trajmill.stages.models.base import USUAL_BUDGET, ChatModel, ContextBudget, MessagePart, gives_several
from trajmill.stages.models.prompts import GREEDY, Prompt, PromptedModel, Sampling

ScreenParts = Mapping[str, tuple[MessagePart, int]]
"""By screen id, the part of a request that shows it, and its estimated tokens."""


@dataclass(frozen=True, slots=True)
class ModelChannel(ABC):
    model: ChatModel
    prompt: Prompt
    sampling: Sampling = GREEDY
    budget: ContextBudget = USUAL_BUDGET
    image_scale: float = 1.0
    """Factor for the width and height of screenshots; below 1 for the cheap first pass of CODA 4.2."""

    channel: ClassVar[Channel]

    @property
    def resolution(self) -> str:
        return resolution_of(self.image_scale)

    @property
    def version(self) -> str:
        return PromptedModel(self.model, self.prompt).version

    @abstractmethod
    async def _screen_parts(self, shown: Transcript, episode: Episode, screens: ScreenReader) -> ScreenParts: ...

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
        """Cast all votes in one request, whose seed is that of the first draw; raises as `judge`."""
        subject, instruction = episode.trajectory.trajectory_id, episode.query.instruction
        whole = transcribe(episode, screens, steps)
        shown = whole._replace(screens=tuple(whole.screens[at] for at in kept(len(whole.screens), self.budget.screens)))
        parts = await self._screen_parts(shown, episode, screens)
        room = self.budget.tokens - text_tokens(self.prompt.system + self.prompt.user + instruction)
        screen_tokens = [parts[screen.screen_id][1] for screen in shown.screens]
        chosen = fit(screen_tokens, list(map(text_tokens, shown.steps)), room, subject)
        fields = {"instruction": untrusted(instruction), "left_out": omission_note(len(whole.screens), shown, chosen)}
        evidence = lay_out(shown, chosen, lambda screen_id: parts[screen_id][0])
        if self.channel is Channel.TEXT:
            fields, evidence = {**fields, "report": "\n".join(map(str, evidence))}, ()
        sampling = self.sampling._replace(seed=self.sampling.seed + draws[0])
        request = critic_request(f"critic.{self.channel}", self.prompt.fill(**fields), evidence, sampling, subject)
        request = replace(request, image_scale=self.image_scale, n=len(draws), draws=tuple(draws))
        answers = await ask_critic_several(self.model, request, trajectory_answer(len(episode.steps)), subject)
        index, votes = [step.index for step in episode.steps], list[Vote | VoteFailure]()
        for answer in answers:
            if isinstance(answer, TrajectoryAnswer):
                redundant = tuple(index[number - 1] for number in answer.redundant_steps)
                first = None if answer.first_error_step is None else index[answer.first_error_step - 1]
                votes.append(vote_of(self, answer.correct, answer.reason, redundant, first))
            else:
                votes.append(answer)
        return votes


@dataclass(frozen=True, slots=True)
class ModelTextChannel(ModelChannel):
    """Asks a language model; the request has only text, with captions of the screens."""

    prompt: Prompt = field(default_factory=lambda: critic_prompts().text)
    captioner: ScreenCaptioner = field(default_factory=ScreenCaptioner)

    channel = Channel.TEXT

    @property
    def version(self) -> str:
        return f"{PromptedModel(self.model, self.prompt).version}[{self.captioner.version}]"

    async def _screen_parts(self, shown: Transcript, episode: Episode, screens: ScreenReader) -> ScreenParts:
        steps = {screen.screen_id: max(0, screen.after - 1) for screen in reversed(shown.screens)}
        name = episode.trajectory.trajectory_id
        asked = (self.captioner.caption(each, screens, name, episode.steps[at].index) for each, at in steps.items())
        # Wait for all of them; none keeps running after a failure.
        found = await asyncio.gather(*asked, return_exceptions=True)
        captions: dict[str, tuple[MessagePart, int]] = {}
        with stored_evidence(episode):
            for screen_id, caption in zip(steps, found, strict=True):
                if isinstance(caption, BaseException):
                    raise caption
                captions[screen_id] = caption, text_tokens(caption)
        return captions


@dataclass(frozen=True, slots=True)
class ModelMultimodalChannel(ModelChannel):
    """Asks a vision-language model and shows it the screenshots."""

    prompt: Prompt = field(default_factory=lambda: critic_prompts().multimodal)

    channel = Channel.MULTIMODAL

    async def _screen_parts(self, shown: Transcript, episode: Episode, screens: ScreenReader) -> ScreenParts:
        with stored_evidence(episode):
            pictures = {screen.screen_id: picture(screen.screen_id, screens) for screen in shown.screens}
        return {
            screen_id: (shot, picture_tokens(self.model, shot.size, self.image_scale))
            for screen_id, shot in pictures.items()
        }
