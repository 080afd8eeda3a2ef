"""Another package adds an environment, a family or a recipe: one object and one entry point, and no change here."""

import json
import os
import shutil
import sys
import tomllib
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
from trajmill.schemas.tables.verdict import Judgement
from trajmill.stages.models.local.folder import folder_version
from trajmill.warehouse.layout import open_warehouse
from trajmill.warehouse.read import read_rows

pytestmark = pytest.mark.slow

LAMPS = Path(__file__).parents[2] / "docs/examples/lamps"
FAMILY = """
from trajmill.schemas.coordinates import CoordinateSpace
from trajmill.schemas.dialects.families import FAMILIES

BRIGHT = FAMILIES["qwen2.5-vl"]._replace(name="bright-vl", space=CoordinateSpace.PER_MILLE, past_screens=2)
"""
FAMILIES_ADDED = """
[trajmill.families]
bright-vl = bright_family:BRIGHT
dim-vl = bright_family:BRIGHT
gone-vl = bright_family:GONE
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a configuration; this process and its children find the package as installed."""
    groups = tomllib.loads((LAMPS / "pyproject.toml").read_text())["project"]["entry-points"]
    lines = [f"[{group}]\n{name} = {part}\n" for group, parts in groups.items() for name, part in parts.items()]
    modules = {"bright_lamps": (LAMPS / "bright_lamps.py").read_text(), "bright_family": FAMILY}
    installed(tmp_path / "packages", monkeypatch, "".join([*lines, FAMILIES_ADDED]), **modules)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.chdir(tmp_path)
    shutil.copy(LAMPS / "trajmill.toml", tmp_path)
    return tmp_path


def test_a_round_runs_in_an_environment_with_an_agent_a_critic_and_a_recipe_of_another_package(
    folder: Path, command: CommandLine
) -> None:
    command.said("evolve")
    warehouse = open_warehouse(folder / "trajmill-data")
    rows = list(read_rows(warehouse, Trajectory))
    assert {(row.environment, row.agent, row.reward, row.steps) for row in rows} == {("lamps", "switcher", 1.0, 2)}
    assert {(row.correct, row.made_by) for row in read_rows(warehouse, Judgement)} == {(True, "graph-step-9+lit-1")}
    assert json.loads(read_rows(warehouse, PolicyVersion)[-1].recipe)["kind"] == "short"


def test_its_keys_are_checked_like_any_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: CommandLine
) -> None:
    (folder / "trajmill.toml").write_text('[environment]\nkind = "lamps"\ncolors = ["red"]\n')
    wrong = "trajmill.toml:3: unknown key environment.colors; did you mean environment.colours?\n"
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
    context = waiting_run.trained_by(Config.model_validate({"train": {"kind": "short", "max_updates": 6}}).train)
    assert first_waiting(context) is None
    first = folder_version(waiting_run.network)
    untrained, trained = read_rows(context.warehouse, PolicyVersion)
    assert (untrained.model_version, untrained.kind, untrained.folder) == (first, "network", str(waiting_run.network))
    recipe = json.loads(trained.recipe)
    assert (recipe["kind"], recipe["max_updates"]) == ("short", 6)
    assert (trained.parent, trained.release) == (first, release_name(context))
    assert trained.promoted and trained.kind == "network" and trained.metrics is not None
    assert trained.folder == f"models/{trained.model_version}"
    do(ROLLOUT, context.in_round(2))
    assert (acted(context), acted(context.in_round(2))) == ({first}, {trained.model_version})
