"""Another package adds an environment: one spec and one entry point, and no change here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trajmill.schemas.tables.trajectory import Trajectory
from trajmill.warehouse.layout import open_warehouse
from trajmill.warehouse.read import read_rows

pytestmark = pytest.mark.slow

LAMPS = '''
import io
from typing import Literal

from PIL import Image
from pydantic import PositiveInt

from trajmill.schemas.actions import Click
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.observation import Observation, ScreenHandle, UIElement
from trajmill.schemas.tables.query import PathStep, Platform, Split
from trajmill.stages.environments.imported import ImportedQueries, ImportedTask
from trajmill.stages.environments.spec import EnvironmentSpec


class Lamps:
    platform, name = Platform.DESKTOP, "lamps"

    def __init__(self, bright):
        self.bright, self.on = bright, False

    async def reset(self, query, seed):
        self.on = False
        return self.look()

    async def step(self, action):
        self.on = self.on or isinstance(action, Click)
        return self.look()

    async def score(self):
        return float(self.on)

    async def close(self):
        pass

    def look(self):
        picture = io.BytesIO()
        Image.new("RGB", (64, 64), (self.bright,) * 3 if self.on else (0, 0, 0)).save(picture, "PNG")
        switch = UIElement("button", "Switch", Box(0, 0, 20, 20), ("clickable",), element_id="lamp/switch")
        return Observation(ScreenHandle(f"{self.on}{self.bright}", Size(64, 64), picture.getvalue), (switch,), "lamp")


class LampsFactory:
    def __init__(self, bright):
        self.bright = bright

    async def __call__(self):
        return Lamps(self.bright)

    async def close(self):
        pass


class LampsSpec(EnvironmentSpec):
    """Lamps with a switch."""

    kind: Literal["lamps"] = "lamps"
    bright: PositiveInt = 100
    tasks: PositiveInt = 1

    def factory(self, platform):
        return LampsFactory(self.bright)

    async def own_queries(self, seed, origin):
        path = (
            PathStep(page="lamp", operation="tap", target="lamp/switch"),
            PathStep(page="lamp", operation="finish", target=""),
        )
        at = ("lamp",)
        tasks = (
            ImportedTask(Platform.DESKTOP, f"lamp{n}", f"Light lamp {n}.", "{}", at, at, "", "lamps", path=path)
            for n in range(self.tasks)
        )
        return ImportedQueries([task.query(Split.TRAIN, origin, "lamps") for task in tasks], [])
'''
CONFIG = """
[run]
root = "warehouse"
[environment]
kind = "lamps"
bright = 200
tasks = 2
"""


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """The variables of a process that finds the package, as an installer leaves it."""
    packages = tmp_path / "packages"
    information = packages / "bright_lamps-1.0.dist-info"
    information.mkdir(parents=True)
    (packages / "bright_lamps.py").write_text(LAMPS)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: bright-lamps\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[trajmill.environments]\nlamps = bright_lamps:LampsSpec\n")
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(packages), *sys.path])}


def trajmill(folder: Path, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from trajmill.flows.cli.app import main; main()", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_episodes_happen_in_an_environment_of_another_package(tmp_path: Path, installed: dict[str, str]) -> None:
    (tmp_path / "trajmill.toml").write_text(CONFIG)
    done = trajmill(tmp_path, installed, "walk")
    assert done.returncode == 0, done.stderr
    rows = list(read_rows(open_warehouse(tmp_path / "warehouse"), Trajectory))
    assert [(row.environment, row.reward, row.steps) for row in rows] == [("lamps", 1.0, 2)] * 2


def test_its_keys_are_checked_like_any_others(tmp_path: Path, installed: dict[str, str]) -> None:
    (tmp_path / "trajmill.toml").write_text(CONFIG.replace("bright = 200", "brigth = 200"))
    done = trajmill(tmp_path, installed, "config")
    assert done.returncode == 1
    assert done.stderr.endswith("trajmill.toml:6: unknown key environment.brigth; did you mean environment.bright?\n")
    without = {**installed, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert "there is no environment of kind 'lamps'" in trajmill(tmp_path, without, "config").stderr
