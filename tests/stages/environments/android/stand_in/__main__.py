"""Serve simulated phones over the adb protocol: `python -m tests.stages.environments.android.stand_in --help`."""

import argparse
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.stages.environments.android.stand_in.phone import Phone
from tests.stages.environments.android.stand_in.server import serving
from tests.stages.environments.android.stand_in.tasks import task_line, verified_queries
from trajmill.stages.environments.simulated.world import load_world


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=5038)
    parser.add_argument("--phones", type=int, default=2)
    parser.add_argument("--tasks", type=Path, help="write a task file (JSON lines) here")
    parser.add_argument("--count", type=int, default=12, help="tasks in the file")
    options = parser.parse_args()
    world = load_world()
    phones = [Phone(f"emulator-{5554 + 2 * number}", world) for number in range(options.phones)]
    if options.tasks:
        lines = (
            task_line(world, query, seed) for seed, query in enumerate(verified_queries(world, options.count, seed=3))
        )
        options.tasks.write_text("".join(line.model_dump_json(exclude_defaults=True) + "\n" for line in lines))
    with serving(phones, options.port) as server, suppress(KeyboardInterrupt):
        print(f"adb stand-in at 127.0.0.1:{server.port}: {', '.join(server.phones)}")
        packages = phones[0].packages()
        print("[environment.apps]", *(f'"{name}" = "{package}"' for name, package in packages.items()), sep="\n")
        sys.stdout.flush()
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    main()
