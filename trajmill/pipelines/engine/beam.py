"""What is used of Beam, imported without what nothing uses: a warning about Google's libraries, pandas and MongoDB.

Everything else imports Beam from here, so that the warning is on no terminal. Beam does without pandas and MongoDB's
libraries where they are not installed; each process would take a third of Beam's seconds to import them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from trajmill.schemas.lean_imports import without_libraries

_UNUSED: Final = frozenset({"pandas", "bson", "pymongo"})


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


with _silent_root_logger(), without_libraries(_UNUSED):
    import apache_beam as beam
    from apache_beam.metrics.metric import Metrics
    from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
    from apache_beam.runners.runner import PipelineResult, create_runner

__all__ = ["Metrics", "PipelineOptions", "PipelineResult", "StandardOptions", "beam", "create_runner"]
