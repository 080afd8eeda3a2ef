"""Runs shards as a Beam pipeline on the machines of an engine; the one module that imports Beam.

A shard is one element of `Create | ParDo`, so an engine may do it anywhere, again, or twice. An error comes back from
Dask as it was raised; other engines pass on errors as the text of a traceback, so the error is also stored.
"""

from __future__ import annotations

import io
import json
import logging
import pickle
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager, nullcontext, redirect_stderr, suppress
from functools import cached_property, lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from trajmill.pipelines.executors import cluster
from trajmill.pipelines.fan_out import DASK, BeamSettings, Shard, StageWork
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.names import instead_of
from trajmill.schemas.spec import Spec, content_of, decisive_fields
from trajmill.stages.concurrency import in_thread
from trajmill.warehouse.atomic import replacing
from trajmill.warehouse.store.base import FileStore


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
    from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions, StandardOptions
    from apache_beam.runners.portability.portable_runner import PortableRunner
    from apache_beam.runners.runner import create_runner

_DASK_RUNNER = "apache_beam.runners.dask.dask_runner.DaskRunner"
_ALWAYS = (
    # Beam would run `pip freeze` before each job, which takes seconds, and no stage needs it.
    "--experiments=disable_logging_submission_environment",
    # It also bounds a portable engine's streams of job states: its default would cut off stages of five minutes.
    f"--job_server_timeout={7 * 24 * 3600}",
)
_CANCEL_SECONDS = 2.0
_LONGEST_REASON = 300
_DETAILS = re.compile(r'details = "([^"]+)"')
"""The reason of a broken connection in the text of a gRPC error."""


def run_on_machines(work: StageWork[Any], shards: Sequence[Shard], settings: BeamSettings, workers: int) -> None:
    """Do every shard, as one element of a pipeline.

    Raises TrajmillError if the work raised it, no engine takes the job, or the engine gave up, as after lost machines.
    """
    at, store = work.at, work.warehouse.store
    folder, execution = work.warehouse.name(at.staging(work.warehouse)), uuid4().hex[:8]
    do = _DoShard(packed(work, store, f"{folder}/work-{execution}"), at.stage, f"{folder}/errors-{execution}")
    sent = [Shard(name, packed(payload, store, f"{folder}/payload-{name}")) for name, payload in shards]
    options = [*_ALWAYS, *settings.options]
    if is_dask := settings.runner == DASK:
        scheduler = cluster.running_client(settings.cluster, workers).scheduler.address
        # One task for each shard.
        options += [f"--runner={_DASK_RUNNER}", f"--dask_client_address={scheduler}", "--dask_partition_size=1"]
    else:
        options += [f"--runner={settings.runner}"]
    job: Any = None
    try:
        if not is_dask:
            options += _job_service(settings.runner, settings.options)
        pipeline = beam.Pipeline(options=PipelineOptions(options))
        _ = pipeline | "Shards" >> beam.Create(sent, reshuffle=not is_dask) | at.stage >> beam.ParDo(do)
        with cluster.watched(work, settings) if is_dask else nullcontext():
            job = pipeline.run(test_runner_api=False)  # Beam's self-test would build the whole graph twice.
            _wait_for(job)
    except TrajmillError:
        raise
    except Exception as error:
        for file in store.files(do.errors):
            left = json.loads(store.get(file.name) or b"{}")
            raise (BadInputError if left.get("bad_input") else TrajmillError)(left.get("line")) from None
        where = "no job service takes the job" if job is None else "the job ended"
        raise TrajmillError(
            f"stage {at.stage}: {where} ({_reason(error)}); see to beam.runner, beam.options and the workers and run "
            "the same command again, finished work is kept"
        ) from error
    finally:
        if is_dask and job is not None:
            # Beam opens a client for each job and leaves it open.
            job.client.close()


