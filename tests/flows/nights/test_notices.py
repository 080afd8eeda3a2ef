"""How a flow ended is stored beside the run; people are told once, with what failed, what is lost, and what to do."""

import re
import socket
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.blocks.system import Secret
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun
from prefect.states import Completed, Crashed, Failed, Running

from tests.flows.nights.conftest import Inbox
from tests.flows.synthetic_run import HOSTILE
from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.file import load_config
from trajmill.flows.configuration.sections import NotifySection
from trajmill.flows.new_run import begin_or_continue
from trajmill.flows.nights.log import Ending, FlowEnd, ended_flows, remember_server
from trajmill.flows.nights.nightly import nightly
from trajmill.flows.nights.notices import Notice, conclude, end_lost_runs, notify_of_missed_night, send, watching_nights
from trajmill.flows.report.page import render_report
from trajmill.schemas.errors import TrajmillError
from trajmill.schemas.secrets import Secrets
from trajmill.warehouse.layout import Warehouse, create_warehouse
from trajmill.warehouse.views import refresh_views

pytestmark = pytest.mark.slow

MESSAGE = Notice(
    "trajmill: nightly/default failed", "no model server answers", "start it", "default-1", "/data", "box", "http://p/1"
)


@pytest.fixture
def file(inbox: Inbox, tmp_path: Path, prefect_server: Path) -> Path:
    """A configuration that notifies the inbox."""
    file = tmp_path / "trajmill.toml"
    file.write_text(f'[notify]\nwebhook = "{inbox.notify.webhook}"\nheartbeat = "{inbox.notify.webhook}?alive"\n')
    return file


def begun(file: Path) -> tuple[Config, Warehouse]:
    config = load_config(file)
    begin_or_continue(config)
    return config, create_warehouse(config.run.root)


def flow_run(settings: Path, number: int) -> FlowRun:
    began = datetime(2026, 3, number, 2, 0, tzinfo=UTC)
    parameters = {"config_file": str(settings)}
    return FlowRun(id=UUID(int=number), flow_id=UUID(int=0), start_time=began, parameters=parameters)


def test_a_webhook_gets_the_message(inbox: Inbox) -> None:
    assert send(MESSAGE, inbox.notify, Secrets([])) == []
    (received,) = inbox.received
    assert received["subject"] == "trajmill: nightly/default failed"
    assert received["text"].splitlines() == [
        "trajmill: nightly/default failed",
        "no model server answers",
        "Run: default-1 in /data, on box",
        "See: http://p/1",
        "Lost: nothing; what was finished is stored.",
        "To do: start it",
    ]


def test_an_unreachable_receiver_is_named_and_the_others_are_notified(inbox: Inbox, prefect_server: Path) -> None:
    message = {"text": "{{subject}}: {{body}}"}
    CustomWebhookNotificationBlock(name="team", url=inbox.notify.webhook, json_data=message).save("team")
    Secret(value="x").save("no-notification")
    blocks = ("custom-webhook/team", "custom-webhook/missing", "secret/no-notification")
    problems = send(MESSAGE, NotifySection(webhook="http://127.0.0.1:1/", blocks=blocks), Secrets([]))
    named = ["notify.webhook: ", *(f"notify.blocks: {block}: " for block in blocks[1:])]
    assert [line.startswith(start) for line, start in zip(problems, named, strict=True)] == [True] * 3
    (received,) = inbox.received
    assert received["text"].startswith("trajmill: nightly/default failed: no model server answers\nRun: default-1")


def test_a_night_tells_if_it_needs_a_person_and_is_alive_however_it_ends(
    file: Path, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def night(end: FlowEnd | TrajmillError) -> str | None:
        def collect(config: object) -> FlowEnd:
            if isinstance(end, TrajmillError):
                raise end
            return end

        monkeypatch.setattr("trajmill.flows.nights.nightly.collect_night", collect)
        return nightly(str(file), return_state=True).name

    assert night(FlowEnd(Ending.COLLECTED, "round 1: 2 of 2 attempts finished")) == "Collected"
    assert inbox.received == []
    assert night(FlowEnd(Ending.EMPTY_NIGHT, "round 2: 0 of 2 attempts finished")) == "EmptyNight"
    assert night(TrajmillError("no model server answers: start it")) == "Failed"
    assert [(each["subject"], each["what"]) for each in inbox.received] == [
        ("trajmill: nightly/default ended as EmptyNight", "round 2: 0 of 2 attempts finished"),
        ("trajmill: nightly/default failed", "no model server answers: start it"),
    ]
    assert inbox.heartbeats == ["/hook?alive"] * 3
    config = load_config(file)
    assert ended_flows(create_warehouse(config.run.root), config.run_id, 9) == [], "the run has not begun"


def test_a_night_that_did_not_happen_is_told_once(file: Path, inbox: Inbox) -> None:
    config, warehouse = begun(file)
    remember_server(warehouse, config.run_id, "http://127.0.0.1:1/api", datetime(2026, 3, 1, 12, tzinfo=UTC))
    for day in (2, 2, 3):
        notify_of_missed_night(config, datetime(2026, 3, day, 9, tzinfo=UTC))
    # The next start of `trajmill serve` looks, too.
    with watching_nights(config, file):
        pass
    (message,) = inbox.received
    assert message["subject"] == "trajmill: nightly/default did not happen" and message["run"] == config.run_id
    assert message["what"].startswith("the night of 2026-03-02 02:00 UTC did not happen")
    assert [flow.state for flow in ended_flows(warehouse, config.run_id, 9)] == [Ending.MISSED] * 3


def test_what_ran_unattended_is_remembered_and_stands_in_the_report(file: Path, inbox: Inbox) -> None:
    config, warehouse = begun(file)
    conclude("nightly", flow_run(file, 2), Failed(message=f"no model server answers {HOSTILE}"))
    conclude("nightly", flow_run(file, 1), Completed(name="Collected", message="round 1: 4 of 4 attempts"))
    conclude("maintain", flow_run(file, 3), Completed(name="Maintained", message="0 releases dropped"))
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
    for words in ("2026-03-02 02:00", "People were told.", "round 1: 4 of 4 attempts"):
        assert words in page
    assert HOSTILE not in page


def test_a_run_whose_process_is_gone_is_ended_and_told(file: Path, inbox: Inbox) -> None:
    begun(file)
    parameters = {"config_file": str(file)}
    with get_client(sync_client=True) as client:
        ours, theirs = (
            client.create_deployment(client.create_flow(nightly), name=name, tags=[name]) for name in ("ours", "theirs")
        )
        elsewhere = client.create_flow_run_from_deployment(theirs, parameters=parameters)
        runs = [client.create_flow_run_from_deployment(ours, parameters=parameters) for _ in "abc"]
        for run in (elsewhere, runs[0]):
            client.set_flow_run_state(run.id, Running(), force=True)
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
