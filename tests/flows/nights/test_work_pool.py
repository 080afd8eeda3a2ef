from __future__ import annotations

from pathlib import Path

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate

from trajmill.flows.cli.app import run
from trajmill.flows.configuration.config import Config
from trajmill.flows.new_run import run_resource
from trajmill.flows.nights.deployments import WorkPool, deploy_to
from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.layout import create_warehouse

pytestmark = pytest.mark.slow

_IMAGE = {"variables": {"properties": {"image": {"type": "string"}}}, "job_configuration": {"image": "{{ image }}"}}


def config_in(folder: Path, name: str = "default") -> Config:
    return Config.model_validate({"run": {"root": folder / "data", "name": name}})


def test_the_file_of_the_workers_has_an_absolute_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "trajmill.toml").write_text("")
    command = ["deploy", "--pool", "mine", "--config", str(tmp_path / "trajmill.toml"), "--worker-config"]
    for wrong in ("trajmill.toml", "../trajmill.toml"):
        assert run([*command, wrong]) == 1
        assert "--worker-config is an absolute path" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["image", "=1", "image=", "image={"])
def test_a_variable_that_is_no_json_is_named(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["deploy", "--pool", "mine", "--job", given]) == 1
    assert f"--job {given!r} is not NAME=JSON" in capsys.readouterr().err


@pytest.mark.slow
def test_the_deployments_are_registered_at_a_pool(tmp_path: Path, prefect_server: None) -> None:
    config, there = config_in(tmp_path, "pooled"), Path("/data/trajmill.toml")
    with pytest.raises(BadInputError, match=r"no work pool 'mine'.*prefect work-pool create mine --type process"):
        deploy_to(WorkPool("mine"), config, there)
    with get_client(sync_client=True) as client:
        client.create_work_pool(WorkPoolCreate(name="mine", type="process", base_job_template={}))
        client.create_work_pool(WorkPoolCreate(name="boxes", type="docker", base_job_template=_IMAGE))
        with pytest.raises(BadInputError, match="whose jobs have no image"):
            deploy_to(WorkPool("mine", image="trajmill:1"), config, there)
        with pytest.raises(BadInputError, match="name the image"):
            deploy_to(WorkPool("boxes"), config, there)
        assert deploy_to(WorkPool("mine"), config, there) == ["nightly/pooled", "retrain/pooled", "maintain/pooled"]
        assert deploy_to(WorkPool("boxes", "trajmill:1", {"image_pull_policy": "Never"}), config, there)
        nightly, retrain = (client.read_deployment_by_name(f"{flow}/pooled") for flow in ("nightly", "retrain"))
        triggers = client.read_resource_related_automations(f"prefect.deployment.{retrain.id}")
    assert nightly.work_pool_name == retrain.work_pool_name == "boxes"
    assert retrain.parameters == {"config_file": "/data/trajmill.toml"}
    assert nightly.entrypoint == "trajmill.flows.nights.nightly.nightly"
    assert nightly.job_variables == {"image": "trajmill:1", "image_pull_policy": "Never"}
    resource = run_resource(create_warehouse(config.run.root), config.run_id)
    assert len(triggers) == 1 and resource in triggers[0].model_dump_json()
    assert resource in nightly.tags


@pytest.mark.slow
def test_a_deployment_of_another_run_is_replaced_only_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], prefect_server: None
) -> None:
    with get_client(sync_client=True) as client:
        client.create_work_pool(WorkPoolCreate(name="shared", type="process", base_job_template={}))

    def deploy(folder: str, *more: str) -> int:
        file = tmp_path / folder / "trajmill.toml"
        file.parent.mkdir(exist_ok=True)
        file.write_text('[run]\nname = "twin"\n')
        return run(["deploy", "--pool", "shared", "--config", str(file), *more])

    def parameters() -> object:
        with get_client(sync_client=True) as client:
            return client.read_deployment_by_name("nightly/twin").parameters

    assert deploy("first") == deploy("first") == 0
    first = parameters()
    assert deploy("second") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("deployment nightly/twin belongs to another run (Run twin-") and "--replace" in line
    assert str(tmp_path / "first") in line and parameters() == first
    assert deploy("second", "--replace") == 0
    assert parameters() == {"config_file": str(tmp_path / "second" / "trajmill.toml")}
