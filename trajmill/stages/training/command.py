"""Trains with the user's own command, and takes over its model, log and losses."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import AfterValidator, Field, PositiveFloat
from pydantic_core import PydanticCustomError

from trajmill.schemas.errors import BadInputError, TrainingFailedError
from trajmill.schemas.names import UNKNOWN_KIND, instead_of, known_by
from trajmill.schemas.spec import OPERATIONAL
from trajmill.stages.export.formats.base import TrainerFormat, format_spec
from trajmill.stages.export.formats.bounds import (
    bounded_model,
    bounds_as_variables,
    check_stated_bounds,
    check_trained_bounds,
)
from trajmill.stages.training.base import ParentPolicy, Progress, TrainingReport
from trajmill.stages.training.child import LOG_FILE, ChildLimits, run_child
from trajmill.stages.training.lineage import (
    copy_settings,
    is_begun,
    made_from,
    tail_mean,
    version_of,
    write_metrics,
    write_source,
)
from trajmill.stages.training.spec import RecipeSpec

PLACEHOLDERS: Final = ("release", "model", "adapter", "out", "seed")
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_ADAPTER, _CONFIG = "adapter_config.json", "config.json"
_OF_THE_TRAINER = frozenset({".pt", ".pth", ".bin"})
"""Suffixes of the states of optimisers and the like; weights in them are pickled, and never loaded."""
_STATE = "trainer_state.json"
"""The file with the losses, of trainers that are built on transformers."""


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
        return _export_format(self.format)

    def trains(self, folder: Path) -> bool:
        from trajmill.stages.models.embedded.model import is_embedded_policy

        return (folder / _CONFIG).is_file() and not is_embedded_policy(folder)

    def train(
        self, parent: ParentPolicy, release: Path, seed: int, folder: Path, progress: Progress | None = None
    ) -> TrainingReport:
        """Run the command in the folder of the release; files of an interrupted one under `{out}` are kept.

        Raises:
            BadInputError: `parent` is no model in Hugging Face's layout, or the command states other pixel bounds than
                the targets are written for.
            TrainingFailedError: the command failed, or wrote no model, one with a loss that is NaN, or one whose
                processor has other pixel bounds.
        """
        if not self.trains(parent.folder):
            raise BadInputError(f"{parent.folder} holds no model in Hugging Face's layout, which a command could train")
        source = made_from(self, parent, [release], seed)
        out, view = (folder / "out").resolve(), (folder / "model").resolve()
        if not is_begun(folder, source):
            shutil.rmtree(out, ignore_errors=True)
            write_source(folder, source)
        out.mkdir(exist_ok=True)
        budget = parent.family.budget
        if self.format:
            check_stated_bounds(self.command, self.variables, release, budget)
        meant = {
            "release": str(release.resolve()),
            "model": str(bounded_model(parent.folder.resolve(), budget, view)),
            "adapter": "" if parent.adapter is None else str(parent.adapter.resolve()),
            "out": str(out),
            "seed": str(seed % 2**31),
        }
        run_child(
            [_filled(part, meant) for part in self.command if parent.adapter is not None or "{adapter}" not in part],
            folder.resolve() / LOG_FILE,
            ChildLimits(self.silent_minutes * 60, self.hours * 3600),
            release,
            bounds_as_variables(budget) | {name: _filled(value, meant) for name, value in self.variables.items()},
        )
        made = _newest_model(out)
        if self.format:
            check_trained_bounds(made.folder, budget)
        losses = _losses(out)
        if losses and not math.isfinite(losses[-1]["loss"]):
            raise TrainingFailedError(f"the trainer ended well, but its last loss is {losses[-1]['loss']}")
        _take_over(made, folder, parent.folder)
        shutil.rmtree(out)
        shutil.rmtree(view, ignore_errors=True)
        report = TrainingReport(0, 0, len(losses), tail_mean([each["loss"] for each in losses]), version_of(source))
        write_metrics(folder, report, losses)
        return report


class _Made(NamedTuple):
    folder: Path
    is_adapter: bool


def _filled(text: str, meant: Mapping[str, str]) -> str:
    for name in PLACEHOLDERS:
        text = text.replace(f"{{{name}}}", meant[name])
    return text


def _newest_model(out: Path) -> _Made:
    """Return the model in `out` itself, or else the newest one in a folder within it."""
    made = [
        _Made(config.parent, config.name == _ADAPTER)
        for config in out.rglob("*.json")
        if config.name in {_ADAPTER, _CONFIG} and any(config.parent.glob("*.safetensors"))
    ]
    if not made:
        raise TrainingFailedError(
            f"the trainer ended well, but left no model under {out} (no config.json or adapter_config.json beside "
            "weights in safetensors)"
        )

    def rank(each: _Made) -> tuple[bool, bool, float]:
        written = max(file.stat().st_mtime for file in each.folder.glob("*.safetensors"))
        return each.folder == out, each.is_adapter, written

    return max(made, key=rank)


def _losses(out: Path) -> list[dict[str, Any]]:
    """Return the losses of a trainer that is built on transformers; none for others."""
    records = sorted(out.rglob(_STATE), key=lambda file: file.stat().st_mtime)
    try:
        history = json.loads(records[-1].read_text())["log_history"] if records else []
        return [{"update": each["step"], "loss": float(each["loss"])} for each in history if "loss" in each]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _take_over(made: _Made, folder: Path, parent: Path) -> None:
    for file in list(made.folder.iterdir()):
        if file.is_file() and file.suffix not in _OF_THE_TRAINER:
            shutil.move(file, folder / file.name)
    if made.is_adapter:
        # PEFT names the folder with the bounds, which is gone after the training.
        config = json.loads((folder / _ADAPTER).read_text())
        (folder / _ADAPTER).write_text(json.dumps(config | {"base_model_name_or_path": str(parent)}, indent=2) + "\n")
    else:
        copy_settings(parent, folder, keep=True)
