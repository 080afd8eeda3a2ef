"""Beam's names, imported without its warning about Google's libraries; everything else imports Beam from here."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def _silent_root_logger() -> Iterator[None]:
    """Inside, what is logged with `logging.warning` is dropped, and gives the root logger no handler that stays."""
    root, nowhere = logging.getLogger(), logging.NullHandler()
    root.addHandler(nowhere)
    root.addFilter(_drop)
    try:
        yield
    finally:
        root.removeFilter(_drop)
        root.removeHandler(nowhere)


def _drop(record: logging.LogRecord) -> bool:
    return False


with _silent_root_logger():
    import apache_beam as beam
    from apache_beam.metrics.metric import Metrics
    from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
    from apache_beam.runners.runner import PipelineResult, create_runner

__all__ = ["Metrics", "PipelineOptions", "PipelineResult", "StandardOptions", "beam", "create_runner"]
