"""Critics that ask a model: the channels and the step critic select what fits into a request, and read the answers.

The steps of one trajectory are judged one after the other, because the history of a step is the summaries of the steps
before it. This costs latency but no throughput: many trajectories are judged at the same time.
"""

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
from trajmill.schemas.tables.verdict import Channel, StepLabel
from trajmill.schemas.text import one_line
from trajmill.stages.critics.model.marking import action_in_words, marked_picture, picture, untrusted
from trajmill.stages.critics.model.transcript import (
    Said,
    ScreenCaptioner,
    Transcript,
    ask_critic,
    fit,
    kept,
    lay_out,
    omission_note,
    picture_tokens,
    text_tokens,
    transcribe,
)
from trajmill.stages.critics.replay import stored_evidence
from trajmill.stages.critics.voting import StepResult, Vote, VoteFailure, at_most_words, resolution_of, vote_of
from trajmill.stages.models.base import USUAL_BUDGET, ChatRequest, ContextBudget, MessagePart, gives_several
from trajmill.stages.models.prompts import GREEDY, AnswerFailure, PromptedModel, Sampling, ask_several, on_lines


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

    def by_index(self, episode: Episode) -> tuple[tuple[int, ...], int | None]:
        """Return the redundant steps and the first error with their indices in the episode."""
        index = [step.index for step in episode.steps]
        first = None if self.first_error_step is None else index[self.first_error_step - 1]
        return tuple(index[number - 1] for number in self.redundant_steps), first


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
class ModelChannel(PromptedModel):
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

        Raises JudgeFailure if there is no usable answer, a screen is missing, or not even two screens fit into the
        request; ModelFailure if a model did not answer, or a stored image does not decode.
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
        request = self.request(f"critic.{self.channel}", fields, evidence, sampling, on_lines, subject)
        request = replace(request, image_scale=self.image_scale, n=len(draws), draws=tuple(draws))
        votes: list[Vote | VoteFailure] = []
        for answer in await ask_several(self.model, request, trajectory_answer(len(episode.steps))):
            if isinstance(answer, TrajectoryAnswer):
                votes.append(vote_of(self, answer.correct, answer.reason, *answer.by_index(episode)))
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
class ModelStepCritic(PromptedModel):
    """The step critic with a vision-language model; it reads the screens before and after an action (paper 6.3)."""

    sampling: Sampling = GREEDY
    budget: ContextBudget = USUAL_BUDGET
    """Most tokens of a request; both screens must fit, and the history gets the remaining room."""

    async def judge(self, episode: Episode, screens: ScreenReader) -> list[StepResult]:
        """Judge each step of an episode, in order.

        Raises JudgeFailure if there is no usable answer on a step, or its screens are missing or do not fit;
        ModelFailure if the model did not answer, or a stored image does not decode.
        """
        results: list[StepResult] = []
        for at, step in enumerate(episode.steps):
            with stored_evidence(episode):
                request = self._request(episode, at, results, screens)
            subject = f"{episode.trajectory.trajectory_id}: step {step.index}"
            answer = await ask_critic(self.model, request, StepAnswer, subject)
            summary = one_line(at_most_words(answer.summary), LONGEST_SUMMARY)
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
            short = f"the screens of step {step.index} do not fit into {self.budget.tokens} tokens"
            raise JudgeFailure(f"{trajectory_id}: {short}")
        fields = {
            "instruction": untrusted(episode.query.instruction),
            "history": _history(earlier, room),
            "number": str(at + 1),
            "action": action,
        }
        return self.request("critic.step", fields, shown, self.sampling, on_lines, trajectory_id, step.index)


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
