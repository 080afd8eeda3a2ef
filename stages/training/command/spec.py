"""The recipe that trains by a command."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, PositiveFloat
from pydantic_core import PydanticCustomError

from trajmill.schemas.known_name import UNKNOWN_KIND, known_by
from trajmill.schemas.nearest import instead_of
from trajmill.schemas.spec import OPERATIONAL
from trajmill.stages.export.formats.kinds import format_spec
from trajmill.stages.export.formats.spec import FormatSpec
from trajmill.stages.training.base import ParentPolicy, Progress, TrainingReport
from trajmill.stages.training.spec import RecipeSpec

PLACEHOLDERS: Final = ("release", "model", "adapter", "out", "seed")
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


def _export_format(name: str) -> FormatSpec | None:
    return format_spec(name) if name else None


def _known_placeholders(command: tuple[str, ...]) -> tuple[str, ...]:
    for name in (name for part in command for name in _PLACEHOLDER.findall(part)):
        if name not in PLACEHOLDERS:
            message = f"nothing is known as {{{name}}}; {instead_of(name, PLACEHOLDERS)}"
            raise PydanticCustomError(UNKNOWN_KIND, "{message}", {"message": message})
    return command


class CommandSpec(RecipeSpec):
    """Training by any program: LLaMA-Factory, ms-swift, verl, a script that trains on another machine.

    The command must end with status 0 and leave a model in Hugging Face's layout, or a LoRA adapter in PEFT's, under
    `{out}`; of several it left there, the newest is taken.
    """

    kind: Literal["command"] = "command"
    """Training by a command."""
    command: Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(_known_placeholders)]
    """Program and arguments; no shell reads them. `{release}` stands for the folder of the release, `{model}` for that
    of the policy's weights, `{adapter}` for that of its LoRA adapter, or nothing, `{out}` for the folder to write to,
    `{seed}` for the seed."""
    format: Annotated[str, known_by(_export_format)] = ""
    """The format of `trajmill export` that `{release}` is written in, in the words of the policy's family; empty for
    the files of the release itself."""
    variables: Annotated[dict[str, str], OPERATIONAL] = {}
    """Environment variables, with the same placeholders."""
    hours: Annotated[PositiveFloat, OPERATIONAL] = 24.0
    """A command that takes longer is ended."""
    silent_minutes: Annotated[PositiveFloat, OPERATIONAL] = 60.0
    """A command that prints nothing for so long has hung, and is ended."""

    @property
    def takes(self) -> FormatSpec | None:
        """The format of the configuration."""
        return _export_format(self.format)

    def trains(self, folder: Path) -> bool:
        """Whether the folder holds a model in Hugging Face's layout that is not the embedded policy."""
        from trajmill.stages.models.embedded.storage import is_embedded_policy

        return (folder / "config.json").is_file() and not is_embedded_policy(folder)

    def train(
        self, parent: ParentPolicy, release: Path, seed: int, folder: Path, progress: Progress | None = None
    ) -> TrainingReport:
        """Run the command and take over what it wrote; its progress is not known."""
        from trajmill.stages.training.command.run import train_by_command

        return train_by_command(self, parent, release, seed, folder)
