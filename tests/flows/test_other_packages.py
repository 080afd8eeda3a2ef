"""Another package adds an environment, a family or a recipe: one object and one entry point, and no change here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trajmill.schemas.tables.policy_version import PolicyVersion
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
from trajmill.stages.environments.tasks import ImportedQueries, own_query
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
        seen = {"apps": ("lamp",), "pages": ("lamp",), "page_descriptions": ("",), "path": path}
        queries = [
            own_query(Platform.DESKTOP, f"lamp{n}", f"Light lamp {n}.", "{}", origin, "lamps", **seen)
            for n in range(self.tasks)
        ]
        return ImportedQueries(queries, [])
'''
FAMILY = """
from trajmill.schemas.coordinates import CoordinateSpace
from trajmill.schemas.dialects.families import FAMILIES

BRIGHT = FAMILIES["qwen2.5-vl"]._replace(name="bright-vl", space=CoordinateSpace.PER_MILLE, past_screens=2)
"""
RECIPE = '''
from typing import Literal

import torch
from pydantic import PositiveFloat

from trajmill.stages.models.embedded.model import is_embedded_policy, load_network, save_network
from trajmill.stages.training.spec import TrainingReport
from trajmill.stages.training.spec import RecipeSpec


class NudgeSpec(RecipeSpec):
    """Moves each weight by a random amount."""

    kind: Literal["nudge"] = "nudge"
    size: PositiveFloat = 1e-3

    def trains(self, folder):
        return is_embedded_policy(folder)

    def train(self, parent, release, seed, folder, progress=None):
        network = load_network(parent.folder)
        torch.manual_seed(seed)
        with torch.no_grad():
            for weights in network.parameters():
                weights += self.size * torch.randn_like(weights)
        return TrainingReport(1, 0, 1, 0.0, save_network(network, folder))
'''
ENTRY_POINTS = """
[trajmill.environments]
lamps = bright_lamps:LampsSpec
[trajmill.families]
bright-vl = bright_family:BRIGHT
dim-vl = bright_family:BRIGHT
gone-vl = bright_family:GONE
[trajmill.recipes]
nudge = bright_recipe:NudgeSpec
"""
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
    (packages / "bright_family.py").write_text(FAMILY)
    (packages / "bright_recipe.py").write_text(RECIPE)
    (information / "entry_points.txt").write_text(ENTRY_POINTS)
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


def test_replies_are_parsed_in_a_family_of_another_package(tmp_path: Path, installed: dict[str, str]) -> None:
    code = """
from trajmill import FAMILIES, family_named
from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.query import Platform
family = family_named("bright-vl")
reply = '<tool_call>{"name": "mobile_use", "arguments": {"action": "click", "coordinate": [500, 250]}}</tool_call>'
action = family.dialect(Platform.PHONE).parse(reply, family.frame(Size(1080, 2400))).action
print(family.past_screens, action.x, action.y, "bright-vl" in FAMILIES)
"""
    done = subprocess.run([sys.executable, "-c", code], env=installed, capture_output=True, text=True)
    assert done.stdout == "2 540 600 False\n", done.stderr


@pytest.mark.parametrize(
    ("family", "reason"),
    [
        ("brigth-vl", "no model family is named 'brigth-vl'; did you mean bright-vl?"),
        ("dim-vl", "trajmill.families: dim-vl = bright_family:BRIGHT is not a Family named 'dim-vl'"),
        ("gone-vl", "trajmill.families: gone-vl = bright_family:GONE cannot be loaded: module"),
    ],
)
def test_a_family_that_cannot_be_used_is_refused(
    tmp_path: Path, installed: dict[str, str], family: str, reason: str
) -> None:
    done = trajmill(tmp_path, installed, "export", "--format", "trl", "--family", family, "--out", "rows")
    assert done.returncode == 1
    assert reason in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_round_trains_with_a_recipe_of_another_package(tmp_path: Path, installed: dict[str, str]) -> None:
    (tmp_path / "trajmill.toml").write_text("""
[run]
root = "warehouse"
rounds = 1
[queries]
train = 8
heldout_slots = 2
heldout_phrasings = 2
heldout_apps = 0
validation = 2
[rollout]
episodes_per_round = 16
[evaluate]
episodes = 2
train_sample = 2
promote_without_evidence = true
[train]
kind = "nudge"
size = 0.002
""")
    code = """
from pathlib import Path
from tests.flows.small_run import run_stages
from trajmill.flows.configuration.file import load_config
run_stages(load_config(Path("trajmill.toml")))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=installed, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    untrained, trained = read_rows(open_warehouse(tmp_path / "warehouse"), PolicyVersion)
    assert trained.parent == untrained.model_version
    assert json.loads(trained.recipe)["kind"] == "nudge"
