"""The text channel with a language model: it reads captions and summaries, but no screenshots (paper 6.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trajmill.schemas.episode import Episode
from trajmill.schemas.observation import ScreenReader
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.critics.model.captioner import ScreenCaptioner, TreeCaptioner
from trajmill.stages.critics.model.channel import ModelChannel, ScreenPart
from trajmill.stages.critics.model.context_fit import text_tokens
from trajmill.stages.critics.model.request import critic_prompt, critic_request, stored_evidence
from trajmill.stages.critics.model.transcript import Transcript
from trajmill.stages.critics.rule import FULL
from trajmill.stages.models.base import ChatRequest, MessagePart
from trajmill.stages.models.prompted import PromptedModel, Sampling
from trajmill.stages.models.prompts import Prompt

TEXT_FIELDS = frozenset({"instruction", "left_out", "report"})


def text_prompt(own: Path | None = None) -> Prompt:
    """Read the prompt: the user's own file, or the one of the package.

    Raises:
        BadInputError: the file cannot be read, or misses a section or a field.
    """
    return critic_prompt(own, "critic_text-2", TEXT_FIELDS)


@dataclass(frozen=True, slots=True)
class ModelTextChannel(ModelChannel):
    """Asks a language model; the request has only text."""

    prompt: Prompt = field(default_factory=text_prompt)
    captioner: ScreenCaptioner = field(default_factory=TreeCaptioner)

    channel = Channel.TEXT

    @property
    def resolution(self) -> str:
        """Always `full`, because it reads no image."""
        return FULL

    @property
    def version(self) -> str:
        """The versions of prompt and model, and in brackets that of the captioner."""
        return f"{PromptedModel(self.model, self.prompt).version}[{self.captioner.version}]"

    async def screen_parts(
        self, shown: Transcript, episode: Episode, screens: ScreenReader
    ) -> Mapping[str, ScreenPart]:
        """The captions of the screens, all made at the same time.

        Raises:
            JudgeFailure: no usable caption, or a screen is missing.
            ModelFailure: the model that describes screens did not answer.
        """
        steps = {screen.screen_id: max(0, screen.after - 1) for screen in reversed(shown.screens)}
        name = episode.trajectory.trajectory_id
        asked = (
            self.captioner.caption(screen_id, screens, name, episode.steps[at].index) for screen_id, at in steps.items()
        )
        # Wait for all of them, so that none keeps running after a failure.
        found = await asyncio.gather(*asked, return_exceptions=True)
        captions: dict[str, ScreenPart] = {}
        with stored_evidence(episode):
            for screen_id, caption in zip(steps, found, strict=True):
                if isinstance(caption, BaseException):
                    raise caption
                captions[screen_id] = ScreenPart(caption, text_tokens(caption))
        return captions

    def request(
        self, fields: Mapping[str, str], parts: tuple[MessagePart, ...], sampling: Sampling, subject: str
    ) -> ChatRequest:
        """The prompt, with the screens and steps as a field of it."""
        filled = self.prompt.fill(**fields, report="\n".join(map(str, parts)))
        return critic_request("critic.text", filled, (), sampling, subject)
