"""Starts the process of a training, and reads its report."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from trajmill.schemas.dialects.families import family_named
from trajmill.schemas.errors import BadInputError, TrainingFailedError
from trajmill.stages.models.spec import MODELS, ModelSpec
from trajmill.stages.training.child import LOG_FILE, ChildLimits, run_child
from trajmill.stages.training.hugging_face.spec import HuggingFaceRecipe
from trajmill.stages.training.lineage import kind_of
from trajmill.stages.training.spec import RECIPES, ParentPolicy, Progress, TrainingReport

PROGRESS: Final = "trajmill update "
"""Start of a line in which a process reports its progress: updates done and to do."""


class TrainingJob(NamedTuple):
    """The arguments of `RecipeSpec.train`."""

    recipe: HuggingFaceRecipe
    parent: ParentPolicy
    release: Path
    seed: int
    folder: Path
    variables: Mapping[str, str] = MappingProxyType({})
    """Environment variables, from which models of servers read their keys; they are never written down."""

    def to_json(self) -> str:
        parent = self.parent
        return json.dumps(
            {
                "kind": kind_of(self.recipe),
                "recipe": self.recipe.model_dump(mode="json"),
                "model": str(parent.folder.resolve()),
                "adapter": None if parent.adapter is None else str(parent.adapter.resolve()),
                "family": parent.family.name,
                "max_pixels": parent.family.budget.max_pixels,
                "release": str(self.release.resolve()),
                "seed": self.seed,
                "frozen": {
                    role: {**model.model_dump(mode="json"), "kind": model.kind} for role, model in parent.frozen.items()
                },
                "folder": str(self.folder.resolve()),
            },
            indent=1,
        )

    @classmethod
    def from_json(cls, text: str) -> TrainingJob:
        read = json.loads(text)
        recipe = RECIPES.spec_class(read["kind"]).model_validate(read["recipe"])
        assert isinstance(recipe, HuggingFaceRecipe)
        adapter = None if read["adapter"] is None else Path(read["adapter"])
        family = family_named(read["family"]).within(read["max_pixels"])
        frozen = {role: MODELS.default_spec(spec["kind"], ModelSpec, spec) for role, spec in read["frozen"].items()}
        parent = ParentPolicy(Path(read["model"]), adapter, family, frozen)
        return cls(recipe, parent, Path(read["release"]), read["seed"], Path(read["folder"]))


_WORKER, _LAUNCHER = "trajmill.stages.training.hugging_face.worker", "accelerate.commands.launch"
_LAUNCHER_SETTINGS = ("--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no")


def launch_training(job: TrainingJob, progress: Progress | None) -> TrainingReport:
    """Train in a separate process, or in several. Raises BadInputError also if this Python lacks a package."""
    recipe, folder = job.recipe, job.folder
    if not recipe.trains(job.parent.folder):
        raise BadInputError(f"{job.parent.folder} holds no model in Hugging Face's layout with weights in safetensors")
    needed = (*recipe.needs, "peft") if recipe.lora_rank else recipe.needs
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing and not recipe.python:
        raise BadInputError(
            f"this recipe needs {' and '.join(missing)}: pip install 'trajmill[train]', or name a Python that has it "
            "with train.python"
        )
    folder.mkdir(parents=True, exist_ok=True)
    job_file, outcome = folder / "job.json", folder / "outcome.json"
    job_file.write_text(job.to_json())
    outcome.unlink(missing_ok=True)
    command = [recipe.python or sys.executable, "-m"]
    if recipe.processes > 1:
        command += [_LAUNCHER, "--num_processes", str(recipe.processes), *_LAUNCHER_SETTINGS, "-m"]
    command += [_WORKER, str(job_file.resolve()), str(outcome.resolve())]

    def on_line(line: str) -> None:
        if progress is not None and line.startswith(PROGRESS):
            done, updates = line.removeprefix(PROGRESS).split()
            progress(int(done), int(updates))

    try:
        limits = ChildLimits(recipe.silent_minutes * 60)
        run_child(command, folder.resolve() / LOG_FILE, limits, folder, on_line=on_line)
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
