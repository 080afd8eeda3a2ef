from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.trainers.exports import Exported, exports
from tests.trainers.loaded import LoadedRow

REPOSITORY = Path(__file__).parents[2]
ENVIRONMENTS = REPOSITORY / ".venv-trainers"
# The templates of Qwen's models as published, which come with TRL.
TEMPLATES = Path("trl", "chat_templates")


class Loaded(NamedTuple):
    """An exported folder, and what its trainer made of it."""

    exported: Exported
    rows: list[LoadedRow]
    told: dict[str, Any]
    """What else the script told, by its names."""


Load = Callable[..., list[Loaded]]


@pytest.fixture(scope="session")
def load(tmp_path_factory: pytest.TempPathFactory) -> Load:
    """Exports walks in some formats, and has a trainer load all of them in one process."""

    def load(trainer: str, *formats: str) -> list[Loaded]:
        python, templates = python_of(trainer), _packages("trl") / TEMPLATES
        folder = tmp_path_factory.mktemp(trainer)
        made = exports(folder, formats, templates)
        jobs, answers = folder / "jobs.json", folder / "answers.json"
        jobs.write_text(json.dumps([exported.job._asdict() for exported in made]))
        done = subprocess.run(
            [python, "-m", f"tests.trainers.load_{trainer}", jobs, answers],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(REPOSITORY), "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "cache")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-5000:]
        told = json.loads(answers.read_text())
        return [_loaded(exported, each) for exported, each in zip(made, told, strict=True)]

    return load


def _loaded(exported: Exported, told: list[Any] | dict[str, Any]) -> Loaded:
    rows = told["rows"] if isinstance(told, dict) else told
    return Loaded(exported, [LoadedRow(*row) for row in rows], told if isinstance(told, dict) else {})


def python_of(trainer: str) -> Path:
    """The Python of a trainer's environment; the test is skipped where there is none."""
    if not (ENVIRONMENTS / trainer / "installed").exists():
        pytest.skip(f"the loader of {trainer} is not there: `make trainers-env` installs it")
    return ENVIRONMENTS / trainer / "bin" / "python"


def _packages(trainer: str) -> Path:
    python_of(trainer)
    return next((ENVIRONMENTS / trainer).glob("lib/python*/site-packages"))