@lru_cache(maxsize=1)
def _job_service(runner: str, options: tuple[str, ...]) -> tuple[str, ...]:
    """Start a job service for all stages of this process, if the runner starts one of its own; return its option."""
    given, engine = PipelineOptions(list(options)), create_runner(runner)
    if not isinstance(engine, PortableRunner) or given.view_as(PortableOptions).job_endpoint:
        return ()
    # Beam would start a service for each job, and stop them only when this process ends.
    address = engine.default_job_server(given).start()
    # An engine that submits jobs as jars has no such service.
    return (f"--job_endpoint={address}",) if isinstance(address, str) else ()


class _DoShard(beam.DoFn):
    def __init__(self, work: Packed, stage: str, errors: str) -> None:
        self.errors, self._work, self._stage, self._version = errors, work, stage, version("trajmill")

    def process(self, element: Shard) -> Iterable[str]:
        where = cluster.worker_name()
        try:
            if (here := version("trajmill")) != self._version:
                raise BadInputError(f"it has trajmill {here} and this run {self._version}; install the same")
            # Files of another execution of this shard, which may still write, have other names.
            with cluster.telling(self._opened, element.name):
                made = self._opened.do(Shard(element.name, element.payload.open()), f"-{uuid4().hex[:8]}")
        except Exception as error:
            line, is_bad_input = f"{where}: {error}", isinstance(error, BadInputError)
            if not isinstance(error, TrajmillError):
                line = f"stage {self._stage}: {where} failed: {type(error).__name__}: {error}"
            with suppress(Exception):
                left = {"bad_input": is_bad_input, "line": line}
                self._work.store.put(f"{self.errors}/{element.name}", json.dumps(left).encode())
            # Without the cause, which the engine may be unable to pickle.
            raise (BadInputError if is_bad_input else TrajmillError)(line) from None
        for table in made.files:
            Metrics.counter("trajmill", f"{table}_rows").inc(made.rows(table))
        yield element.name

    @cached_property
    def _opened(self) -> StageWork[Any]:
        """The work; opened where errors are reported, since files may be fetched for it."""
        opened: StageWork[Any] = self._work.open()
        return opened


def _wait_for(job: Any) -> None:
    """Wait for the end of a job; cancel it if that is interrupted or an error ends it."""
    try:
        # Beam's waiting cannot be interrupted, and a machine that is cut off does not answer.
        in_thread(job.wait_until_finish).result()
    except BaseException:
        wait([in_thread(job.cancel)], _CANCEL_SECONDS)
        raise


def _reason(error: Exception) -> str:
    """Return the details of a broken connection, else the last line with words, as of a worker's traceback."""
    lines = [line.strip() for line in str(error).splitlines() if any(letter.isalnum() for letter in line)]
    details = _DETAILS.search(str(error))
    return (details[1] if details else lines[-1] if lines else type(error).__name__)[:_LONGEST_REASON]


def runner_mistake(name: str) -> str | None:
    """Say what is wrong with the name of a Beam runner (one that Beam lists, or `module.Class`); None if nothing is."""
    if name == DASK:
        return cluster.MISSING if find_spec("distributed") is None else None
    try:
        create_runner(name)
    except ImportError as error:
        return f"{name} cannot be imported ({error})"
    except (ValueError, AttributeError):
        return f"there is no Beam runner {name!r}; {instead_of(name, [DASK, *StandardOptions.KNOWN_RUNNER_NAMES])}"
    if name == "DataflowRunner" and find_spec("apitools") is None:
        return "DataflowRunner needs pip install 'apache-beam[gcp]'"
    return None


def options_mistake(settings: BeamSettings) -> str | None:
    """Say what is wrong with options; unknown ones are the engine's own."""
    for option in settings.options:
        if not option.startswith("--"):
            return f"{option!r} is no option; write it as on a command line, e.g. --job_endpoint=localhost:8099"
    printed = io.StringIO()
    try:
        with redirect_stderr(printed):
            given = PipelineOptions(list(settings.options)).get_all_options(retain_unknown_options=True)
    except SystemExit:
        return printed.getvalue().strip().rpartition("error: ")[2]
    except ValueError as error:
        return str(error)
    if given.get("runner"):
        return "name the runner with beam.runner"
    if settings.on_this_machine and settings.options:
        return f"{settings.runner} takes none; set rollout.workers for more processes, or another beam.runner"
    if settings.runner == "PortableRunner" and not given.get("job_endpoint"):
        return "PortableRunner needs the address of a job service, as --job_endpoint=localhost:8099"
    return None


