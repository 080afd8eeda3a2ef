"""Starts the process of a training, and reads its report."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path

from trajmill.schemas.errors import BadInputError, TrainingFailedError
from trajmill.stages.training.base import ParentPolicy, Progress, TrainingReport
from trajmill.stages.training.child import LOG_FILE, ChildLimits, run_child
from trajmill.stages.training.hugging_face.job import PROGRESS, TrainingJob
from trajmill.stages.training.hugging_face.spec import HuggingFaceRecipe

_WORKER = "trajmill.stages.training.hugging_face.worker"


def launch_training(
    recipe: HuggingFaceRecipe, parent: ParentPolicy, release: Path, seed: int, folder: Path, progress: Progress | None
) -> TrainingReport:
    """Train in a separate process, or in several.

    Raises:
        BadInputError: the model, the rows or the packages of this Python cannot be used.
        TrainingFailedError: the training made no policy.
    """
    if not recipe.trains(parent.folder):
        raise BadInputError(f"{parent.folder} holds no model in Hugging Face's layout with weights in safetensors")
    if not recipe.python:
        _check_packages(recipe)
    folder.mkdir(parents=True, exist_ok=True)
    job, outcome = folder / "job.json", folder / "outcome.json"
    job.write_text(TrainingJob(recipe, parent, release, seed, folder).to_json())
    outcome.unlink(missing_ok=True)
    command = [*_python(recipe), "-m", _WORKER, str(job.resolve()), str(outcome.resolve())]
    limits = ChildLimits(recipe.silent_minutes * 60)
    try:
        run_child(command, folder.resolve() / LOG_FILE, limits, folder, on_line=_reading(progress))
        return _report(outcome)
    finally:
        job.unlink(missing_ok=True)
        outcome.unlink(missing_ok=True)


def _check_packages(recipe: HuggingFaceRecipe) -> None:
    needed = (*recipe.needs, "peft") if recipe.lora_rank else recipe.needs
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise BadInputError(
            f"this recipe needs {' and '.join(missing)}: pip install 'trajmill[train]', or name a Python that has it "
            "with train.python"
        )


def _python(recipe: HuggingFaceRecipe) -> list[str]:
    python = recipe.python or sys.executable
    if recipe.processes == 1:
        return [python]
    settings = ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
    launcher = "accelerate.commands.launch"
    return [python, "-m", launcher, "--num_processes", str(recipe.processes), *settings]


def _report(outcome: Path) -> TrainingReport:
    try:
        told = json.loads(outcome.read_text())
    except (OSError, ValueError) as error:
        raise TrainingFailedError("the training ended without a report") from error
    if "error" in told:
        raise (BadInputError if told["bad_input"] else TrainingFailedError)(told["error"])
    return TrainingReport(**told["report"])


def _reading(progress: Progress | None) -> Callable[[str], None]:
    def read(line: str) -> None:
        if progress is not None and line.startswith(PROGRESS):
            done, updates = line.removeprefix(PROGRESS).split()
            progress(int(done), int(updates))

    return read
