"""Beam's own job service, in a process of its own; prints its port.

Run as `python -m tests.pipelines.engine.job_service FOLDER`. Each job gets two workers: the service has no option for
their number, and by itself takes one.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from apache_beam.runners.portability.fn_api_runner import fn_runner
from apache_beam.runners.portability.local_job_service import LocalJobServicer

WORKERS = 2


class SeveralWorkers(fn_runner.FnApiRunner):
    """The runner that the service hands its jobs to, with two workers."""

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords)
        self._num_workers = WORKERS


def serve(folder: str) -> None:
    """Serve jobs until the process is killed."""
    vars(fn_runner)["FnApiRunner"] = SeveralWorkers
    service = LocalJobServicer(folder)
    print(service.start_grpc_server(0), flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    serve(sys.argv[1])
