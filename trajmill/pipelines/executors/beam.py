"""Runs shards as a Beam pipeline on the machines of an engine; the one module that imports Beam."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from functools import cached_property
from importlib.util import find_spec
from typing import Any

from trajmill.pipelines.executors.packing import Packed, packed
from trajmill.pipelines.executors.watch import Start, run_watched
from trajmill.pipelines.fan_out import BeamSettings, DoShard, Shard
from trajmill.schemas.names import instead_of


@contextmanager
def _quiet() -> Iterator[None]:
    """Drop Beam's warning about Google's libraries, and the handler of the root logger that comes with it."""
    handlers = list(logging.getLogger().handlers)
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        logging.getLogger().handlers[:] = handlers


with _quiet():
    import apache_beam as beam
    from apache_beam.metrics.metric import Metrics
    from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
    from apache_beam.runners.runner import create_runner

_REFUSED_MODES = {"multi_threading": "loses rows", "multi_processing": "waits for ever for a process that was killed"}
_NO_LIST_OF_PACKAGES = "--experiments=disable_logging_submission_environment"
"""Beam would run `pip freeze` before each job, which takes seconds, and no stage needs it."""


def run_on_machines(do: DoShard[Any], shards: Sequence[Shard], settings: BeamSettings) -> None:
    """Do every shard, as one element of a pipeline; returns when all are done.

    Raises TrajmillError if `do` raised it, no job service takes the job, or workers were lost too often.
    """
    store, folder = do.warehouse.store, do.warehouse.name(do.at.staging(do.warehouse))
    work = packed(do, store, f"{folder}/work")
    sent = [Shard(name, packed(payload, store, f"{folder}/payload-{name}")) for name, payload in shards]
    options = [f"--runner={settings.runner}", _NO_LIST_OF_PACKAGES, *settings.options]

    def pipeline_of(start: Start) -> beam.Pipeline:
        pipeline = beam.Pipeline(options=PipelineOptions(options))
        _ = pipeline | "Shards" >> beam.Create(sent) | do.at.stage >> beam.ParDo(_DoPackedShard(work, start))
        return pipeline

    run_watched(pipeline_of, do.warehouse, do.at, settings.restarts, settings.silent_seconds)


class _DoPackedShard(beam.DoFn):
    """Does shards on another machine, with heartbeats."""

    def __init__(self, work: Packed, start: Start) -> None:
        self._work, self._start = work, start

    def process(self, element: Shard) -> Iterable[str]:
        with self._start.working_on(element.name):
            rows = self._do(Shard(element.name, element.payload.open()), self._start.attempt)
        for table, count in rows.items():
            Metrics.counter("trajmill", f"{table}_rows").inc(count)
        yield element.name

    @cached_property
    def _do(self) -> DoShard[Any]:
        """The work; opened where errors are reported, since files may be fetched for it."""
        opened: DoShard[Any] = self._work.open()
        return opened


def runner_mistake(name: str) -> str | None:
    """What is wrong with the name of a Beam runner (one that Beam lists, or `module.Class`); None if it is valid."""
    try:
        create_runner(name)
    except ImportError as error:
        return f"{name} cannot be imported ({error})"
    except (ValueError, AttributeError):
        return f"there is no Beam runner {name!r}; {instead_of(name, StandardOptions.KNOWN_RUNNER_NAMES)}"
    if name == "DataflowRunner" and find_spec("apitools") is None:
        return "DataflowRunner needs pip install 'apache-beam[gcp]'"
    return None


def options_mistake(settings: BeamSettings) -> str | None:
    """What is wrong with the options of a runner; None if nothing is.

    Engines on other machines have options of their own, so unknown ones are refused only on this machine.
    """
    for option in settings.options:
        if not option.startswith("--"):
            return f"{option!r} is no option; write it as on a command line, e.g. --job_endpoint=localhost:8099"
    try:
        given = _parsed(settings.options)
    except ValueError as error:
        return str(error)
    if given.get("runner"):
        return "name the runner with beam.runner"
    mode = given.get("direct_running_mode")
    if mode in _REFUSED_MODES:
        return f"Beam's {mode} {_REFUSED_MODES[mode]}; set rollout.workers to the number of processes instead"
    if settings.runner == "PortableRunner" and not given.get("job_endpoint"):
        return "PortableRunner needs the address of a job service, as --job_endpoint=localhost:8099"
    known = _parsed(())
    unknown = next((name for name in given if name not in known), None)
    if settings.on_this_machine and unknown is not None:
        return f"Beam has no option --{unknown}; {instead_of(unknown, known)}"
    return None


def _parsed(options: Sequence[str]) -> dict[str, Any]:
    """Beam's options, and unknown ones, by name. Raises ValueError, with Beam's message, for a refused value."""
    printed = io.StringIO()
    try:
        with redirect_stderr(printed):
            return dict(PipelineOptions(list(options)).get_all_options(retain_unknown_options=True))
    except SystemExit:
        raise ValueError(printed.getvalue().strip().rpartition("error: ")[2]) from None
