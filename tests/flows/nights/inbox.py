"""A webhook on loopback that keeps what it receives."""

from __future__ import annotations

from typing import Any

from trajmill.flows.configuration.sections import NotifySection


class Inbox(NotifySection):
    """The address of a local webhook, and what it has received."""

    received: list[dict[str, Any]] = []
    heartbeats: list[str] = []
