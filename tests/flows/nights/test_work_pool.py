from __future__ import annotations

from pathlib import Path

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate

from trajmill.flows.cli.app import run
from trajmill.flows.configuration.config import Config
from trajmill.flows.landed_event import warehouse_resource
from trajmill.flows.nights.work_pool import WorkPool, as_workers_see, deploy_to
from trajmill.schemas.errors import BadInputError

pytestmark = pytest.mark.slow

_IMAGE = {"variables": {"properties": {"image": {"type": "string"}}}, "job_configuration": {"image": "{{ image }}"}}


def config_in(folder: Path) -> Config:
    return Config.model_validate({"run": {"root": folder / "data"}})


def test_workers_see_the_warehouse_beside_their_own_file(tmp_path: Path) -> None:
    file, there = tmp_path / "trajmill.toml", Path("/data/trajmill.toml")
    seen = as_workers_see(config_in(tmp_path), file, there)
    assert (seen.config.run.root, seen.file) == (Path("/data/data"), there)
    shared = as_workers_see(config_in(Path("/nfs")), file, there)
    assert shared.config.run.root == Path("/nfs/data")
    assert as_workers_see(config_in(tmp_path), file, None) == (config_in(tmp_path), file)
    for wrong in (Path("trajmill.toml"), Path("../trajmill.toml")):
        with pytest.raises(BadInputError, match="absolute path"):
            as_workers_see(config_in(tmp_path), file, wrong)


@pytest.mark.parametrize("given", ["image", "=1", "image=", "image={"])
def test_a_variable_that_is_no_json_is_named(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["deploy", "--pool", "mine", "--job", given]) == 1
    assert f"--job {given!r} is not NAME=JSON" in capsys.readouterr().err


@pytest.mark.slow
def test_the_deployments_are_registered_at_a_pool(tmp_path: Path, prefect_server: None) -> None:
    seen = as_workers_see(config_in(tmp_path), tmp_path / "trajmill.toml", Path("/data/trajmill.toml"))
    with pytest.raises(BadInputError, match=r"no work pool 'mine'.*prefect work-pool create mine --type process"):
        deploy_to(WorkPool("mine"), seen)
    with get_client(sync_client=True) as client:
        client.create_work_pool(WorkPoolCreate(name="mine", type="process", base_job_template={}))
        client.create_work_pool(WorkPoolCreate(name="boxes", type="docker", base_job_template=_IMAGE))
        with pytest.raises(BadInputError, match="whose jobs have no image"):
            deploy_to(WorkPool("mine", image="trajmill:1"), seen)
        with pytest.raises(BadInputError, match="name the image"):
            deploy_to(WorkPool("boxes"), seen)
        assert deploy_to(WorkPool("mine"), seen) == ["nightly", "retrain", "maintain"]
        assert deploy_to(WorkPool("boxes", "trajmill:1", {"image_pull_policy": "Never"}), seen)
        made = {each.name: each for each in client.read_deployments()}
        triggers = client.read_resource_related_automations(f"prefect.deployment.{made['retrain'].id}")
    assert {each.work_pool_name for each in made.values()} == {"boxes"}
    assert made["retrain"].parameters == {"config_file": "/data/trajmill.toml"}
    assert made["nightly"].entrypoint == "trajmill.flows.nights.nightly.nightly"
    assert made["nightly"].job_variables == {"image": "trajmill:1", "image_pull_policy": "Never"}
    assert len(triggers) == 1 and warehouse_resource(Path("/data/data")) in triggers[0].model_dump_json()
