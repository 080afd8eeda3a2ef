"""The TOML blocks of README.md and docs/*.md are configurations that load, or entry points of a package."""

import re
import tomllib
from contextlib import nullcontext
from pathlib import Path

import pytest

from trajmill.flows.configuration.file import load_config
from trajmill.pipelines.executors.beam import runner_mistake
from trajmill.pipelines.fan_out import BeamSettings
from trajmill.schemas.errors import BadInputError

ROOT = Path(__file__).parents[3]
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    for number, block in enumerate(re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
]
GROUPS = {
    group
    for file in (ROOT / "trajmill").rglob("*.py")
    for group in re.findall(r'"(trajmill\.[a-z_]+)"', file.read_text(encoding="utf-8"))
}
"""The entry point groups of other packages' parts, and what else looks like one."""


def test_the_pages_have_blocks() -> None:
    assert len(BLOCKS) > 5


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_loads(block: str, tmp_path: Path) -> None:
    tables = tomllib.loads(block)
    if "project" in tables:
        assert set(tables["project"]["entry-points"]) <= GROUPS
        return
    (tmp_path / "trajmill.toml").write_text(block, encoding="utf-8")
    for name in re.findall(r'"([\w./]+\.(?:yaml|jsonl|md|txt))"', block):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("", encoding="utf-8")
    for name in re.findall(r'^(?:knowledge|tasks) = "(\w+)"', block, re.MULTILINE):
        (tmp_path / name).mkdir()
    mistake = runner_mistake(tables.get("beam", {}).get("runner", BeamSettings().runner))
    # An engine that the tests do not install is told by this line alone.
    line = rf"\A\S+ beam\.runner: {re.escape(mistake or '')}\Z"
    with nullcontext() if mistake is None else pytest.raises(BadInputError, match=line):
        load_config(tmp_path / "trajmill.toml")
