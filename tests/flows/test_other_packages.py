"""Another package adds an environment, a family or a recipe: one object and one entry point, and no change here."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.flows.command_line import CommandLine
from tests.flows.policies.network import WaitingRun
from tests.flows.policies.test_addition import acted
from tests.flows.runs import do, first_waiting
from tests.other_package import installed
from trajmill.flows.configuration.config import Config
from trajmill.flows.tasks.release import release_name
from trajmill.flows.tasks.rollout import ROLLOUT
from trajmill.schemas.actions import Click
from trajmill.schemas.dialects.base import Reply
from trajmill.schemas.dialects.families import FAMILIES, family_named
from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.policy_version import PolicyVersion
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.trajectory import Trajectory
from trajmill.stages.models.local.folder import folder_version
from trajmill.warehouse.layout import open_warehouse
from trajmill.warehouse.read import read_rows

pytestmark = pytest.mark.slow

LAMPS = '''
from typing import Literal

from pydantic import PositiveInt

from tests.stages.rollout.toy import ToyEnvironment, ToyFactory
from trajmill.schemas.tables.query import PathStep, Platform
from trajmill.stages.environments.spec import EnvironmentSpec
from trajmill.stages.environments.tasks import ImportedQueries, own_query


class LampsSpec(EnvironmentSpec):
    """Lamps with a switch."""

    kind: Literal["lamps"] = "lamps"
    tasks: PositiveInt = 1

    def factory(self, platform):
        return ToyFactory([ToyEnvironment(platform=Platform.DESKTOP, name="lamps") for _ in range(100)])

    async def own_queries(self, seed, origin):
        steps = [PathStep(page="lamp", operation=name, target="go") for name in ("tap", "finish")]
        tasks = [f"lamp{number}" for number in range(self.tasks)]
        given = "{}", origin, "lamps"
        queries = [own_query(Platform.DESKTOP, task, f"Light {task}.", *given, path=tuple(steps)) for task in tasks]
        return ImportedQueries(queries, [])
'''
FAMILY = """
from trajmill.schemas.coordinates import CoordinateSpace
from trajmill.schemas.dialects.families import FAMILIES

BRIGHT = FAMILIES["qwen2.5-vl"]._replace(name="bright-vl", space=CoordinateSpace.PER_MILLE, past_screens=2)
"""
RECIPE = '''
from typing import Literal

from pydantic import PositiveInt

from trajmill.stages.training.embedded.spec import EmbeddedSftSpec


class FewSpec(EmbeddedSftSpec):
    """Makes a few updates."""

    kind: Literal["few"] = "few"
    min_updates: PositiveInt = 2
    max_updates: PositiveInt = 2
'''
ENTRY_POINTS = """
[trajmill.environments]
lamps = bright_lamps:LampsSpec
[trajmill.families]
bright-vl = bright_family:BRIGHT
dim-vl = bright_family:BRIGHT
gone-vl = bright_family:GONE
[trajmill.recipes]
few = bright_recipe:FewSpec
"""
CONFIG = """
[run]
root = "warehouse"
[environment]
kind = "lamps"
tasks = 2
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a configuration; this process and its children find the package as installed."""
    modules = {"bright_lamps": LAMPS, "bright_family": FAMILY, "bright_recipe": RECIPE}
    installed(tmp_path / "packages", monkeypatch, ENTRY_POINTS, **modules)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trajmill.toml").write_text(CONFIG)
    return tmp_path


def test_episodes_happen_in_an_environment_of_another_package(folder: Path, command: CommandLine) -> None:
    command.said("walk")
    rows = list(read_rows(open_warehouse(folder / "warehouse"), Trajectory))
    assert [(row.environment, row.reward, row.steps) for row in rows] == [("lamps", 1.0, 2)] * 2


def test_its_keys_are_checked_like_any_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: CommandLine
) -> None:
    (folder / "trajmill.toml").write_text(CONFIG.replace("tasks", "taskz"))
    wrong = "trajmill.toml:6: unknown key environment.taskz; did you mean environment.tasks?\n"
    assert command.refused("config") == wrong
    monkeypatch.delitem(sys.modules, "bright_lamps")
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each != str(folder / "packages")])
    assert "there is no environment of kind 'lamps'" in command.refused("config")


def test_replies_are_parsed_in_a_family_of_another_package() -> None:
    family = family_named("bright-vl")
    reply = '<tool_call>{"name": "mobile_use", "arguments": {"action": "click", "coordinate": [500, 250]}}</tool_call>'
    parsed = family.dialect(Platform.PHONE).parse(reply, family.frame(Size(1080, 2400)))
    assert isinstance(parsed, Reply) and parsed.action == Click(x=540, y=600)
    assert family.past_screens == 2 and "bright-vl" not in FAMILIES


@pytest.mark.parametrize(
    ("family", "reason"),
    [
        ("brigth-vl", "no model family is named 'brigth-vl'; did you mean bright-vl?"),
        ("dim-vl", "trajmill.families: dim-vl = bright_family:BRIGHT is not a Family named 'dim-vl'"),
        ("gone-vl", "trajmill.families: gone-vl = bright_family:GONE cannot be loaded: module"),
    ],
)
def test_a_family_that_cannot_be_used_is_refused(family: str, reason: str, command: CommandLine) -> None:
    assert reason in command.refused("export", "--format", "trl", "--family", family, "--out", "rows")


def test_a_recipe_of_another_package_trains_a_model_in_this_process_which_acts_in_the_next_round(
    waiting_run: WaitingRun,
) -> None:
    context = waiting_run.trained_by(Config.model_validate({"train": {"kind": "few", "max_updates": 3}}).train)
    assert first_waiting(context) is None
    first = folder_version(waiting_run.network)
    untrained, trained = read_rows(context.warehouse, PolicyVersion)
    assert (untrained.model_version, untrained.kind, untrained.folder) == (first, "network", str(waiting_run.network))
    recipe = json.loads(trained.recipe)
    assert (recipe["kind"], recipe["max_updates"]) == ("few", 3)
    assert (trained.parent, trained.release) == (first, release_name(context))
    assert trained.promoted and trained.kind == "network" and trained.metrics is not None
    assert trained.folder == f"models/{trained.model_version}"
    do(ROLLOUT, context.in_round(2))
    assert (acted(context), acted(context.in_round(2))) == ({first}, {trained.model_version})
