"""The multimodal channel by a vision-language model: reasons over screenshots and summaries (paper 6.3, CODA 3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.base import StepResult, Vote
from trajmill.stages.critics.model.action_words import untrusted
from trajmill.stages.critics.model.answers import trajectory_answer
from trajmill.stages.critics.model.context_fit import fit, kept, picture_tokens, text_tokens
from trajmill.stages.critics.model.pictures import picture
from trajmill.stages.critics.model.request import (
    GREEDY,
    Sampling,
    ask_critic,
    critic_prompt,
    question,
    stored_evidence,
    version_of,
)
from trajmill.stages.critics.model.transcript import lay_out, say_what_is_left_out, transcribe, vote_of
from trajmill.stages.models.base import ChatModel, ChatRequest
from trajmill.stages.models.context_budget import USUAL_BUDGET, ContextBudget
from trajmill.stages.models.prompts import Prompt

MULTIMODAL_FIELDS = frozenset({"instruction", "left_out"})


def multimodal_prompt(own: Path | None = None) -> Prompt:
    """The prompt that is asked with: of the user's own file, or the one that comes with the package.

    Raises:
        BadInputError: the file cannot be read, or misses a section or a field.
    """
    return critic_prompt(own, "critic_multimodal-1", MULTIMODAL_FIELDS)


@dataclass(frozen=True, slots=True)
class ModelMultimodalChannel:
    """Asks a vision-language model, with the screens themselves."""

    model: ChatModel
    prompt: Prompt = field(default_factory=multimodal_prompt)
    image_scale: float = 1.0
    """Share of their sides at which screens are sent; under 1 for the cheap first pass of CODA 4.2."""
    sampling: Sampling = GREEDY
    budget: ContextBudget = USUAL_BUDGET

    @property
    def channel(self) -> Channel:
        """The multimodal channel."""
        return Channel.MULTIMODAL

    @property
    def resolution(self) -> str:
        """`full`, or the scale of the screenshots, e.g. `0.5`."""
        return "full" if self.image_scale == 1.0 else f"{self.image_scale:g}"

    @property
    def version(self) -> str:
        """Prompt and model."""
        return version_of(self.prompt, self.model)

    async def judge(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int = 0) -> Vote:
        """Cast one vote on a finished episode; equal draws send equal requests.

        Raises:
            JudgeFailure: no usable answer, a screen is missing, or not even two screens fit.
            ModelFailure: the model did not answer, or a stored image does not decode.
        """
        request = self._request(episode, screens, steps, draw)
        name = episode.trajectory.trajectory_id
        return vote_of(await ask_critic(self.model, request, trajectory_answer(len(episode.steps)), name), episode)

    def _request(self, episode: Episode, screens: ScreenReader, steps: Sequence[StepResult], draw: int) -> ChatRequest:
        name = episode.trajectory.trajectory_id
        told = transcribe(episode, screens, steps)
        shown = told.only(kept(len(told.screens), self.budget.screens))
        room = self.budget.tokens - text_tokens(self.prompt.system + self.prompt.user + episode.query.instruction)
        with stored_evidence(episode):
            pictures = {screen.screen_id: picture(screen.screen_id, screens) for screen in shown.screens}
        chosen = fit(
            [picture_tokens(self.model, pictures[s.screen_id].size, self.image_scale) for s in shown.screens],
            [text_tokens(line) for line in shown.steps],
            room,
            name,
        )
        filled = self.prompt.fill(
            instruction=untrusted(episode.query.instruction),
            left_out=say_what_is_left_out(len(told.screens), shown, chosen),
        )
        sampling = self.sampling._replace(seed=self.sampling.seed + draw)
        parts = lay_out(shown, chosen, lambda screen_id: pictures[screen_id])
        asked = question("critic.multimodal", filled, parts, sampling, name)
        return replace(asked, image_scale=self.image_scale, draw=draw)
