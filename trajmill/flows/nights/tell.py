"""Tells people that a flow failed or needs a person: the message, and how it is sent."""

from __future__ import annotations

import asyncio
import json
import os
import re
import urllib.request
from collections.abc import Awaitable
from typing import Any, NamedTuple

from prefect.blocks.abstract import NotificationBlock
from prefect.blocks.core import Block
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId, TaskRunFilter
from prefect.client.schemas.objects import FlowRun, State

from trajmill.flows.configuration.serve import NotifySection
from trajmill.flows.nights.ending import NEEDS_PERSON
from trajmill.schemas.secrets import Secrets

_SECONDS_TO_SEND = 15.0
_BEFORE_ERROR = re.compile(r"^Flow run encountered an exception: (\w+: )?")


class Notice(NamedTuple):
    """What people are told."""

    subject: str
    what: str
    """What failed, or what is waited for."""
    to_do: str

    def text(self) -> str:
        """The message without its subject."""
        return f"{self.what}\nLost: nothing; what was finished is stored.\nTo do: {self.to_do}"


def notice_of(flow: str, flow_run: FlowRun, state: State[Any]) -> Notice | None:
    """What people are told about the end of a flow; None if it needs nobody."""
    if state.is_failed() or state.is_crashed():
        return _notice_of_failure(flow, flow_run, state)
    if state.name not in NEEDS_PERSON:
        return None
    to_do = "see `trajmill status`, and docs/operations.md for this state"
    return Notice(f"trajmill: {flow} ended as {state.name}", state.message or "", to_do)


def reason_of(state: State[Any]) -> str:
    """Why a flow ended as it did, in one line, without the words that Prefect puts before an error."""
    message = " ".join((state.message or state.name or "no reason is known").split())
    return _BEFORE_ERROR.sub("", message)


def _notice_of_failure(flow: str, flow_run: FlowRun, state: State[Any]) -> Notice:
    stages = _failed_stages(flow_run)
    where = f" in stage {', '.join(stages)}" if stages else ""
    to_do = (
        "mend the cause; the next run continues where this one stopped, or start it now: "
        f"prefect deployment run {flow}/{flow}"
    )
    return Notice(f"trajmill: {flow} failed{where}", reason_of(state), to_do)


def send(message: Notice, notify: NotifySection) -> list[str]:
    """Send a message to the webhook and to all blocks; returns a line for each that could not be reached."""
    secrets = Secrets.of(os.environ, notify.webhook)
    message = Notice(*map(secrets.scrub, message))
    problems = []
    if notify.webhook:
        try:
            _post(notify.webhook, message)
        except (OSError, ValueError) as error:
            problems.append(f"notify.webhook: {error}")
    for name in notify.blocks:
        try:
            block = Block.load(name)
            if not isinstance(block, NotificationBlock):
                raise ValueError("it is no notification block")
            _notify(block, message)
        except Exception as error:  # A block may raise anything; a message that is not sent must not end a flow.
            problems.append(f"notify.blocks: {name}: {error}")
    return [secrets.scrub(problem) for problem in problems]


def _notify(block: NotificationBlock, message: Notice) -> None:
    async def sent() -> None:
        # Blocks that Prefect makes usable without `await` return no coroutine.
        sending: Awaitable[None] | None = block.notify(body=message.text(), subject=message.subject)
        if sending is not None:
            await sending

    asyncio.run(sent())


def _post(address: str, message: Notice) -> None:
    body = {"text": f"{message.subject}\n{message.text()}", **message._asdict()}
    request = urllib.request.Request(
        address, data=json.dumps(body).encode(), headers={"Content-Type": "application/json"}
    )
    urllib.request.urlopen(request, timeout=_SECONDS_TO_SEND).close()


def _failed_stages(run: FlowRun) -> list[str]:
    """The names of the tasks of a flow run that have failed."""
    with get_client(sync_client=True) as client:
        tasks = client.read_task_runs(
            flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[run.id])), task_run_filter=TaskRunFilter()
        )
    return [task.name for task in tasks if task.state_name in ("Failed", "Crashed")]
