"""Reads the prompts of all critics that ask models."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from trajmill.stages.critics.model.captioner import caption_prompt
from trajmill.stages.critics.model.channels import multimodal_prompt, text_prompt
from trajmill.stages.critics.model.step_critic import step_prompt
from trajmill.stages.models.prompts import Prompt


class CriticPrompts(NamedTuple):
    """The prompts, one for each purpose."""

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
    """Read the prompts from the user's own files; without a file, the prompt of the package.

    Raises:
        BadInputError: a file cannot be read, or misses a section or a field.
    """
    return CriticPrompts(step_prompt(step), text_prompt(text), multimodal_prompt(multimodal), caption_prompt(describer))
