"""The prompts of the models that derivations ask, and the user's own files in their place."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from trajmill.schemas.spec import Spec
from trajmill.stages.models.prompts import Prompt, load_prompt

_PACKAGE: Final = "trajmill.stages.derive"


class DerivePromptFiles(Spec):
    """Prompt files of your own for the models of `[derive]`, in place of those that come with trajmill."""

    rephrase: Path | None = None
    """For `derive.writer`, which rephrases grounding instructions."""
    describe_action: Path | None = None
    """For `derive.describer`, which describes an action from the screen before it."""
    check_effect: Path | None = None
    """For `derive.describer`, which votes on such a description."""
    think: Path | None = None
    """For `derive.describer`, which thinks before a step."""
    act: Path | None = None
    """For `derive.describer`, which acts on a thought alone."""
    merge: Path | None = None
    """For `derive.writer`, which merges the outputs of several agents into one thought."""
    manual: Path | None = None
    """For `derive.writer`, which writes the manual of a task from its successes."""
    plan: Path | None = None
    """For `derive.writer`, which plans a task without a success from the task alone."""


class DerivePrompts(NamedTuple):
    """The prompts by the key of their file."""

    rephrase: Prompt
    describe_action: Prompt
    check_effect: Prompt
    think: Prompt
    act: Prompt
    merge: Prompt
    manual: Prompt
    plan: Prompt


def derive_prompts(files: DerivePromptFiles | None = None) -> DerivePrompts:
    """Read the prompts from the user's own files; without a file, the prompt of the package.

    Raises:
        BadInputError: a file cannot be read, or misses a section or a field.
    """
    own = files or DerivePromptFiles()
    return DerivePrompts(
        rephrase=load_prompt(_PACKAGE, "writer_rephrase-1", own.rephrase),
        describe_action=load_prompt(_PACKAGE, "describer_action-1", own.describe_action),
        check_effect=load_prompt(_PACKAGE, "describer_effect-1", own.check_effect),
        think=load_prompt(_PACKAGE, "describer_think-1", own.think),
        act=load_prompt(_PACKAGE, "describer_act-1", own.act),
        merge=load_prompt(_PACKAGE, "writer_merge-1", own.merge),
        manual=load_prompt(_PACKAGE, "writer_manual-1", own.manual),
        plan=load_prompt(_PACKAGE, "writer_plan-1", own.plan),
    )
