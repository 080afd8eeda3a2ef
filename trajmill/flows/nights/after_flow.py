"""What happens when an unattended flow has ended, however it did: people are told, and the warehouse remembers it."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

from prefect.client.schemas.objects import FlowRun, State
from prefect.flows import Flow

from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.file import load_config_named
from trajmill.flows.nights.tell import notice_of, reason_of, send
from trajmill.flows.report.page import write_report
from trajmill.flows.status.flow_log import EndedFlow, remember
from trajmill.flows.status.results import disk_use
from trajmill.schemas.errors import TrajmillError
from trajmill.warehouse.layout import Warehouse, create_warehouse


def after_flow(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Tell people if the end needs them, remember it, and write the report anew; a hook of Prefect."""
    conclude(flow.name, flow_run, state)


def conclude(flow: str, flow_run: FlowRun, state: State[Any]) -> None:
    """Do what `after_flow` does, for a flow that is named.

    Nothing in here ends a flow: what does not work is a line in its log.
    """
    log = logging.getLogger(__name__)
    try:
        config = load_config_named(flow_run.parameters.get("config_file"))
    except TrajmillError as error:
        log.warning("nobody was told, because the configuration cannot be read: %s", error)
        return
    notice = notice_of(flow, flow_run, state)
    problems = send(notice, config.notify) if notice else []
    for problem in problems:
        log.warning("could not be told: %s", problem)
    somebody = notice is not None and bool(config.notify.webhook or config.notify.blocks)
    try:
        _remember(config, flow, flow_run, state, told=not problems if somebody else None)
    except (TrajmillError, OSError) as error:
        log.warning("the end of the flow could not be stored: %s", error)


def _remember(config: Config, flow: str, flow_run: FlowRun, state: State[Any], told: bool | None) -> None:
    """Store how a flow of a run ended; a run that has not begun has nothing to remember."""
    warehouse = create_warehouse(config.run.root)
    if not warehouse.store.files(warehouse.name(warehouse.run(config.run_id))):
        return
    now = datetime.now(UTC)
    ended = EndedFlow(
        flow_run_id=str(flow_run.id),
        flow=flow,
        began=flow_run.start_time or now,
        ended=now,
        failed=state.is_failed() or state.is_crashed(),
        state=state.name or "",
        line=reason_of(state),
        told=told,
        disk_bytes=_disk_bytes(warehouse),
    )
    remember(warehouse, config.run_id, ended)
    write_report(warehouse, config.run_id)


def _disk_bytes(warehouse: Warehouse) -> int | None:
    return disk_use(warehouse.root).used if warehouse.store.is_local else None