_USER_FILES = "files"
"""Folder of the store for files that the user has outside of the warehouse."""
_LARGEST_MESSAGE = 64 << 10
"""Bytes above which a value is stored instead of sent: engines bound the size of a job's graph."""


class Packed(NamedTuple):
    pickled: bytes | None
    """None if the store has it."""
    name: str
    store: FileStore

    def open(self) -> Any:
        """Return the value, once its files are on this machine."""
        pickled = self.pickled if self.pickled is not None else self.store.get(self.name)
        assert pickled is not None, "a stage stores its work before it is started"
        return _Unpickler(pickled, self.store).load()


def packed(value: object, store: FileStore, name: str) -> Packed:
    """Pack a value for machines that share nothing but a store, which gets it under `name` if it is large.

    A file or folder that it names travels as a reference. Files of the warehouse keep their names there; the user's own
    files are stored once, under a hash of their bytes. A worker fetches what it lacks. Files named by `OPERATIONAL`
    fields (tokens, programs, weights of a model server) belong to the machine that uses them: their paths stay.
    """
    buffer = io.BytesIO()
    _Pickler(buffer, store).dump(value)
    pickled = buffer.getvalue()
    if len(pickled) <= _LARGEST_MESSAGE:
        return Packed(pickled, name, store)
    store.put(name, pickled)
    return Packed(None, name, store)


class _Pickler(pickle.Pickler):
    def __init__(self, buffer: io.BytesIO, store: FileStore) -> None:
        super().__init__(buffer, pickle.HIGHEST_PROTOCOL)
        self._store = store

    def persistent_id(self, value: object) -> str | None:
        """Store a copy of a file or folder, and return its name; None for others, and where all see the folder."""
        if not isinstance(value, Path) or self._store.is_local:
            return None
        path, store = value.absolute(), self._store
        if path.is_relative_to(store.local):
            return path.relative_to(store.local).as_posix()
        if not path.exists():
            return None
        name = f"{_USER_FILES}/{content_of(path)}/{path.name}"
        for file in sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]:
            copy = f"{name}/{file.relative_to(path).as_posix()}" if path.is_dir() else name
            if store.size(copy) is None:
                with replacing(store.local / copy) as temporary:
                    shutil.copyfile(file, temporary)
                store.publish(copy)
        return name

    def reducer_override(self, value: object) -> Any:
        """Pickle the `OPERATIONAL` fields of a spec without references."""
        if not isinstance(value, Spec):
            return NotImplemented
        decisive = decisive_fields(type(value))
        fields = {name: getattr(value, name) for name in type(value).model_fields}
        shared = {name: each for name, each in fields.items() if name in decisive}
        own = {name: each for name, each in fields.items() if name not in decisive}
        return _spec, (type(value), value.model_fields_set, shared, pickle.dumps(own))


class _Unpickler(pickle.Unpickler):
    def __init__(self, pickled: bytes, store: FileStore) -> None:
        super().__init__(io.BytesIO(pickled))
        self._store = store

    def persistent_load(self, name: str) -> Path:
        """Fetch a file unless this machine has it, and return its path."""
        if self._store.size(name) is not None:
            return self._store.fetch(name)
        for file in self._store.files(name):
            self._store.fetch(file.name)
        # What is not stored, such as the folder of a cache, is made where it is used.
        return self._store.local / name


def _spec(kind: type[Spec], given: set[str], shared: dict[str, object], own: bytes) -> Spec:
    return kind.model_construct(given, **shared, **pickle.loads(own))
