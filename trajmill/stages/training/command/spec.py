"""The recipe that trains with a command."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, PositiveFloat
from pydantic_core import PydanticCustomError

from trajmill.schemas.names import UNKNOWN_KIND, instead_of, known_by
from trajmill.schemas.spec import OPERATIONAL
from trajmill.stages.export.formats.base import TrainerFormat, format_spec
from trajmill.stages.training.base import ParentPolicy, Progress, TrainingReport
from trajmill.stages.training.spec import RecipeSpec

PLACEHOLDERS: Final = ("release", "model", "adapter", "out", "seed")
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


def _export_format(name: str) -> TrainerFormat | None:
    return format_spec(name) if name else None


def _known_placeholders(command: tuple[str, ...]) -> tuple[str, ...]:
    for name in (name for part in command for name in _PLACEHOLDER.findall(part)):
        if name not in PLACEHOLDERS:
            message = f"nothing is known as {{{name}}}; {instead_of(name, PLACEHOLDERS)}"
            raise PydanticCustomError(UNKNOWN_KIND, "{message}", {"message": message})
    return command


class CommandSpec(RecipeSpec):
    """Training with any program: LLaMA-Factory, ms-swift, verl, a script that trains on another machine.

    The command must end with status 0 and write a model in Hugging Face's layout, or a LoRA adapter in PEFT's, under
    `{out}`. If there are several, the newest is used.
    """

    kind: Literal["command"] = "command"
    """Training with a command."""
    command: Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(_known_placeholders)]
    """Program and arguments, without a shell. `{release}` is the folder of the release, `{model}` that of the policy's
    weights, whose image processor has the bounds that the targets are written for, `{out}` the folder to write to,
    `{seed}` the seed. `{adapter}` is the folder of the policy's LoRA adapter; an argument that names it is left out if
    the policy has none."""
    format: Annotated[str, known_by(_export_format)] = ""
    """The format of `trajmill export` for `{release}`, in the dialect of the policy's family; empty for the
    release itself, whose rows lie in the shards of the warehouse that its card names."""
    variables: Annotated[dict[str, str], OPERATIONAL] = {}
    """Environment variables, with the same placeholders."""
    hours: Annotated[PositiveFloat, OPERATIONAL] = 24.0
    """Time limit of the command."""
    silent_minutes: Annotated[PositiveFloat, OPERATIONAL] = 60.0
    """Longest time without output; a command that is silent longer hangs, and is ended."""

    @property
    def takes(self) -> TrainerFormat | None:
        """The format of the configuration."""
        return _export_format(self.format)

    def trains(self, folder: Path) -> bool:
        """Whether the folder has a model in Hugging Face's layout that is not the embedded policy."""
        from trajmill.stages.models.embedded.model import is_embedded_policy

        return (folder / "config.json").is_file() and not is_embedded_policy(folder)

    def train(
        self, parent: ParentPolicy, release: Path, seed: int, folder: Path, progress: Progress | None = None
    ) -> TrainingReport:
        """Run the command and copy its model; the progress is not reported."""
        from trajmill.stages.training.command.run import train_by_command

        return train_by_command(self, parent, release, seed, folder)
