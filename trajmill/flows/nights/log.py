"""How unattended flows ended, stored in the warehouse: the report and `trajmill status` need no Prefect server."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, TypeVar

from cronsim import CronSim
from pydantic import ValidationError

from trajmill.flows.configuration.sections import ServeSection
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import Record
from trajmill.stages.parts import first_mistake
from trajmill.warehouse.layout import Warehouse, worker_of

R = TypeVar("R", bound=Record)

NIGHTLY = "nightly"
_GRACE = timedelta(hours=1)
"""Time after which a night that has not begun counts as missed."""
_MOST_READ = 60
"""Ended flows that are searched for the last one of each deployment."""


class Ending(StrEnum):
    """The name of the final state of a flow that is no error (docs/operations.md)."""

    COLLECTED = "Collected"
    TRAINED = "Trained"
    MAINTAINED = "Maintained"
    NOT_ENOUGH = "NotEnough"
    NOT_TRAINED = "NotTrained"
    SKIPPED = "Skipped"
    """Another process worked on the run; needs a person if it happens twice in a row."""
    EMPTY_NIGHT = "EmptyNight"
    JUDGE_FAILS = "JudgeFails"
    NOTHING_ACCEPTED = "NothingAccepted"
    BELOW_JUDGE_FLOOR = "BelowJudgeFloor"
    AWAITING_POLICY = "AwaitingPolicy"
    VALIDATION_FELL = "ValidationFell"
    MISSED = "Missed"


NEEDS_PERSON = frozenset(Ending).difference(
    (Ending.COLLECTED, Ending.TRAINED, Ending.MAINTAINED, Ending.NOT_ENOUGH, Ending.SKIPPED)
)


class FlowEnd(NamedTuple):
    ending: Ending
    line: str
    """What was done, or why nothing was done."""


class EndedFlow(Record):
    flow_run_id: str
    flow: str
    began: datetime
    ended: datetime
    failed: bool = False
    """It failed or crashed; all other endings are no errors."""
    state: str
    line: str
    told: bool | None = None
    """Whether everybody of `[notify]` was notified; None if there was nothing to report, or nobody."""
    disk_bytes: int | None = None
    """All files of the warehouse at its end; None for a bucket."""


class Served(Record):
    address: str
    since: datetime


def remember(warehouse: Warehouse, run_id: str, ended: EndedFlow) -> bool:
    """Store how a flow ended, in its own file; return False if that is stored already."""
    began = ended.began.astimezone(UTC).strftime("%Y%m%dT%H%M%S")
    file = warehouse.run_file(run_id, f"flows/{began}-{ended.flow}-{ended.flow_run_id}.json")
    return warehouse.store.create(file, ended.model_dump_json().encode())


def ended_flows(warehouse: Warehouse, run_id: str, most: int) -> list[EndedFlow]:
    """Return the newest ends, oldest first. Raises BadInputError if the file of one is damaged."""
    names = sorted(file.name for file in warehouse.store.files(warehouse.run_file(run_id, "flows")))
    return [ended for name in names[-most:] if (ended := _read(EndedFlow, warehouse, name)) is not None]


def last_ends(warehouse: Warehouse, run_id: str) -> dict[str, list[EndedFlow]]:
    ends = defaultdict[str, list[EndedFlow]](list)
    for ended in reversed(ended_flows(warehouse, run_id, _MOST_READ)):
        ends[ended.flow].append(ended)
    return ends


def needs_person(ends: Sequence[EndedFlow]) -> bool:
    """Whether the newest of a flow's ends needs a person, given those before it."""
    if ends and ends[0].state == Ending.SKIPPED:
        return len(ends) > 1 and ends[1].state == Ending.SKIPPED
    return bool(ends) and (ends[0].failed or ends[0].state in NEEDS_PERSON)


def is_news(ends: Sequence[EndedFlow]) -> bool:
    """Whether people must be notified of the newest end: each failure, and each other trouble when it begins."""
    newest, *before = ends
    if newest.failed or not needs_person(ends):
        return newest.failed
    if not needs_person(before) or newest.state != before[0].state:
        return True
    return newest.state == Ending.AWAITING_POLICY and newest.line != before[0].line


def remember_server(warehouse: Warehouse, run_id: str, address: str, now: datetime) -> None:
    """Store the address of the Prefect server at which a run is deployed, for `trajmill status`."""
    before = served(warehouse, run_id)
    found = Served(address=address, since=before.since if before else now)
    warehouse.store.put(warehouse.run_file(run_id, "served.json"), found.model_dump_json().encode())


def served(warehouse: Warehouse, run_id: str) -> Served | None:
    return _read(Served, warehouse, warehouse.run_file(run_id, "served.json"))


def _read(record: type[R], warehouse: Warehouse, name: str) -> R | None:
    stored = warehouse.store.get(name)
    try:
        return None if stored is None else record.model_validate_json(stored)
    except ValidationError as error:
        mistake = first_mistake(error, "the record")
        raise BadInputError(
            f"{warehouse.store.uri(name)}:1: {mistake}; restore it from a copy, or delete it"
        ) from error


def missed_night(warehouse: Warehouse, run_id: str, settings: ServeSection, now: datetime) -> EndedFlow | None:
    """Return a night that did not happen; while a process works, it is only late until the next one is due."""
    deployed = served(warehouse, run_id)
    if deployed is None:
        return None
    nights = last_ends(warehouse, run_id).get(NIGHTLY)
    times = CronSim(settings.cron, max(nights[0].began, deployed.since) if nights else deployed.since)
    due, following = next(times), next(times)
    if now < due + _GRACE or (now < following + _GRACE and worker_of(warehouse, run_id) is not None):
        return None
    line = f"the night of {due:%Y-%m-%d %H:%M} UTC did not happen: no `trajmill serve` or worker has begun it"
    return EndedFlow(flow_run_id="missed", flow=NIGHTLY, began=due, ended=due, state=Ending.MISSED, line=line)


def trouble(warehouse: Warehouse, run_id: str, settings: ServeSection, now: datetime) -> Iterator[str]:
    """Yield a line for each flow whose last end needs a person, and for a night that did not happen."""
    missed = missed_night(warehouse, run_id, settings, now)
    if missed is not None:
        yield missed.line
    for flow, ends in last_ends(warehouse, run_id).items():
        if needs_person(ends):
            times = " twice in a row" if ends[0].state == Ending.SKIPPED else ""
            yield f"{flow} ended as {ends[0].state}{times}: {ends[0].line}"
