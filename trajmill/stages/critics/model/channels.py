"""Channels that ask a model: they select what fits into a request, and turn answers into votes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, cast

from pydantic import Field, StrictBool, StrictInt, create_model, field_validator, model_validator

from trajmill.schemas.episode import Episode
from trajmill.schemas.errors import JudgeFailure
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.record import Record
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.base import StepResult, Vote, VoteFailure, vote_of
from trajmill.stages.critics.model.action_words import untrusted
from trajmill.stages.critics.model.marking import picture
from trajmill.stages.critics.model.transcript import (
    Said,
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
from trajmill.stages.models.prompts import GREEDY, AnswerFailure, Prompt, PromptedModel, Sampling, ask_several, on_lines


class TrajectoryAnswer(Record):
    """CODA's three signals on a trajectory (its 3.4), the reason first. Steps are numbered from 1."""

    reason: Said
    correct: StrictBool
    redundant_steps: tuple[StrictInt, ...]
    first_error_step: StrictInt | None

    @field_validator("redundant_steps")
    @classmethod
    def _sorted_once(cls, steps: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(steps)))

    @model_validator(mode="after")
    def _consistent(self) -> TrajectoryAnswer:
        if self.correct and self.first_error_step is not None:
            raise ValueError("correct is true, yet there is a first_error_step; one of the two is wrong")
        return self


def trajectory_answer(steps: int) -> type[TrajectoryAnswer]:
    """Return the class of answers on this many steps, with the bounds in its JSON schema, for guided decoding."""
    number: Any = Annotated[StrictInt, Field(ge=1, le=steps)]
    numbers: Any = Annotated[tuple[number, ...], Field(max_length=steps)]
    made = create_model(
        "TrajectoryAnswer",
        __base__=TrajectoryAnswer,
        redundant_steps=(numbers, ...),
        first_error_step=(number | None, ...),
    )
    return cast(type[TrajectoryAnswer], made)


@dataclass(frozen=True, slots=True)
class ModelChannel:
    model: ChatModel
    prompt: Prompt
    sampling: Sampling = GREEDY
    budget: ContextBudget = USUAL_BUDGET
    image_scale: float = 1.0
    """Factor for the width and height of screenshots; below 1 for the cheap first pass of CODA 4.2."""
    captioner: ScreenCaptioner | None = None
    """Describes the screens in the text channel; without it, the multimodal channel shows screenshots."""

    @property
    def channel(self) -> Channel:
        return Channel.TEXT if self.captioner else Channel.MULTIMODAL

    @property
    def resolution(self) -> str:
        return resolution_of(self.image_scale)

    @property
    def version(self) -> str:
        own = PromptedModel(self.model, self.prompt).version
        return f"{own}[{self.captioner.version}]" if self.captioner else own

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
        if self.captioner:
            fields, evidence = {**fields, "report": "\n".join(map(str, evidence))}, ()
        sampling = self.sampling._replace(seed=self.sampling.seed + draws[0])
        prompted = PromptedModel(self.model, self.prompt)
        request = prompted.request(f"critic.{self.channel}", fields, evidence, sampling, on_lines, subject)
        request = replace(request, image_scale=self.image_scale, n=len(draws), draws=tuple(draws))
        index, votes = [step.index for step in episode.steps], list[Vote | VoteFailure]()
        for answer in await ask_several(self.model, request, trajectory_answer(len(episode.steps))):
            if isinstance(answer, TrajectoryAnswer):
                redundant = tuple(index[number - 1] for number in answer.redundant_steps)
                first = None if answer.first_error_step is None else index[answer.first_error_step - 1]
                votes.append(vote_of(self, answer.correct, answer.reason, redundant, first))
            else:
                votes.append(JudgeFailure(f"{subject}: {answer}") if isinstance(answer, AnswerFailure) else answer)
        return votes

    async def _screen_parts(
        self, shown: Transcript, episode: Episode, screens: ScreenReader
    ) -> Mapping[str, tuple[MessagePart, int]]:
        """Return by screen id the part of a request that shows it, and its estimated tokens."""
        parts: dict[str, tuple[MessagePart, int]] = {}
        if self.captioner is None:
            with stored_evidence(episode):
                for screen in shown.screens:
                    shot = picture(screen.screen_id, screens)
                    parts[screen.screen_id] = shot, picture_tokens(self.model, shot.size, self.image_scale)
            return parts
        steps = {screen.screen_id: max(0, screen.after - 1) for screen in reversed(shown.screens)}
        name = episode.trajectory.trajectory_id
        asked = (self.captioner.caption(each, screens, name, episode.steps[at].index) for each, at in steps.items())
        # Wait for all of them; none keeps running after a failure.
        found = await asyncio.gather(*asked, return_exceptions=True)
        with stored_evidence(episode):
            for screen_id, caption in zip(steps, found, strict=True):
                if isinstance(caption, BaseException):
                    raise caption
                parts[screen_id] = caption, text_tokens(caption)
        return parts
