"""The multimodal channel with a vision-language model: it reads screenshots and summaries (paper 6.3, CODA 3.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.model.channel import ModelChannel, ScreenPart
from trajmill.stages.critics.model.context_fit import picture_tokens
from trajmill.stages.critics.model.pictures import picture
from trajmill.stages.critics.model.request import critic_prompt, critic_request, stored_evidence
from trajmill.stages.critics.model.transcript import Transcript
from trajmill.stages.critics.rule import resolution_of
from trajmill.stages.models.base import ChatRequest, MessagePart
from trajmill.stages.models.prompted import Sampling
from trajmill.stages.models.prompts import Prompt

MULTIMODAL_FIELDS = frozenset({"instruction", "left_out"})


def multimodal_prompt(own: Path | None = None) -> Prompt:
    """Read the prompt: the user's own file, or the one of the package.

    Raises:
        BadInputError: the file cannot be read, or misses a section or a field.
    """
    return critic_prompt(own, "critic_multimodal-2", MULTIMODAL_FIELDS)


@dataclass(frozen=True, slots=True)
class ModelMultimodalChannel(ModelChannel):
    """Asks a vision-language model and shows it the screenshots."""

    prompt: Prompt = field(default_factory=multimodal_prompt)
    image_scale: float = 1.0
    """Factor for the width and height of screenshots; below 1 for the cheap first pass of CODA 4.2."""

    channel = Channel.MULTIMODAL

    @property
    def resolution(self) -> str:
        """`full`, or the scale of the screenshots, e.g. `0.5`."""
        return resolution_of(self.image_scale)

    async def screen_parts(
        self, shown: Transcript, episode: Episode, screens: ScreenReader
    ) -> Mapping[str, ScreenPart]:
        """The screenshots.

        Raises:
            JudgeFailure: a screen is missing.
        """
        with stored_evidence(episode):
            pictures = {screen.screen_id: picture(screen.screen_id, screens) for screen in shown.screens}
        return {
            screen_id: ScreenPart(shot, picture_tokens(self.model, shot.size, self.image_scale))
            for screen_id, shot in pictures.items()
        }

    def request(
        self, fields: Mapping[str, str], parts: tuple[MessagePart, ...], sampling: Sampling, subject: str
    ) -> ChatRequest:
        """The prompt, followed by the screens and steps."""
        asked = critic_request("critic.multimodal", self.prompt.fill(**fields), parts, sampling, subject)
        return replace(asked, image_scale=self.image_scale)
