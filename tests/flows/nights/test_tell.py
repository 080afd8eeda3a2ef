"""People are told once, with what failed, what is lost, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flows.nights.inbox import Inbox
from trajmill.flows.configuration.serve import NotifySection
from trajmill.flows.nights.ending import Ending, FlowEnd
from trajmill.flows.nights.nightly import nightly
from trajmill.flows.nights.tell import Notice, send
from trajmill.schemas.errors import TrajmillError

pytestmark = pytest.mark.slow

MESSAGE = Notice("trajmill: nightly failed", "no model server answers", "start it")


def test_a_webhook_gets_the_message(inbox: Inbox) -> None:
    assert send(MESSAGE, inbox) == []
    (received,) = inbox.received
    assert received["subject"] == "trajmill: nightly failed"
    assert received["text"].splitlines() == [
        "trajmill: nightly failed",
        "no model server answers",
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
    problems = send(MESSAGE, NotifySection(webhook="http://127.0.0.1:1/", blocks=blocks))
    assert [line.split(": ")[:2] for line in problems] == [
        ["notify.webhook", problems[0].split(": ")[1]],
        ["notify.blocks", "custom-webhook/missing"],
        ["notify.blocks", "secret/no-notification"],
    ]
    (received,) = inbox.received
    assert received["text"].startswith("trajmill: nightly failed: no model server answers\nLost: nothing")


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
        "trajmill: nightly ended as EmptyNight",
        "trajmill: nightly failed",
    ]
    assert inbox.received[0]["what"] == "round 2: 0 of 2 attempts finished"
    assert inbox.received[1]["what"] == "no model server answers: start it"
