import json
import os
import subprocess
from collections.abc import Callable, Iterator
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
    exported: Exported
    rows: list[LoadedRow]
    told: dict[str, Any]
    """What else the script told, by its names."""


Load = Callable[..., list[Loaded]]
Processes = Callable[[str], "TrainerProcess"]


class TrainerProcess:
    def __init__(self, python: Path, folder: Path) -> None:
        self._log = folder / "log.txt"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [python, "-m", "tests.trainers.script_runner"],
                cwd=folder,
                env=os.environ
                | {"PYTHONPATH": str(REPOSITORY), "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "cache")}
                # Threads of OpenMP do not outlive a fork.
                | {"OMP_NUM_THREADS": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def ask(self, script: str, folder: Path, variables: dict[str, str] | None = None, **asked: object) -> Any:
        """Return what `main` of a script of this package tells, run in a folder; with variables, in a fork."""
        assert self._process.stdin is not None and self._process.stdout is not None
        line = [f"tests.trainers.{script}", str(folder), variables, asked]
        print(json.dumps(line), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline() or "{}")
        assert "told" in answer, self._log.read_text(errors="replace")[-5000:]
        return answer["told"]

    def close(self) -> None:
        self._process.communicate(timeout=200)


@pytest.fixture(scope="package")
def trainer_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    running: dict[str, TrainerProcess] = {}

    def process(trainer: str) -> TrainerProcess:
        if trainer not in running:
            running[trainer] = TrainerProcess(python_of(trainer), tmp_path_factory.mktemp(f"{trainer}-process"))
        return running[trainer]

    yield process
    for each in running.values():
        each.close()


@pytest.fixture(scope="package")
def load(tmp_path_factory: pytest.TempPathFactory, trainer_process: Processes) -> Load:
    def load(trainer: str, *formats: str) -> list[Loaded]:
        process, templates = trainer_process(trainer), packages_of("trl") / TEMPLATES
        folder = tmp_path_factory.mktemp(trainer)
        made = exports(folder, formats, templates)
        found = []
        for exported in made:
            [told] = process.ask(f"load_{trainer}", folder, exported.bounds, jobs=[exported.job._asdict()])
            found.append(_loaded(exported, told))
        return found

    return load


def _loaded(exported: Exported, told: list[Any] | dict[str, Any]) -> Loaded:
    rows = told["rows"] if isinstance(told, dict) else told
    return Loaded(exported, [LoadedRow(*row) for row in rows], told if isinstance(told, dict) else {})


def python_of(trainer: str) -> Path:
    if not (ENVIRONMENTS / trainer / "installed").exists():
        pytest.skip(f"the loader of {trainer} is not there: `make trainers-env` installs it")
    return ENVIRONMENTS / trainer / "bin" / "python"


def packages_of(trainer: str) -> Path:
    python_of(trainer)
    return next((ENVIRONMENTS / trainer).glob("lib/python*/site-packages"))
