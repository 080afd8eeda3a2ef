"""The configuration of the week: small rounds of the default world, and one vote of a judge behind a server."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

DISK_MB = 400
ENOUGH = 60
"""Newly accepted trajectories that start a retraining."""
USUAL_CRON = "0 2 * * *"
_FILE = "trajmill.toml"
_PORTS = "ports.json"
_SETTINGS = """\
[run]
name = "week"
root = "disk/trajmill-data"
rounds = {rounds}

[queries]
train = 120
heldout_slots = 40
heldout_phrasings = 40
heldout_apps = 0
validation = 24
fresh = 20

[rollout]
episodes_per_round = 160
concurrency = 16
workers = 2

[evaluate]
episodes = 40
train_sample = 24

[train]
min_updates = 60
max_updates = 100

[endpoints.critic]
urls = ["http://127.0.0.1:{model}/v1"]
model = "tiny"
attempts = 1
input_price = 0.2
output_price = 0.8

[models.critic]
text = ["embedded", "critic"]

[serve]
cron = "{cron}"
retrain_after_accepted = {enough}

[retention]
releases = 2
unused_days = 0

[notify]
webhook = "http://127.0.0.1:{webhook}/hook"
"""


class Ports(NamedTuple):
    """The ports of the week's servers; a week that goes on has the same ones."""

    prefect: int
    model: int
    webhook: int


def ports_of(folder: Path) -> Ports:
    """The ports that the folder names; free ones at its first use."""
    file = folder / _PORTS
    if not file.exists():
        with ExitStack() as held:
            probes = [held.enter_context(socket.socket()) for _ in Ports._fields]
            for probe in probes:
                probe.bind(("127.0.0.1", 0))
            file.write_text(json.dumps([probe.getsockname()[1] for probe in probes]))
    return Ports(*json.loads(file.read_text()))


def write_settings(folder: Path, cron: str = USUAL_CRON, rounds: int = 30) -> Path:
    """Write the configuration; what differs between two calls begins no new run."""
    ports = ports_of(folder)
    file = folder / _FILE
    file.write_text(_SETTINGS.format(rounds=rounds, cron=cron, enough=ENOUGH, model=ports.model, webhook=ports.webhook))
    return file


def cron_soon() -> str:
    """A schedule whose next time is three to four minutes from now: a busy machine takes long to serve it."""
    at = datetime.now(UTC) + timedelta(minutes=4)
    return f"{at.minute} {at.hour} * * *"
