"""Runs a command that trains, and copies its model, log and losses."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from trajmill.schemas.errors import BadInputError, TrainingFailedError
from trajmill.stages.export.formats.bounds import (
    bounded_model,
    bounds_as_variables,
    check_stated_bounds,
    check_trained_bounds,
)
from trajmill.stages.training.base import ParentPolicy, TrainingReport
from trajmill.stages.training.child import LOG_FILE, ChildLimits, run_child
from trajmill.stages.training.command.spec import PLACEHOLDERS, CommandSpec
from trajmill.stages.training.lineage import (
    copy_settings,
    is_begun,
    made_from,
    tail_mean,
    version_of,
    write_metrics,
    write_source,
)

_ADAPTER, _CONFIG = "adapter_config.json", "config.json"
_OF_THE_TRAINER = frozenset({".pt", ".pth", ".bin"})
"""Suffixes of the states of optimisers and the like; weights in them are pickled, and never loaded."""
_STATE = "trainer_state.json"
"""The file with the losses, of trainers that are built on transformers."""


def train_by_command(spec: CommandSpec, parent: ParentPolicy, release: Path, seed: int, folder: Path) -> TrainingReport:
    """Run the command in the folder of the release; files of an interrupted one under `{out}` are kept for the next.

    Raises:
        BadInputError: `parent` is no model in Hugging Face's layout, or the command states other pixel bounds than the
            targets are written for.
        TrainingFailedError: the command failed, or wrote no model, one with a loss that is NaN, or one whose processor
            has other pixel bounds.
    """
    if not spec.trains(parent.folder):
        raise BadInputError(f"{parent.folder} holds no model in Hugging Face's layout, which a command could train")
    source = made_from(spec, parent, [release], seed)
    out = (folder / "out").resolve()
    if not is_begun(folder, source):
        shutil.rmtree(out, ignore_errors=True)
        write_source(folder, source)
    out.mkdir(exist_ok=True)
    budget, view = parent.family.budget, (folder / "model").resolve()
    if spec.format:
        check_stated_bounds(spec.command, spec.variables, release, budget)
    meant = {
        "release": str(release.resolve()),
        "model": str(bounded_model(parent.folder.resolve(), budget, view)),
        "adapter": "" if parent.adapter is None else str(parent.adapter.resolve()),
        "out": str(out),
        "seed": str(seed % 2**31),
    }
    run_child(
        [_filled(part, meant) for part in spec.command if parent.adapter is not None or "{adapter}" not in part],
        folder.resolve() / LOG_FILE,
        ChildLimits(spec.silent_minutes * 60, spec.hours * 3600),
        release,
        bounds_as_variables(budget) | {name: _filled(value, meant) for name, value in spec.variables.items()},
    )
    made = _found(out)
    if spec.format:
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


def _found(out: Path) -> _Made:
    """The newest model: in `out` itself, or else in a folder within it."""
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
    return max(made, key=lambda each: (each.folder == out, each.is_adapter, _written(each.folder)))


def _written(folder: Path) -> float:
    return max(file.stat().st_mtime for file in folder.glob("*.safetensors"))


def _losses(out: Path) -> list[dict[str, Any]]:
    """The losses of a trainer that is built on transformers; none for others."""
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
