"""The prompts of all critics on models."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from trajmill.stages.critics.model.captioner import caption_prompt
from trajmill.stages.critics.model.multimodal_channel import multimodal_prompt
from trajmill.stages.critics.model.step_critic import step_prompt
from trajmill.stages.critics.model.text_channel import text_prompt
from trajmill.stages.models.prompts import Prompt


class CriticPrompts(NamedTuple):
    """The prompts by what they are asked for."""

    step: Prompt
    text: Prompt
    multimodal: Prompt
    describer: Prompt


def critic_prompts(
    step: Path | None = None,
    text: Path | None = None,
    multimodal: Path | None = None,
    describer: Path | None = None,
) -> CriticPrompts:
    """The prompts of the user's own files, and where there is none, those that come with the critics.

    Raises:
        BadInputError: a file cannot be read, or misses a section or a field.
    """
    return CriticPrompts(step_prompt(step), text_prompt(text), multimodal_prompt(multimodal), caption_prompt(describer))
