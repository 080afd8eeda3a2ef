"""The text channel by a language model: reasons over captions and summaries, never over a screenshot (paper 6.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.base import StepResult, Vote
from trajmill.stages.critics.model.action_words import untrusted
from trajmill.stages.critics.model.answers import trajectory_answer
from trajmill.stages.critics.model.captioner import ScreenCaptioner, TreeCaptioner
from trajmill.stages.critics.model.context_fit import fit, kept, text_tokens
from trajmill.stages.critics.model.request import (
    GREEDY,
    Sampling,
    ask_critic,
    critic_prompt,
    question,
    stored_evidence,
    version_of,
)
from trajmill.stages.critics.model.transcript import Transcript, lay_out, say_what_is_left_out, transcribe, vote_of
from trajmill.stages.models.base import ChatModel
from trajmill.stages.models.context_budget import USUAL_BUDGET, ContextBudget
from trajmill.stages.models.prompts import Prompt

TEXT_FIELDS = frozenset({"instruction", "left_out", "report"})


def text_prompt(own: Path | None = None) -> Prompt:
    """The prompt that is asked with: of the user's own file, or the one that comes with the package.

    Raises:
        BadInputError: the file cannot be read, or misses a section or a field.
    """
    return critic_prompt(own, "critic_text-1", TEXT_FIELDS)


@dataclass(frozen=True, slots=True)
class ModelTextChannel:
    """Asks a language model, in words alone."""

    model: ChatModel
    prompt: Prompt = field(default_factory=text_prompt)
    captioner: ScreenCaptioner = field(default_factory=TreeCaptioner)
    sampling: Sampling = GREEDY
    budget: ContextBudget = USUAL_BUDGET

    @property
    def channel(self) -> Channel:
        """The text channel."""
        return Channel.TEXT

    @property
    def resolution(self) -> str:
        """Always `full`: it looks at no picture."""
        return "full"

    @property
    def version(self) -> str:
        """Prompt, model and, in brackets, what wrote the captions."""
        return f"{version_of(self.prompt, self.model)}[{self.captioner.version}]"

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        """Cast one vote on a finished episode; equal draws send equal requests.

        Raises:
            JudgeFailure: no usable answer or caption, a screen is missing, or the report does not fit.
            ModelFailure: a model did not answer.
        """
        name = episode.trajectory.trajectory_id
        told = transcribe(episode, screens, steps)
        shown = told.only(kept(len(told.screens), self.budget.screens))
        captions = await self._captions(shown, episode, screens)
        room = self.budget.tokens - text_tokens(self.prompt.system + self.prompt.user + episode.query.instruction)
        chosen = fit(
            [text_tokens(captions[screen.screen_id]) for screen in shown.screens],
            [text_tokens(line) for line in shown.steps],
            room,
            name,
        )
        filled = self.prompt.fill(
            instruction=untrusted(episode.query.instruction),
            left_out=say_what_is_left_out(len(told.screens), shown, chosen),
            report="\n".join(map(str, lay_out(shown, chosen, lambda screen_id: captions[screen_id]))),
        )
        sampling = self.sampling._replace(seed=self.sampling.seed + draw)
        request = replace(question("critic.text", filled, (), sampling, name), draw=draw)
        return vote_of(await ask_critic(self.model, request, trajectory_answer(len(episode.steps)), name), episode)

    async def _captions(self, shown: Transcript, episode: Episode, screens: ScreenReader) -> dict[str, str]:
        """The caption of each screen by its id, all asked for at once."""
        steps = {screen.screen_id: max(0, screen.after - 1) for screen in reversed(shown.screens)}
        name = episode.trajectory.trajectory_id
        asked = (
            self.captioner.caption(screen_id, screens, name, episode.steps[at].index) for screen_id, at in steps.items()
        )
        # Waits for all of them, so that none is left running behind a failure.
        found = await asyncio.gather(*asked, return_exceptions=True)
        captions: dict[str, str] = {}
        with stored_evidence(episode):
            for screen_id, caption in zip(steps, found, strict=True):
                if isinstance(caption, BaseException):
                    raise caption
                captions[screen_id] = caption
        return captions
