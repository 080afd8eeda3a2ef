"""Seven compressed nights of `trajmill serve` with a real Prefect server, and a page of what happened.

`python -m benchmarks.week FOLDER` lives the days that FOLDER has not lived yet and writes FOLDER/week.html. It needs
Linux; as root, the warehouse lies on a disk of its own of 400 MB, which one night fills.
"""

from __future__ import annotations

import argparse
import os
import signal
from contextlib import ExitStack
from pathlib import Path

from benchmarks.week.days import DAYS, Week
from benchmarks.week.diary import Diary
from benchmarks.week.flow_runs import Prefect, wait_for
from benchmarks.week.page import NOTICES, write_page
from benchmarks.week.settings import USUAL_CRON, cron_soon, ports_of, write_settings
from benchmarks.week.surroundings import Disk, Machine, ModelServer, webhook
from trajmill.flows.configuration.file import load_config


def main() -> None:
    """Live the week."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        live(folder, stack)


def live(folder: Path, stack: ExitStack) -> None:
    """Live the days that are not over, then write the page."""
    diary, disk = Diary(folder / "diary.jsonl"), Disk(folder)
    stack.callback(disk.close)
    left = [name for name in DAYS if name not in set(diary.days_over())]
    if left:
        with ExitStack() as days:
            week = begin(folder, days, diary, disk, by_schedule=len(left) == len(DAYS))
            for name in left:
                diary.day = name
                DAYS[name](week)
                diary.end_day(disk.used())
    write_page(folder, load_config(write_settings(folder)), diary.entries())


def begin(folder: Path, stack: ExitStack, diary: Diary, disk: Disk, by_schedule: bool) -> Week:
    """Start all that stands around the days; the schedule of the first night is soon."""
    ports, machine = ports_of(folder), Machine(folder, ports_of(folder))
    file = write_settings(folder, cron_soon() if by_schedule else USUAL_CRON)
    stack.enter_context(webhook(ports.webhook, folder / NOTICES))
    model = ModelServer(ports.model)
    model.start()
    stack.callback(model.stop)
    stack.callback(machine.stop)
    prefect = Prefect(ports.prefect)
    machine.start(file)
    disk.empty(machine.process)
    wait_for(prefect.ready)
    return Week(folder, load_config(file), disk, model, prefect, machine, diary)


if __name__ == "__main__":
    os.environ.pop("PREFECT_API_URL", None)
    # Like Ctrl-C, so that the servers of the week end with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
