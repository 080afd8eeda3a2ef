import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.http_server import QuietHandler, serving
from trajmill.flows.configuration.sections import NotifySection


class Inbox(NotifySection):
    """The address of a local webhook, and what it has received."""

    received: list[dict[str, Any]] = []
    heartbeats: list[str] = []


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    box = Inbox.model_construct(heartbeat="", blocks=(), received=[], heartbeats=[])

    class Receiver(QuietHandler):
        def reply(self) -> None:
            if self.command == "POST":
                box.received.append(json.loads(self.body))
            else:
                box.heartbeats.append(self.path)
            self.answer()

    with serving(Receiver) as url:
        object.__setattr__(box, "webhook", f"{url}/hook")
        yield box
