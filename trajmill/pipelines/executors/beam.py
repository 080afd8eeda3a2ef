"""Runs shards as a Beam pipeline, in this process or on the machines of an engine.

Everything else imports Beam from here: its warning about Google's libraries is dropped.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any

from trajmill.pipelines.executors.base import DoShard, Shard
from trajmill.pipelines.executors.packing import Packed, packed
from trajmill.pipelines.executors.watch import Start, run_watched
from trajmill.schemas.errors import TrajmillError
from trajmill.schemas.names import instead_of


@contextmanager
def _silent_root_logger() -> Iterator[None]:
    """Drop what `logging.warning` logs in the block, and leave the root logger without a handler."""
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
    from apache_beam.runners.runner import create_runner

_IN_PROCESS = frozenset({"FnApiRunner", "DirectRunner", "BundleBasedDirectRunner"})
_REFUSED_MODES = {"multi_threading": "loses rows", "multi_processing": "waits for ever for a process that was killed"}
_NO_LIST_OF_PACKAGES = "--experiments=disable_logging_submission_environment"
"""Beam would run `pip freeze` before each job, which takes seconds, and no stage needs it."""


@dataclass(frozen=True)
class BeamSettings:
    """The Beam runner and its options. The in-process runner is named, because Beam's default downloads another."""

    runner: str = "FnApiRunner"
    options: tuple[str, ...] = ()
    """Further Beam options, e.g. `--flink_master=...`."""
    restarts: int = 5
    """How often a stage is started again after its workers were lost."""
    silent_seconds: float = 300.0
    """Seconds without a heartbeat of any worker after which they are taken for lost; 0 waits for ever."""

    @property
    def on_this_machine(self) -> bool:
        """Whether all workers run on this machine, and so see its files."""
        return self.runner.rpartition(".")[2] in _IN_PROCESS

    def pipeline_options(self) -> PipelineOptions:
        """The options in Beam's class."""
        own = () if self.on_this_machine else (_NO_LIST_OF_PACKAGES,)
        return PipelineOptions([f"--runner={self.runner}", *own, *self.options])


@dataclass(frozen=True)
class BeamExecutor:
    """A Beam pipeline with one element per shard; implements `Executor`."""

    settings: BeamSettings

    def run(self, do: DoShard, shards: Sequence[Shard]) -> None:
        """Run the pipeline to its end."""
        stage = do.at.stage
        if self.settings.on_this_machine:
            with _original_errors(stage):
                self._pipeline(shards, stage, _DoShard(do)).run().wait_until_finish()
            return
        store, folder = do.warehouse.store, do.warehouse.name(do.at.staging(do.warehouse))
        work = packed(do, store, f"{folder}/work")
        sent = [Shard(name, packed(payload, store, f"{folder}/payload-{name}")) for name, payload in shards]

        def pipeline(start: Start) -> beam.Pipeline:
            return self._pipeline(sent, stage, _DoPackedShard(work, start))

        run_watched(pipeline, do.warehouse, do.at, self.settings.restarts, self.settings.silent_seconds)

    def _pipeline(self, shards: Sequence[Shard], stage: str, do: beam.DoFn) -> beam.Pipeline:
        pipeline = beam.Pipeline(options=self.settings.pipeline_options())
        # Reshuffles only when there is more than one element.
        _ = pipeline | "Shards" >> beam.Create(list(shards)) | stage >> beam.ParDo(do)
        return pipeline


class _DoShard(beam.DoFn):
    """Does shards in this process."""

    def __init__(self, do: DoShard) -> None:
        self._do = do

    def process(self, element: Shard) -> Iterable[str]:
        for table, rows in self._rows(element).items():
            Metrics.counter("trajmill", f"{table}_rows").inc(rows)
        yield element.name

    def _rows(self, shard: Shard) -> Mapping[str, int]:
        return self._do(shard)


class _DoPackedShard(_DoShard):
    """Does shards on another machine, with heartbeats."""

    def __init__(self, work: Packed, start: Start) -> None:
        self._work, self._start = work, start

    def _rows(self, shard: Shard) -> Mapping[str, int]:
        with self._start.working_on(shard.name):
            return self._do(Shard(shard.name, shard.payload.open()), self._start.attempt)

    @cached_property
    def _do(self) -> DoShard:  # type: ignore[override]
        """The work; opened where errors are reported, since files may be fetched for it."""
        opened: DoShard = self._work.open()
        return opened


@contextmanager
def _original_errors(step: str) -> Iterator[None]:
    """Remove what Beam appends to the message of an error, which is one line for the user."""
    try:
        yield
    except TrajmillError as error:
        error.args = (str(error).removesuffix(f" [while running '{step}']"),)
        raise


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
    """The values of all of Beam's options, and of unknown ones, by name.

    Raises:
        ValueError: Beam refuses a value; the message is Beam's.
    """
    printed = io.StringIO()
    try:
        with redirect_stderr(printed):
            return dict(PipelineOptions(list(options)).get_all_options(retain_unknown_options=True))
    except SystemExit:
        raise ValueError(printed.getvalue().strip().rpartition("error: ")[2]) from None
