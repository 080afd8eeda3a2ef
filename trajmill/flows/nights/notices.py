"""Notifies people of flows that failed or need a person, and stores how every flow ended.

Prefect calls `conclude` at the end of an unattended flow. `trajmill serve` watches for nights that did not happen.
Prefect's own automations send no notice without a server that runs, and none of a night without any flow run.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import socket
import threading
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from prefect import get_run_logger
from prefect.blocks.abstract import NotificationBlock
from prefect.blocks.core import Block
from prefect.client.orchestration import get_client
from prefect.client.schemas import filters
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.flows import Flow
from prefect.settings import get_current_settings
from prefect.states import Completed, Crashed
from prefect.utilities.urls import url_for

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.file import load_config
from trajmill.flows.configuration.sections import NotifySection
from trajmill.flows.nights.log import NIGHTLY, EndedFlow, Ending, FlowEnd, is_news, last_ends, missed_night, remember
from trajmill.flows.prefect_settings import scrub_logs
from trajmill.flows.report.page import write_report
from trajmill.flows.status.page import used_bytes
from trajmill.schemas.errors import TrajmillError
from trajmill.schemas.secrets import Secrets
from trajmill.warehouse.layout import Warehouse, create_warehouse
from trajmill.warehouse.store.base import store_at

_LOG = logging.getLogger(__name__)
_SECONDS_TO_SEND = 15.0
_SECONDS_BETWEEN_LOOKS = 600.0
_BEFORE_ERROR = re.compile(r"^Flow run encountered an exception: (\w+: )?")
_UNFINISHED = [StateType.RUNNING, StateType.PENDING, StateType.CANCELLING]


def unattended(config_file: str | None, work: Callable[[Config], FlowEnd]) -> State[Any]:
    """Do the work of a flow, whose logs have no keys of the configuration, and return its final state."""
    config = load_config(config_file)
    scrub_logs(config.secrets(os.environ))
    end = work(config)
    get_run_logger().info(end.line)
    return Completed(name=end.ending.value, message=end.line, data=end.line)


def conclude(flow: Flow[..., Any] | str, flow_run: FlowRun, state: State[Any]) -> None:
    """Notify people of a flow's end, store it and write the report anew: a hook of Prefect that never fails."""
    name = flow if isinstance(flow, str) else flow.name
    try:
        config = load_config(flow_run.parameters.get("config_file"))
    except TrajmillError as error:
        _LOG.warning("no notice was sent, because the configuration cannot be read: %s", error)
        return
    now, secrets = datetime.now(UTC), config.secrets(os.environ)
    reason = " ".join((state.message or state.name or "no reason is known").split())
    ended = EndedFlow(
        flow_run_id=str(flow_run.id),
        flow=name,
        began=flow_run.start_time or now,
        ended=now,
        failed=state.is_failed() or state.is_crashed(),
        state=state.name or "",
        line=secrets.scrub(_BEFORE_ERROR.sub("", reason)),
    )
    before: list[EndedFlow] = []
    with _logged("the nights before could not be read"):
        notify_of_missed_night(config, ended.began if name == NIGHTLY else now)
        before = last_ends(create_warehouse(config.run.root), config.run_id).get(name, [])
    if is_news([ended, *before]):
        stages = _failed_stages(flow_run) if ended.failed else []
        ended = ended.model_copy(update={"told": _notify(config, ended, stages, url_for(flow_run) or "")})
    with _logged("the end of the flow could not be stored"):
        warehouse = create_warehouse(config.run.root)
        if _has_begun(warehouse, config.run_id):
            _remember(warehouse, config.run_id, ended)
            write_report(warehouse, config.run_id)
    if name == NIGHTLY and config.notify.heartbeat:
        for problem in _fetch("notify.heartbeat", config.notify.heartbeat):
            _LOG.warning("could not be reached: %s", secrets.scrub(problem))


HOOKS: Final[dict[str, Any]] = {name: [conclude] for name in ("on_completion", "on_failure", "on_crashed")}


@contextmanager
def _logged(what: str) -> Iterator[None]:
    try:
        yield
    except (TrajmillError, OSError) as error:
        _LOG.warning("%s: %s", what, error)


def _has_begun(warehouse: Warehouse, run_id: str) -> bool:
    return bool(warehouse.store.files(warehouse.name(warehouse.run(run_id))))


def _remember(warehouse: Warehouse, run_id: str, ended: EndedFlow) -> bool:
    used = used_bytes(warehouse.root) if warehouse.store.is_local else None
    return remember(warehouse, run_id, ended.model_copy(update={"disk_bytes": used}))


def notify_of_missed_night(config: Config, now: datetime) -> None:
    """Store a night that did not happen before `now`, and notify people of the first of several in a row."""
    warehouse = create_warehouse(config.run.root)
    missed = missed_night(warehouse, config.run_id, config.serve, now)
    if missed is None or not _has_begun(warehouse, config.run_id):
        return
    news = is_news([missed, *last_ends(warehouse, config.run_id).get(NIGHTLY, [])])
    if _remember(warehouse, config.run_id, missed) and news:
        _notify(config, missed, [], get_current_settings().ui_url or "")


