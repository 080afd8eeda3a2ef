"""What is wrong has a line with what mends it."""

import shutil
import tomllib
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.http_server import saying
from tests.warehouse.samples import stage_run
from trajmill.flows.configuration.config import Config
from trajmill.flows.doctor import Finding, check_consistency, check_installation, check_surroundings, examine
from trajmill.flows.nights.log import remember_server
from trajmill.warehouse.layout import Warehouse, create_warehouse, open_warehouse


def wrong(findings: list[Finding]) -> list[str]:
    return [finding.what for finding in findings if finding.mend]


def test_the_default_configuration_has_nothing_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(total=1000, used=10, free=990))
    findings = list(examine(Config.model_validate({"run": {"root": tmp_path / "new"}})))
    assert wrong(findings) == []
    assert findings[-1] == Finding("warehouse", f"there is none in {tmp_path / 'new'} yet")
    assert not (tmp_path / "new").exists()


def test_what_the_environment_needs_and_is_missing_has_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(package: str) -> str:
        if package == "adbutils":
            raise PackageNotFoundError(package)
        return "1.0"

    monkeypatch.setattr("trajmill.flows.doctor.version", version)
    monkeypatch.setattr(shutil, "which", lambda program: None)
    found = list(check_installation(Config.model_validate({"environment": {"kind": "android"}})))
    assert [finding.line() for finding in found if finding.mend] == [
        "WRONG extra android: adbutils missing, environment.kind needs it; pip install 'trajmill[android]'",
        "WRONG adb: not in PATH; install Android's platform tools and put adb in PATH",
    ]


def test_every_extra_for_users_is_looked_at() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    looked_at = {finding.what for finding in check_installation(Config())}
    assert {f"extra {name}" for name in project["optional-dependencies"]} - {"extra dev", "extra docs"} <= looked_at


def test_a_prefect_server_that_does_not_answer_as_one_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, warehouse = Config.model_validate({"run": {"root": tmp_path}}), create_warehouse(tmp_path)
    with saying(b"SSH-2.0-OpenSSH_9.6\r\n") as address:
        monkeypatch.setenv("PREFECT_API_URL", f"{address}/api")
        found = list(check_surroundings(config))
    assert "Prefect server" in wrong(found)
    assert found[-1].mend == "start it (`trajmill serve`), or correct PREFECT_API_URL"
    monkeypatch.delenv("PREFECT_API_URL")
    assert "Prefect server" not in wrong(list(check_surroundings(config)))
    remember_server(warehouse, config.run_id, "http://127.0.0.1:1/api", datetime.now(UTC))
    assert "Prefect server" in wrong(list(check_surroundings(config))), "the one that served the run is gone"


def test_servers_that_do_not_answer_and_full_disks_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(total=1000, used=990, free=10))
    endpoints = {"owl": {"model": "owl-7b", "urls": ("http://127.0.0.1:1/v1",)}}
    config = Config.model_validate({"run": {"root": tmp_path}, "endpoints": endpoints, "models": {"writer": "owl"}})
    found = list(check_surroundings(config))
    assert wrong(found) == ["disk", "endpoints.owl"]
    assert next(each for each in found if each.what == "endpoints.owl").line().count("start it") == 1


@pytest.mark.slow
def test_damage_in_a_warehouse_is_named(run_warehouse: Warehouse, tmp_path: Path) -> None:
    warehouse = open_warehouse(Path(shutil.copytree(run_warehouse.root, tmp_path / "copy")))
    assert wrong(list(check_consistency(warehouse))) == []
    shard = next(warehouse.table("steps").glob("*.parquet"))
    shard.write_bytes(shard.read_bytes()[:100])
    (lost := next(warehouse.table("trajectories").glob("*.parquet"))).unlink()
    (marker := stage_run("judge").staging(warehouse) / "done.json").parent.mkdir(parents=True)
    marker.write_text("{")
    texts = [finding.text for finding in check_consistency(warehouse) if finding.mend]
    assert [str(path) in text for path, text in zip((marker, lost, shard), texts, strict=True)] == [True] * 3


@pytest.mark.slow
def test_a_bucket_is_written_to_and_one_that_is_missing_is_named(bucket_url: str) -> None:
    def found(root: str) -> Finding:
        config = Config.model_validate({"run": {"root": root}})
        return next(finding for finding in check_surroundings(config) if finding.what == "run.root")

    assert found(bucket_url) == Finding("run.root", f"{bucket_url} can be written")
    missing = found("s3://nowhere/warehouse")
    assert missing.mend and "there is no such bucket" in missing.text
