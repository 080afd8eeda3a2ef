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
        rephrase=_prompt(own.rephrase, "writer_rephrase-1", "instructions", "count"),
        describe_action=_prompt(own.describe_action, "describer_action-1", "action"),
        check_effect=_prompt(own.check_effect, "describer_effect-1", "description"),
        think=_prompt(own.think, "describer_think-1", "prompt", "style", "hint"),
        act=_prompt(own.act, "describer_act-1", "thought"),
        merge=_prompt(own.merge, "writer_merge-1", "prompt", "roles"),
        manual=_prompt(own.manual, "writer_manual-1", "task", "successes"),
        plan=_prompt(own.plan, "writer_plan-1", "task", "apps"),
    )


def _prompt(own: Path | None, name: str, *fields: str) -> Prompt:
    return own_or_packaged(own, _PACKAGE, name, frozenset(fields))
