"""The prompts of the models that derivations ask, and the user's own files in their place."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from trajmill.schemas.spec import Spec
from trajmill.stages.models.prompts import Prompt, own_or_packaged

_PACKAGE: Final = "trajmill.stages.derive"


class DerivePromptFiles(Spec):
    """Prompt files of your own for the models of `[derive]`, in place of those that come with trajmill."""

    rephrase: Path | None = None
    """For `derive.writer`, which rephrases grounding instructions."""


class DerivePrompts(NamedTuple):
    """The prompts by the key of their file."""

    rephrase: Prompt


def derive_prompts(files: DerivePromptFiles | None = None) -> DerivePrompts:
    """Read the prompts from the user's own files; without a file, the prompt of the package.

    Raises:
        BadInputError: a file cannot be read, or misses a section or a field.
    """
    own = files or DerivePromptFiles()
    return DerivePrompts(
        rephrase=own_or_packaged(own.rephrase, _PACKAGE, "writer_rephrase-1", frozenset({"instructions", "count"})),
    )
