from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from trajmill.flows.cli.app import run
from trajmill.flows.configuration.config import Config
from trajmill.schemas.tables.example import Example
from trajmill.stages.export.exporter import SFT_FILE, SftExporter
from trajmill.stages.export.release import check_release, released_rows
from trajmill.warehouse.layout import Warehouse, open_warehouse
from trajmill.warehouse.read import read_rows
from trajmill.warehouse.releases import newest_release, read_release, release_names, verify_release

pytestmark = pytest.mark.slow


@pytest.fixture
def released(derived_run: Config) -> tuple[Warehouse, str]:
    warehouse = open_warehouse(derived_run.run.root)
    return warehouse, newest_release(warehouse)


@pytest.mark.slow
def test_a_release_holds_each_kind_in_files_of_its_own(released: tuple[Warehouse, str]) -> None:
    warehouse, name = released
    before = release_names(warehouse)[-2]
    assert read_release(warehouse, name).previous == before
    verify_release(warehouse, name)
    folder = warehouse.release(name)
    ids = ["example_id"]
    earlier = released_rows(warehouse.release(before), SFT_FILE, ids)
    assert released_rows(folder, SFT_FILE, ids) == earlier, "what the policy is trained on does not change"
    stored = read_rows(warehouse, Example)
    for kind in ("step", "grounding", "planning"):
        rows = released_rows(
            folder / kind, SftExporter(derived_kind=kind).file, ["example_id", "kind", "variant"]
        ).to_pylist()
        of_kind = {row.example_id: row for row in stored if row.kind == kind}
        assert {row["example_id"] for row in rows} <= of_kind.keys()
        assert all(row["variant"] == of_kind[row["example_id"]].variant for row in rows)
    shards = {path.parent.parent for path in warehouse.shards(stored[0].run_id).glob("*/trl/grounding.parquet")}
    for shard in shards:
        assert check_release(shard, [SftExporter(derived_kind="grounding")], {}).problems == ()


@pytest.mark.slow
def test_the_card_has_a_configuration_for_each_kind_and_says_who_wrote_it(released: tuple[Warehouse, str]) -> None:
    warehouse, name = released
    card = (warehouse.release(name) / "README.md").read_text(encoding="utf-8")
    head = yaml.safe_load(card.split("---")[1])
    names = [config["config_name"] for config in head["configs"]]
    assert names[0] == "sft" and {"step", "grounding"} < set(names)
    assert "| grounding | functional | template |" in card
    assert "| filled into templates |" in card


@pytest.mark.slow
@pytest.mark.parametrize("form", ["trl", "grpo", "llamafactory"])
def test_a_kind_is_exported_for_a_trainer(released: tuple[Warehouse, str], form: str, tmp_path: Path) -> None:
    warehouse, name = released
    arguments = ["export", "--root", str(warehouse.root), "--release", name, "--family", "qwen3-vl", "--format", form]
    for kind in ("step", "grounding", *(() if form == "grpo" else ("planning",))):
        assert run([*arguments, "--kind", kind, "--out", str(tmp_path / kind)]) == 0
    if form == "trl":
        rows = pq.read_table(tmp_path / "grounding" / "data").to_pylist()
        assert all(max(map(int, _coordinates(row))) <= 1000 for row in rows)


def _coordinates(row: dict[str, list[dict[str, list[dict[str, str]]]]]) -> list[str]:
    said = "".join(block["text"] or "" for block in row["completion"][0]["content"])
    return said.split('"coordinate": [')[1].split("]")[0].split(",")


def test_a_kind_that_the_release_lacks_is_one_line(
    copied: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["export", "--root", str(copied.run.root), "--family", "qwen3-vl", "--format", "trl"]
    assert run([*arguments, "--kind", "grounding", "--out", str(tmp_path / "out")]) == 1
    assert "has no kind 'grounding'; it has: none" in capsys.readouterr().err
