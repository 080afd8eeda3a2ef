"""Beam's own worker pool, in a process of its own; prints its port. Its workers are its threads."""

from __future__ import annotations

import threading

from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer


def serve() -> None:
    address, _ = BeamFnExternalWorkerPoolServicer.start()
    print(address.rpartition(":")[2], flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    serve()
