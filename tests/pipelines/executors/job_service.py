"""Beam's own job service, in a process of its own; prints its port.

Run as `python -m tests.pipelines.executors.job_service HOST`, in a folder of its own. HOST is the name under which
others reach it, for which the service has no option. Nor has it one for the number of workers: each job gets two.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any
from unittest.mock import patch

from apache_beam.runners.portability.fn_api_runner import fn_runner
from apache_beam.runners.portability.fn_api_runner.worker_handlers import ExternalWorkerHandler
from apache_beam.runners.portability.local_job_service import LocalJobServicer

WORKERS = 2


class SeveralWorkers(fn_runner.FnApiRunner):
    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords)
        self._num_workers = WORKERS


def serve(host: str) -> None:
    vars(fn_runner)["FnApiRunner"] = SeveralWorkers
    service = LocalJobServicer(str(Path.cwd()))
    # What it listens to, what it tells clients, and what it tells workers.
    vars(service).update(get_bind_address=lambda: "[::]", get_service_address=lambda: host)
    with patch.object(ExternalWorkerHandler, "host_from_worker", lambda handler: host):
        print(service.start_grpc_server(0), flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    serve(sys.argv[1])
