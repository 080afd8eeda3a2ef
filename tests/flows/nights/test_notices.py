"""People are told once, with what failed, what is lost, and what to do."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.flows.nights.conftest import Inbox
from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.sections import NotifySection
from trajmill.flows.new_run import begin_or_continue
from trajmill.flows.nights.log import Ending, FlowEnd, ended_flows, remember_server
from trajmill.flows.nights.nightly import nightly
from trajmill.flows.nights.notices import Notice, notify_of_missed_night, send
from trajmill.schemas.errors import TrajmillError
from trajmill.schemas.secrets import Secrets
from trajmill.warehouse.layout import create_warehouse

pytestmark = pytest.mark.slow

MESSAGE = Notice(
    "trajmill: nightly/default failed", "no model server answers", "start it", "default-1", "/data", "box", "http://p/1"
)


def test_a_webhook_gets_the_message(inbox: Inbox) -> None:
    assert send(MESSAGE, inbox, Secrets([])) == []
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


@pytest.mark.slow
def test_an_unreachable_receiver_is_named_and_the_others_are_notified(inbox: Inbox, prefect_server: None) -> None:
    from prefect.blocks.notifications import CustomWebhookNotificationBlock
    from prefect.blocks.system import Secret

    CustomWebhookNotificationBlock(name="team", url=inbox.webhook, json_data={"text": "{{subject}}: {{body}}"}).save(
        "team"
    )
    Secret(value="x").save("no-notification")
    blocks = ("custom-webhook/team", "custom-webhook/missing", "secret/no-notification")
    problems = send(MESSAGE, NotifySection(webhook="http://127.0.0.1:1/", blocks=blocks), Secrets([]))
    assert [line.split(": ")[:2] for line in problems] == [
        ["notify.webhook", problems[0].split(": ")[1]],
        ["notify.blocks", "custom-webhook/missing"],
        ["notify.blocks", "secret/no-notification"],
    ]
    (received,) = inbox.received
    assert received["text"].startswith("trajmill: nightly/default failed: no model server answers\nRun: default-1")


@pytest.mark.slow
def test_a_night_that_fails_or_needs_a_person_tells_and_one_that_collects_does_not(
    inbox: Inbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefect_server: None
) -> None:
    file = tmp_path / "trajmill.toml"
    file.write_text(f'[notify]\nwebhook = "{inbox.webhook}"\n')

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
    assert [each["subject"] for each in inbox.received] == [
        "trajmill: nightly/default ended as EmptyNight",
        "trajmill: nightly/default failed",
    ]
    assert inbox.received[0]["what"] == "round 2: 0 of 2 attempts finished"
    assert inbox.received[1]["what"] == "no model server answers: start it"


def test_a_night_sends_its_heartbeat_however_it_ends(
    inbox: Inbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefect_server: None
) -> None:
    file = tmp_path / "trajmill.toml"
    file.write_text(f'[notify]\nheartbeat = "{inbox.webhook}?alive"\n')
    monkeypatch.setattr("trajmill.flows.nights.nightly.collect_night", _fail)
    assert nightly(str(file), return_state=True).name == "Failed"
    assert inbox.heartbeats == ["/hook?alive"] and inbox.received == []


def _fail(config: object) -> FlowEnd:
    raise TrajmillError("no model server answers")


def test_a_night_that_did_not_happen_is_told_once(inbox: Inbox, tmp_path: Path, prefect_server: None) -> None:
    config = Config.model_validate({"run": {"root": tmp_path}, "notify": {"webhook": inbox.webhook}})
    warehouse = create_warehouse(tmp_path)
    begin_or_continue(config)
    remember_server(warehouse, config.run_id, "http://127.0.0.1:1/api", datetime(2026, 3, 1, 12, tzinfo=UTC))
    for day in (2, 2, 3, 4):
        notify_of_missed_night(config, datetime(2026, 3, day, 9, tzinfo=UTC))
    (message,) = inbox.received
    assert message["subject"] == "trajmill: nightly/default did not happen"
    assert message["what"].startswith("the night of 2026-03-02 02:00 UTC did not happen")
    assert [flow.state for flow in ended_flows(warehouse, config.run_id, 9)] == [Ending.MISSED] * 3
