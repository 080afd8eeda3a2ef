"""Asks and tells the Prefect server of the week, over its REST interface alone."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar

DEPLOYMENTS = ("nightly", "retrain", "maintain")
_ENDED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_BEFORE_RETRIES = (1.0, 2.0, 4.0, 8.0)

Found = TypeVar("Found")


class FlowRun(NamedTuple):
    """One run of a deployment."""

    id: str
    deployment: str
    by_schedule: bool
    type: str
    """Type of its state, e.g. `COMPLETED`."""
    state: str
    """Name of its state, e.g. `Collected`."""
    line: str
    began: datetime | None
    ended: datetime | None

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.type in _ENDED


class Prefect:
    """A Prefect server on loopback."""

    def __init__(self, port: int) -> None:
        """The server at a port."""
        self.api = f"http://127.0.0.1:{port}/api"
        self._since = datetime.now(UTC)

    def restarts(self) -> None:
        """It is being started again."""
        self._since = datetime.now(UTC)

    def ready(self) -> bool:
        """Whether it answers, and `trajmill serve` has registered the deployments since it began."""
        try:
            rows = self._ask("deployments/filter", {})
        except OSError:
            return False
        return set(DEPLOYMENTS) <= {
            _flow_of(row) for row in rows if datetime.fromisoformat(row["updated"]) > self._since
        }

    def paused(self) -> list[str]:
        """The deployments that are paused."""
        return [_flow_of(row) for row in self._ask("deployments/filter", {}) if row["paused"]]

    def start(self, deployment: str) -> str:
        """Start a run of a deployment, as `prefect deployment run` does; returns its id."""
        (identity,) = (found for found, name in self._names().items() if name == deployment)
        return str(self._ask(f"deployments/{identity}/create_flow_run", {})["id"])

    def runs(self) -> list[FlowRun]:
        """All runs of deployments but for those of the future, the oldest first."""
        names = self._names()
        due = {"expected_start_time": {"before_": datetime.now(UTC).isoformat()}}
        rows = self._ask("flow_runs/filter", {"sort": "EXPECTED_START_TIME_ASC", "limit": 200, "flow_runs": due})
        return [_flow_run(names[row["deployment_id"]], row) for row in rows if row["deployment_id"] in names]

    def run(self, identity: str) -> FlowRun:
        """One run."""
        return next(run for run in self.runs() if run.id == identity)

    def _names(self) -> dict[str, str]:
        return {row["id"]: _flow_of(row) for row in self._ask("deployments/filter", {})}

    def _ask(self, path: str, body: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.api}/{path}", data=json.dumps(body).encode(), headers=headers)
        for seconds in _SECONDS_BEFORE_RETRIES:
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
                    raise
            # Its database was locked.
            time.sleep(seconds)
        raise TimeoutError(f"{self.api} is not available")


def wait_for(what: Callable[[], Found | None], seconds: float = 900.0) -> Found:
    """Wait until something is there; returns it.

    Raises:
        TimeoutError: it is not there in time.
    """
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = what()
        if found:
            return found
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    raise TimeoutError(f"waited {seconds:.0f} s in vain for {getattr(what, '__qualname__', what)}")


def _flow_of(deployment: dict[str, Any]) -> str:
    """The flow of a deployment, whose own name is that of the run."""
    return str(deployment["entrypoint"]).rpartition(".")[2]


def _flow_run(deployment: str, row: dict[str, Any]) -> FlowRun:
    state = row["state"] or {}
    return FlowRun(
        row["id"],
        deployment,
        bool(row["auto_scheduled"]),
        str(state.get("type")),
        str(state.get("name")),
        " ".join(str(state.get("message") or "").split()),
        _time(row["start_time"]),
        _time(row["end_time"]),
    )


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