@contextmanager
def watching_nights(config: Config, config_file: Path | None) -> Iterator[None]:
    """Inside, a thread notifies people of nights that do not happen; the configuration is read anew each time."""
    notify_of_missed_night(config, datetime.now(UTC))
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_SECONDS_BETWEEN_LOOKS):
            with _logged("could not look for nights that did not happen"):
                notify_of_missed_night(load_config(config_file), datetime.now(UTC))

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def end_lost_runs(resource: str) -> int:
    """End the unfinished flow runs of a run as crashed, before anything serves it; return how many."""
    of_type = filters.FlowRunFilterStateType(any_=_UNFINISHED)
    unfinished = filters.FlowRunFilter(state=filters.FlowRunFilterState(type=of_type))
    ours = filters.DeploymentFilter(tags=filters.DeploymentFilterTags(all_=[resource]))
    message = "the process that ran it is gone: `trajmill serve` or its machine was stopped"
    with get_client(sync_client=True) as client:
        lost = client.read_flow_runs(flow_run_filter=unfinished, deployment_filter=ours)
        for run in lost:
            state: State[Any] = Crashed(message=message)
            client.set_flow_run_state(run.id, state, force=True)
            conclude(client.read_flow(run.flow_id).name, run, state)
    return len(lost)


def _failed_stages(run: FlowRun) -> list[str]:
    of_run = filters.FlowRunFilter(id=filters.FlowRunFilterId(any_=[run.id]))
    with get_client(sync_client=True) as client:
        tasks = client.read_task_runs(flow_run_filter=of_run, task_run_filter=filters.TaskRunFilter())
    return [task.name for task in tasks if task.state_name in ("Failed", "Crashed")]


class Notice(NamedTuple):
    subject: str
    what: str
    to_do: str
    run: str
    warehouse: str
    host: str
    link: str
    """The page of the flow run at the Prefect server; empty without one."""

    def text(self) -> str:
        lines = [self.what, f"Run: {self.run} in {self.warehouse}, on {self.host}"]
        lines += [f"See: {self.link}"] if self.link else []
        return "\n".join([*lines, "Lost: nothing; what was finished is stored.", f"To do: {self.to_do}"])


def _notify(config: Config, ended: EndedFlow, stages: list[str], link: str) -> bool | None:
    """Send a notice of a flow's end; whether everybody got it, None if there is nobody."""
    deployment = f"{ended.flow}/{config.run.name}"
    how, to_do = f"ended as {ended.state}", "see `trajmill status`, and docs/operations.md for this state"
    if ended.failed:
        how = "failed" + (f" in stage {', '.join(stages)}" if stages else "")
        again = "mend the cause; the next run continues where this one stopped, or start it now"
        to_do = f"{again}: prefect deployment run {deployment}"
    elif ended.state == Ending.MISSED:
        how, to_do = "did not happen", "start `trajmill serve` again, or a worker of the work pool"
    place, subject = store_at(config.run.root).address, f"trajmill: {deployment} {how}"
    notice = Notice(subject, ended.line, to_do, config.run_id, place, socket.gethostname(), link)
    problems = send(notice, config.notify, config.secrets(os.environ))
    for problem in problems:
        _LOG.warning("could not be notified: %s", problem)
    return not problems if config.notify.webhook or config.notify.blocks else None


def send(message: Notice, notify: NotifySection, secrets: Secrets) -> list[str]:
    """Send a message to the webhook and to all blocks; return a line for each that could not be reached."""
    message, problems = Notice(*map(secrets.scrub, message)), list[str]()
    if notify.webhook:
        body = {"text": f"{message.subject}\n{message.text()}", **message._asdict()}
        problems += _fetch("notify.webhook", notify.webhook, json.dumps(body).encode())

    async def send_by(block: NotificationBlock) -> None:
        # Blocks that Prefect makes usable without `await` return no coroutine.
        sending: Awaitable[None] | None = block.notify(body=message.text(), subject=message.subject)
        if sending is not None:
            await sending

    for name in notify.blocks:
        try:
            block = Block.load(name)
            if not isinstance(block, NotificationBlock):
                raise ValueError("it is no notification block")
            asyncio.run(send_by(block))
        except Exception as error:  # A block may raise anything; a message that is not sent must not end a flow.
            problems.append(f"notify.blocks: {name}: {error}")
    return [secrets.scrub(problem) for problem in problems]


def _fetch(key: str, address: str, body: bytes | None = None) -> list[str]:
    """Fetch an address, or post JSON to it; return a line if that fails."""
    request = urllib.request.Request(address, data=body, headers={"Content-Type": "application/json"} if body else {})
    try:
        urllib.request.urlopen(request, timeout=_SECONDS_TO_SEND).close()
    except (OSError, ValueError) as error:
        return [f"{key}: {error}"]
    return []
