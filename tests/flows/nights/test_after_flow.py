"""How a flow ended is remembered beside the run and shown in its report; what a lost process ran is ended."""

from __future__ import annotations

import re
import socket
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.states import Completed, Crashed, Failed, Running

from tests.flows.nights.conftest import Inbox
from tests.flows.synthetic_run import HOSTILE
from trajmill.flows.configuration.file import load_config
from trajmill.flows.nights.log import ended_flows
from trajmill.flows.nights.nightly import nightly
from trajmill.flows.nights.notices import conclude, end_lost_runs
from trajmill.flows.report.page import render_report
from trajmill.warehouse.layout import create_warehouse
from trajmill.warehouse.views import refresh_views

pytestmark = pytest.mark.slow


@pytest.fixture
def settings(inbox: Inbox, tmp_path: Path) -> Path:
    """A configuration whose run has begun."""
    file = tmp_path / "trajmill.toml"
    file.write_text(f'[notify]\nwebhook = "{inbox.webhook}"\n')
    config = load_config(file)
    folder = create_warehouse(config.run.root).run(config.run_id)
    folder.mkdir(parents=True)
    (folder / "identity.json").write_text("{}")
    return file


def flow_run(settings: Path, number: int) -> FlowRun:
    began = datetime(2026, 3, number, 2, 0, tzinfo=UTC)
    parameters = {"config_file": str(settings)}
    return FlowRun(id=UUID(int=number), flow_id=UUID(int=0), start_time=began, parameters=parameters)


def test_what_ran_unattended_is_remembered_and_stands_in_the_report(
    settings: Path, inbox: Inbox, prefect_server: None
) -> None:
    conclude("nightly", flow_run(settings, 2), Failed(message=f"no model server answers {HOSTILE}"))
    conclude("nightly", flow_run(settings, 1), Completed(name="Collected", message="round 1: 4 of 4 attempts"))
    conclude("maintain", flow_run(settings, 3), Completed(name="Maintained", message="0 releases dropped"))
    config = load_config(settings)
    warehouse = create_warehouse(config.run.root)
    assert [flow.state for flow in ended_flows(warehouse, config.run_id, 9)] == ["Collected", "Failed", "Maintained"]
    assert [flow.state for flow in ended_flows(warehouse, config.run_id, 1)] == ["Maintained"]
    (message,) = inbox.received
    assert message["subject"] == "trajmill: nightly/default failed"
    assert (message["run"], message["host"]) == (config.run_id, socket.gethostname())
    assert message["warehouse"] == str(warehouse.root)
    assert message["link"].endswith(f"/runs/flow-run/{UUID(int=2)}")
    refresh_views(warehouse)
    page = render_report(warehouse, config.run_id)
    assert re.findall('<span class="badge (good|bad|flat)">(?:Coll|Fail|Maint)', page) == ["good", "bad", "good"]
    assert (
        "2026-03-02 02:00" in page
        and "People were told." in page
        and HOSTILE not in page
        and "round 1: 4 of 4 attempts" in page
    )


def test_a_run_that_has_not_begun_remembers_nothing(inbox: Inbox, tmp_path: Path, prefect_server: None) -> None:
    file = tmp_path / "trajmill.toml"
    file.write_text(f'[notify]\nwebhook = "{inbox.webhook}"\n')
    conclude("nightly", flow_run(file, 1), Failed(message="the configuration begins a new run"))
    config = load_config(file)
    assert ended_flows(create_warehouse(config.run.root), config.run_id, 9) == [] and len(inbox.received) == 1


def test_a_run_whose_process_is_gone_is_ended_and_told(settings: Path, inbox: Inbox, prefect_server: None) -> None:
    with get_client(sync_client=True) as client:
        ours, theirs = (
            client.create_deployment(client.create_flow(nightly), name=name, tags=[name]) for name in ("ours", "theirs")
        )
        elsewhere = client.create_flow_run_from_deployment(theirs, parameters={"config_file": str(settings)})
        client.set_flow_run_state(elsewhere.id, Running(), force=True)
        runs = [client.create_flow_run_from_deployment(ours, parameters={"config_file": str(settings)}) for _ in "abc"]
        client.set_flow_run_state(runs[0].id, Running(), force=True)
        client.set_flow_run_state(runs[1].id, Completed(), force=True)
        assert end_lost_runs("ours") == 1
        states = [client.read_flow_run(run.id).state_name for run in runs]
        assert states == [Crashed().name, "Completed", "Scheduled"]
        assert end_lost_runs("ours") == 0
        assert client.read_flow_run(elsewhere.id).state_name == "Running", "another run's flow goes on"
        for made in (ours, theirs):
            client.delete_deployment(made)
    (message,) = inbox.received
    assert "the process that ran it is gone" in message["what"]
