"""Trains in a process of its own, `python -m trajmill.stages.training.hugging_face.launch JOB OUTCOME`."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from trajmill.schemas.errors import BadInputError, TrainingFailedError, TrajmillError
from trajmill.stages.training.child import LOG_FILE, run_child
from trajmill.stages.training.hugging_face.spec import FeedbackRecipe, HuggingFaceRecipe
from trajmill.stages.training.spec import ParentPolicy, Progress, TrainingReport

PROGRESS: Final = "trajmill update "
_LAUNCHER: Final = "accelerate.commands.launch"
_ALIKE: Final = ("--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no")
"""What the launcher would ask about if it had no configuration file."""
_FREE_PORT: Final = ("--main_process_port", "0")
"""Two trainings on one machine would have the same port."""


class TrainingJob(NamedTuple):
    recipe: HuggingFaceRecipe
    parent: ParentPolicy
    release: Path
    seed: int
    folder: Path
    variables: Mapping[str, str] = {}
    """Environment variables, from which models of servers read their keys; they are never written down."""

    def pickled(self) -> bytes:
        """Pickle the job for a process in another folder, without its variables."""
        folder, adapter = self.parent.folder.resolve(), self.parent.adapter and self.parent.adapter.resolve()
        parent = self.parent._replace(folder=folder, adapter=adapter)
        release, into = self.release.resolve(), self.folder.resolve()
        return pickle.dumps(self._replace(parent=parent, release=release, folder=into, variables={}))


def launch_training(job: TrainingJob, progress: Progress | None) -> TrainingReport:
    """Train in a separate process, or in several. Raises BadInputError also if this Python lacks a package."""
    recipe, folder = job.recipe, job.folder
    if not recipe.trains(job.parent.folder):
        raise BadInputError(f"{job.parent.folder} holds no model in Hugging Face's layout with weights in safetensors")
    needed = (*recipe.needs, "peft") if recipe.lora_rank else recipe.needs
    reporters = (((name,), name, "train.report_to") for name in recipe.report_to)
    for names, package, what in ((needed, "'trajmill[train]'", "this recipe"), *reporters):
        missing = [name for name in names if importlib.util.find_spec(name) is None]
        if missing and not recipe.python:
            raise BadInputError(
                f"{what} needs {' and '.join(missing)}: pip install {package}, or name a Python that has it with "
                "train.python"
            )
    launcher = _launcher(recipe)
    folder.mkdir(parents=True, exist_ok=True)
    job_file, outcome = folder.resolve() / "job.pickle", folder.resolve() / "outcome.json"
    job_file.write_bytes(job.pickled())
    outcome.unlink(missing_ok=True)
    module = "trajmill.stages.training.hugging_face.launch"
    command = [recipe.python or sys.executable, "-m", *launcher, module, str(job_file), str(outcome)]

    def on_line(line: str) -> None:
        if progress is not None and line.startswith(PROGRESS):
            done, updates = line.removeprefix(PROGRESS).split()
            progress(int(done), int(updates))

    try:
        run_child(command, folder.resolve() / LOG_FILE, folder, recipe.silent_minutes * 60, on_line=on_line)
        try:
            ended = json.loads(outcome.read_text())
        except (OSError, ValueError) as error:
            raise TrainingFailedError("the training ended without a report") from error
        if "error" in ended:
            raise (BadInputError if ended["bad_input"] else TrainingFailedError)(ended["error"])
        return TrainingReport(**ended["report"])
    finally:
        job_file.unlink(missing_ok=True)
        outcome.unlink(missing_ok=True)


def _launcher(recipe: HuggingFaceRecipe) -> list[str]:
    """The module that starts several processes, with its arguments; nothing for one. Raises BadInputError."""
    file, processes = recipe.accelerate, ["--num_processes", str(recipe.processes), "-m"]
    if file is None:
        return [_LAUNCHER, *_ALIKE, *_FREE_PORT, *processes] if recipe.processes > 1 else []
    if isinstance(recipe, FeedbackRecipe):
        raise BadInputError(f"train.accelerate is for models that are not sampled from; kind {recipe.kind!r} samples")
    if recipe.processes == 1:
        raise BadInputError(f"train.accelerate divides a model among processes: set train.processes for {file}")
    try:
        settings = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadInputError(f"{file} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(settings, dict) or "distributed_type" not in settings:
        raise BadInputError(f"{file} is no configuration of accelerate: it has no distributed_type")
    if settings["distributed_type"] == "DEEPSPEED" and importlib.util.find_spec("deepspeed") is None:
        raise BadInputError(f"{file} needs DeepSpeed: pip install deepspeed")
    port = () if "main_process_port" in settings or settings.get("num_machines", 1) != 1 else _FREE_PORT
    return [_LAUNCHER, "--config_file", str(file.resolve()), *port, *processes]


def train_in_this_process(job: TrainingJob, processes: int = 1, progress: Progress | None = None) -> TrainingReport:
    """Do a training in this process. A lack of memory raises TrainingFailedError with one line."""
    module, function = type(job.recipe).trainer.split(":")
    try:
        trained: TrainingReport = getattr(importlib.import_module(module), function)(job, processes, progress)
    except (MemoryError, RuntimeError) as error:
        # Torch's error of a full GPU is a RuntimeError.
        message = str(error).lower()
        if not (isinstance(error, MemoryError) or "out of memory" in message or "alloc" in message):
            raise
        raise TrainingFailedError(
            f"memory ran out with {job.recipe.rows_at_once} rows at once: lower train.rows_at_once, or set "
            "train.gradient_checkpointing or train.lora_rank"
        ) from error
    return trained


def _print_progress(done: int, updates: int) -> None:
    print(f"{PROGRESS}{done} {updates}", flush=True)


def _main(job_file: Path, outcome: Path) -> None:
    import torch
    from accelerate import PartialState

    state = PartialState(cpu=not torch.cuda.is_available())
    ended: dict[str, Any]
    try:
        job: TrainingJob = pickle.loads(job_file.read_bytes())._replace(variables=os.environ)
        trained = train_in_this_process(job, state.num_processes, _print_progress if state.is_main_process else None)
        ended = {"report": trained._asdict()}
    except TrajmillError as error:
        ended = {"error": str(error), "bad_input": isinstance(error, BadInputError)}
    if state.is_main_process:
        outcome.write_text(json.dumps(ended))


if __name__ == "__main__":
    _main(Path(sys.argv[1]), Path(sys.argv[2]))
