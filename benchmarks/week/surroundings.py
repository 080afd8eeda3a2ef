"""What stands around the week: a disk that can be full, a model server that can die, a webhook, `trajmill serve`."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.week.settings import DISK_MB, Ports
from tests.stages.models.fault_server import running_server
from trajmill.stages.environments.desktop.local.processes import descendants

TRAJMILL = (sys.executable, "-P", "-c", "from trajmill.flows.cli.app import main; main()")
_OPINION = {"analysis": "the screen changed", "summary": "moved on", "label": "GOOD", "reason": "all was done"}
_ROOM_WHEN_FULL = 64 * 1024


class Disk:
    """A small file system in a file; where mounting is not allowed, files of the flows are limited in size instead."""

    def __init__(self, folder: Path) -> None:
        """Mounts the disk that the folder has, or makes one."""
        self.folder = folder / "disk"
        self._image = folder / "disk.img"
        self._ballast = self.folder / "ballast"
        self.folder.mkdir(exist_ok=True)
        if not self._image.exists() and os.geteuid() == 0:
            with self._image.open("wb") as file:
                file.truncate(DISK_MB * 1_000_000)
            subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(self._image)], check=True)
        mount = ["mount", "-o", "loop", str(self._image), str(self.folder)]
        self.is_real = self.folder.is_mount() or subprocess.run(mount, stderr=subprocess.DEVNULL).returncode == 0

    def fill(self, process: int) -> str:
        """Leave no room to the flows that a process starts; returns how."""
        if not self.is_real:
            resource.prlimit(process, resource.RLIMIT_FSIZE, (_ROOM_WHEN_FULL, resource.RLIM_INFINITY))
            return f"no file may grow beyond {_ROOM_WHEN_FULL // 1024} kB"
        stat = os.statvfs(self.folder)
        size = stat.f_bavail * stat.f_frsize - _ROOM_WHEN_FULL
        with self._ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)
        return f"{size / 1e6:,.0f} MB of something else; {_ROOM_WHEN_FULL // 1024} kB are left"

    def empty(self, process: int) -> None:
        """Give the room back."""
        resource.prlimit(process, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        self._ballast.unlink(missing_ok=True)

    def used(self) -> int:
        """Bytes of all files that are the warehouse's."""
        return sum(path.stat().st_size for path in (self.folder / "trajmill-data").rglob("*") if path.is_file())

    def close(self) -> None:
        """Unmount it; its file stays."""
        if self.is_real:
            subprocess.run(["umount", str(self.folder)], check=False)


class ModelServer:
    """A stand-in on loopback that finds everything correct; it can die and come back."""

    def __init__(self, port: int) -> None:
        """Nothing listens yet."""
        self._port = port
        self._running = ExitStack()

    def start(self) -> None:
        """Listen."""
        self._running.enter_context(running_server(port=self._port, writes=_opinion))

    def stop(self) -> None:
        """Break all connections; from then on nothing listens."""
        self._running.close()


def _opinion(body: dict[str, Any]) -> str:
    fields = body["response_format"]["json_schema"]["schema"]["properties"]
    said: dict[str, object] = {**_OPINION, "correct": True, "redundant_steps": [], "first_error_step": None}
    return json.dumps({name: said[name] for name in fields})


@contextmanager
def webhook(port: int, file: Path) -> Iterator[None]:
    """A receiver that appends each message to a file, one JSON object in each line, with the time in `at`."""

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with file.open("a") as kept:
                kept.write(json.dumps({"at": datetime.now(UTC).isoformat(), **message}) + "\n")
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Receiver)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def environment(folder: Path) -> dict[str, str]:
    """The environment of the week's commands: a Prefect home of their own, and short waits."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    return kept | {
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_RUNNER_POLL_FREQUENCY": "2",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(Path.cwd()), os.environ.get("PYTHONPATH", "")))),
    }


class Machine:
    """A machine that runs `trajmill serve` with a Prefect server of its own, and can lose its power."""

    def __init__(self, folder: Path, ports: Ports) -> None:
        """It is off."""
        self._folder, self._port = folder, ports.prefect
        self._serve: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> int:
        """The process of `trajmill serve`."""
        assert self._serve is not None, "it is on"
        return self._serve.pid

    def start(self, config: Path) -> None:
        """Serve the deployments of a configuration."""
        with (self._folder / "serve.log").open("ab") as log:
            command = [*TRAJMILL, "serve", "--config", str(config), "--port", str(self._port)]
            self._serve = subprocess.Popen(
                command, cwd=self._folder, env=environment(self._folder), stdout=log, stderr=log
            )

    def lose_power(self) -> int:
        """End all of its processes at once, as a loss of power does; returns how many."""
        processes = [self.process, *descendants(self.process)]
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.stop()
        return len(processes)

    def stop(self) -> None:
        """End it as an operator does."""
        if self._serve is None:
            return
        self._serve.terminate()
        try:
            self._serve.wait(60)
        except subprocess.TimeoutExpired:
            self._serve.kill()
            self._serve.wait()
