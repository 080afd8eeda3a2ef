"""What is used of Beam, imported without what nothing uses: a warning about Google's libraries, pandas and MongoDB.

Everything else imports Beam from here, so that the warning is on no terminal. Beam does without pandas and MongoDB's
libraries where they are not installed; each process would take a third of Beam's seconds to import them.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

_UNUSED: Final = frozenset({"pandas", "bson", "pymongo"})


class _NotInstalled:
    """Takes the libraries for ones that are not installed, in the thread that imports Beam."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> None:
        if name in _UNUSED and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"Beam is imported without {name}", name=name)


@contextmanager
def _without_unused() -> Iterator[None]:
    """Inside, the libraries that nothing uses are not imported; whoever imports them later gets them."""
    finder = _NotInstalled()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


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


with _silent_root_logger(), _without_unused():
    import apache_beam as beam
    from apache_beam.metrics.metric import Metrics
    from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
    from apache_beam.runners.runner import PipelineResult, create_runner

__all__ = ["Metrics", "PipelineOptions", "PipelineResult", "StandardOptions", "beam", "create_runner"]
