"""Trains with the user's own command, and takes over its model, log and losses."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import yaml
from pydantic import AfterValidator, Field, PositiveFloat

from trajmill.schemas.coordinates import PixelBudget
from trajmill.schemas.errors import BadInputError, TrainingFailedError
from trajmill.schemas.names import instead_of, known_by
from trajmill.schemas.spec import OPERATIONAL
from trajmill.stages.export.formats.base import TrainerFormat, format_spec
from trajmill.stages.export.formats.trainers import SETTINGS_FILE
from trajmill.stages.training.admission import ADAPTER_CONFIG
from trajmill.stages.training.child import LOG_FILE, run_child
from trajmill.stages.training.lineage import begin, copy_settings, made_from, tail_mean, version_of, write_metrics
from trajmill.stages.training.spec import ParentPolicy, Progress, RecipeSpec, TrainingReport

PLACEHOLDERS: Final = ("release", "model", "adapter", "out", "seed")
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_CONFIG = "config.json"
_OF_THE_TRAINER = frozenset({".pt", ".pth", ".bin"})
"""Suffixes of the states of optimisers and the like; weights in them are pickled, and never loaded."""
_STATE = "trainer_state.json"


def _known_placeholders(command: tuple[str, ...]) -> tuple[str, ...]:
    for name in (name for part in command for name in _PLACEHOLDER.findall(part)):
        if name not in PLACEHOLDERS:
            raise ValueError(f"unknown placeholder {{{name}}}; {instead_of(name, PLACEHOLDERS)}")
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
    format: Annotated[str, known_by(lambda name: format_spec(name) if name else None)] = ""
    """The format of `trajmill export` for `{release}`, in the dialect of the policy's family; empty for the
    release itself, whose rows lie in the shards of the warehouse that its card names."""
    variables: Annotated[dict[str, str], OPERATIONAL] = {}
    """Environment variables, with the same placeholders."""
    hours: Annotated[PositiveFloat, OPERATIONAL] = 24.0
    """Time limit of the command."""
    silent_minutes: Annotated[PositiveFloat, OPERATIONAL] = 60.0
    """Longest time without output; then the command counts as hung and is ended."""

    @property
    def takes(self) -> TrainerFormat | None:
        return format_spec(self.format) if self.format else None

    def trains(self, folder: Path) -> bool:
        from trajmill.stages.models.embedded.model import is_embedded_policy

        return (folder / _CONFIG).is_file() and not is_embedded_policy(folder)

    def train(
        self, parent: ParentPolicy, release: Path, seed: int, folder: Path, progress: Progress | None = None
    ) -> TrainingReport:
        """Run the command in the folder of the release; files of an interrupted one under `{out}` are kept."""
        if not self.trains(parent.folder):
            raise BadInputError(f"{parent.folder} holds no model in Hugging Face's layout, which a command could train")
        source = made_from(self, parent, [release], seed)
        out, view = (folder / "out").resolve(), (folder / "model").resolve()
        begin(folder, source, left=out)
        out.mkdir(exist_ok=True)
        budget = parent.family.budget
        if self.format:
            _check_stated_bounds(self.command, self.variables, release, budget)
        meant = {
            "release": str(release.resolve()),
            "model": str(bounded_model(parent.folder.resolve(), budget, view)),
            "adapter": "" if parent.adapter is None else str(parent.adapter.resolve()),
            "out": str(out),
            "seed": str(seed % 2**31),
        }

        def filled(text: str) -> str:
            return _PLACEHOLDER.sub(lambda found: meant.get(found[1], found[0]), text)

        # By these, ms-swift bounds pictures.
        bounds = {"MIN_PIXELS": str(budget.min_pixels), "MAX_PIXELS": str(budget.max_pixels)}
        run_child(
            [filled(part) for part in self.command if parent.adapter is not None or "{adapter}" not in part],
            folder.resolve() / LOG_FILE,
            release,
            self.silent_minutes * 60,
            self.hours * 3600,
            bounds | {name: filled(value) for name, value in self.variables.items()},
        )
        made = _newest_model(out)
        if self.format:
            _check_trained_bounds(made, budget)
        losses = _losses(out)
        if losses and not math.isfinite(losses[-1]["loss"]):
            raise TrainingFailedError(f"the trainer ended well, but its last loss is {losses[-1]['loss']}")
        _take_over(made, folder, parent.folder)
        shutil.rmtree(out)
        shutil.rmtree(view, ignore_errors=True)
        report = TrainingReport(0, 0, len(losses), tail_mean([each["loss"] for each in losses]), version_of(source))
        write_metrics(folder, report, losses)
        return report


def _newest_model(out: Path) -> Path:
    """Return the folder of the model or adapter in `out` itself, or else of the newest one within it."""
    made = {
        config.parent
        for config in out.rglob("*.json")
        if config.name in {ADAPTER_CONFIG, _CONFIG} and any(config.parent.glob("*.safetensors"))
    }
    if not made:
        raise TrainingFailedError(
            f"the trainer ended well, but left no model under {out} (no config.json or adapter_config.json beside "
            "weights in safetensors)"
        )

    def rank(folder: Path) -> tuple[bool, bool, float]:
        written = max(file.stat().st_mtime for file in folder.glob("*.safetensors"))
        return folder == out, (folder / ADAPTER_CONFIG).is_file(), written

    return max(made, key=rank)


def _losses(out: Path) -> list[dict[str, Any]]:
    """Return the losses of a trainer that is built on transformers; none for others."""
    records = sorted(out.rglob(_STATE), key=lambda file: file.stat().st_mtime)
    try:
        history = json.loads(records[-1].read_text())["log_history"] if records else []
        return [{"update": each["step"], "loss": float(each["loss"])} for each in history if "loss" in each]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _take_over(made: Path, folder: Path, parent: Path) -> None:
    for file in list(made.iterdir()):
        if file.is_file() and file.suffix not in _OF_THE_TRAINER:
            shutil.move(file, folder / file.name)
    adapter = folder / ADAPTER_CONFIG
    if adapter.is_file():
        # PEFT names the folder with the bounds, which is gone after the training.
        config = json.loads(adapter.read_text()) | {"base_model_name_or_path": str(parent)}
        adapter.write_text(json.dumps(config, indent=2) + "\n")
    else:
        copy_settings(parent, folder, keep=True)


_PREPROCESSOR, _PROCESSOR = "preprocessor_config.json", "processor_config.json"
"""Where image settings are: at the top, or below `image_processor` (transformers 5)."""
_STATED: Final = re.compile(r"(?:.*[.\-+])?((?:image_)?(?:min|max)_pixels)", re.IGNORECASE)


def bounded_model(model: Path, budget: PixelBudget, folder: Path) -> Path:
    """Link a model into `folder`, with the bounds of a budget; returns `model` if it has no image processor."""
    settings = [name for name in (_PREPROCESSOR, _PROCESSOR) if _image_settings(model / name) is not None]
    if budget.factor == 1 or not settings:
        return model
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in model.iterdir():
        if file.name not in settings:
            (folder / file.name).symlink_to(file.resolve())
    for name in settings:
        whole = json.loads((model / name).read_text())
        images = whole if name == _PREPROCESSOR else whole["image_processor"]
        images |= {
            "size": {"shortest_edge": budget.min_pixels, "longest_edge": budget.max_pixels},
            "min_pixels": budget.min_pixels,
            "max_pixels": budget.max_pixels,
        }
        (folder / name).write_text(json.dumps(whole, indent=2) + "\n")
    return folder


def _check_stated_bounds(
    command: Sequence[str], variables: Mapping[str, str], release: Path, budget: PixelBudget
) -> None:
    """Raise BadInputError for a command that states other bounds than those that the targets are written for."""
    settings = release / SETTINGS_FILE
    exported = yaml.safe_load(settings.read_text()) if settings.is_file() else {}
    wanted = {"min_pixels": budget.min_pixels, "max_pixels": budget.max_pixels, **exported}
    # Options are `--name value`, `--name=value` or `name=value`.
    pairs = zip(command, [*command[1:], ""], strict=True)
    options = (
        (name, value if found else after) for part, after in pairs for name, found, value in [part.partition("=")]
    )
    for name, value in (*options, *variables.items()):
        stated = _STATED.fullmatch(name)
        key = stated[1].lower() if stated else ""
        if key in wanted and value.isdigit() and int(value) != wanted[key]:
            raise BadInputError(
                f"train.command: {name} is {value}, but the targets are written for pictures of {wanted[key]}: "
                "remove it, or change max_pixels of the endpoint"
            )


def _check_trained_bounds(model: Path, budget: PixelBudget) -> None:
    """Raise TrainingFailedError for a model whose trainer saved a processor with another upper bound."""
    for name in (_PREPROCESSOR, _PROCESSOR):
        images = _image_settings(model / name) or {}
        most = images.get("max_pixels") or (images.get("size") or {}).get("longest_edge")
        if isinstance(most, int) and most != budget.max_pixels:
            raise TrainingFailedError(
                f"the trainer's {name} takes pictures of up to {most} pixels, but the targets are written for "
                f"{budget.max_pixels}: name {{model}} in train.command, whose processor has these bounds"
            )


def _image_settings(file: Path) -> dict[str, Any] | None:
    try:
        whole = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    images = whole if file.name == _PREPROCESSOR else whole.get("image_processor")
    return images if isinstance(images, dict) else None
