import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.http_server import QuietHandler, serving
from trajmill.flows.configuration.sections import NotifySection


class Inbox(NamedTuple):
    """A local webhook, and what it has received."""

    notify: NotifySection
    received: list[dict[str, Any]]
    heartbeats: list[str]


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    received: list[dict[str, Any]] = []
    heartbeats: list[str] = []

    class Receiver(QuietHandler):
        def reply(self) -> None:
            if self.command == "POST":
                received.append(json.loads(self.body))
            else:
                heartbeats.append(self.path)
            self.answer()

    with serving(Receiver) as url:
        yield Inbox(NotifySection(webhook=f"{url}/hook"), received, heartbeats)
