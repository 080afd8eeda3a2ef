"""Runs shards as a Beam pipeline on the machines of an engine; the one module that imports Beam.

Beam's Python runners neither retry nor notice a lost machine: a killed worker ends the job, and one that is cut off
blocks it for ever. Flink and Dataflow handle both themselves. So workers send heartbeats, and a job whose workers are
lost is started again; it finds what earlier starts have finished. Heartbeats and errors travel through the store, in a
folder for each start in the stage's staging: the portable runners pass on errors only as the text of a traceback.
"""

from __future__ import annotations

import io
import json
import logging
import math
import pickle
import re
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from functools import cached_property
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from queue import Empty, Queue
from typing import Any, NamedTuple

from trajmill.pipelines.fan_out import BeamSettings, Shard, StageWork
from trajmill.schemas.errors import BadInputError, TrajmillError
from trajmill.schemas.names import instead_of
from trajmill.schemas.spec import Spec, content_of, decisive_fields
from trajmill.warehouse.atomic import replacing
from trajmill.warehouse.store.base import FileStore, StoreError


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
_BEATS_IN_SILENCE = 10
"""Heartbeats that must be missing before workers are taken for lost."""
_USUAL_SECONDS = 30.0
"""Seconds between two heartbeats where no silence is too long."""
_STARTING_SECONDS = 900.0
"""Silence that is not too long before the first heartbeat: an engine may have to start machines."""
_LONGEST_PAUSE_SECONDS = 60.0
_LONGEST_REASON = 300
_DETAILS = re.compile(r'details = "([^"]+)"')
"""The reason of a broken connection in the text of a gRPC error."""
_LOG = logging.getLogger(__name__)


def run_on_machines(work: StageWork[Any], shards: Sequence[Shard], settings: BeamSettings) -> None:
    """Do every shard, as one element of a pipeline; start it again when workers are lost, with a line in the log.

    Raises TrajmillError if the work raised it, no job service takes the job, or workers were lost once too often.
    """
    at, store = work.at, work.warehouse.store
    folder = work.warehouse.name(at.staging(work.warehouse))
    packed_work = packed(work, store, f"{folder}/work")
    sent = [Shard(name, packed(payload, store, f"{folder}/payload-{name}")) for name, payload in shards]
    options = [f"--runner={settings.runner}", _NO_LIST_OF_PACKAGES, *settings.options]
    numbers, reason = count(1), None
    every_seconds = settings.silent_seconds / _BEATS_IN_SILENCE or _USUAL_SECONDS
    for restart in range(settings.restarts + 1):
        starts = (_Start(packed_work, at.stage, f"{folder}/heartbeats", number, every_seconds) for number in numbers)
        # A number is taken once; a file's name claims it.
        start = next(start for start in starts if store.claim(start.name("started")))
        pipeline = beam.Pipeline(options=PipelineOptions(options))
        _ = pipeline | "Shards" >> beam.Create(sent) | at.stage >> beam.ParDo(start)
        reason = _lost(pipeline, start, settings.silent_seconds or math.inf, is_first=not restart)
        if reason is None:
            return
        if restart < settings.restarts:
            line = "stage %s: %s; it is started again (%d of %d), finished work is kept"
            _LOG.warning(line, at.stage, reason, restart + 1, settings.restarts)
            # Whoever keeps the workers alive needs a moment for a new one.
            time.sleep(min(2.0**restart, _LONGEST_PAUSE_SECONDS))
    raise TrajmillError(
        f"stage {at.stage}: {reason}, the last of {settings.restarts + 1} starts (beam.restarts); see to the "
        "workers and run the same command again, finished work is kept"
    )


class _Start(beam.DoFn):
    """One start of a job: does shards on another machine, with heartbeats; its number is unique within the stage."""

    def __init__(self, work: Packed, stage: str, folder: str, number: int, every_seconds: float) -> None:
        self.store, self.stage, self.every_seconds = work.store, stage, every_seconds
        self._work, self._folder, self._number = work, folder, number

    def name(self, *parts: str) -> str:
        return "/".join((self._folder, f"{self._number:06d}", *parts))

    def process(self, element: Shard) -> Iterable[str]:
        with self._working_on(element.name):
            # Files of an earlier start that still writes have other names.
            rows = self._opened.do(Shard(element.name, element.payload.open()), f"-s{self._number}")
        for table, written in rows.items():
            Metrics.counter("trajmill", f"{table}_rows").inc(written)
        yield element.name

    @cached_property
    def _opened(self) -> StageWork[Any]:
        """The work; opened where errors are reported, since files may be fetched for it."""
        opened: StageWork[Any] = self._work.open()
        return opened

    @contextmanager
    def _working_on(self, shard: str) -> Iterator[None]:
        """Send heartbeats while the block lasts, and leave the error that ends it."""
        ended = threading.Event()

        def stay_alive() -> None:
            for number in count():
                # The work itself uses the same store, and reports when it does not answer.
                with suppress(StoreError):
                    self.store.put(self.name("alive", shard), b"%d" % number)
                if ended.wait(self.every_seconds):
                    return

        alive = threading.Thread(target=stay_alive, daemon=True)
        alive.start()
        try:
            yield
        except Exception as error:
            line = str(error)
            if not isinstance(error, TrajmillError):
                line = f"stage {self.stage}: a worker failed: {type(error).__name__}: {error}"
            left = {"bad_input": isinstance(error, BadInputError), "line": line}
            self.store.put(self.name("errors", shard), json.dumps(left).encode())
            raise
        finally:
            ended.set()
            alive.join()


def _lost(pipeline: beam.Pipeline, start: _Start, silent_seconds: float, is_first: bool) -> str | None:
    """Run a job; return why it ended, or seems to have, without its work being done; None if it was done."""
    submitted: list[Any] = []
    ended: Queue[str] = Queue()

    def run() -> None:
        try:
            submitted.append(pipeline.run())
            submitted[0].wait_until_finish()
        except Exception as error:
            # The details of a broken connection, else the last line with words, as of a worker's traceback.
            lines = [line.strip() for line in str(error).splitlines() if any(letter.isalnum() for letter in line)]
            details = _DETAILS.search(str(error))
            ended.put((details[1] if details else lines[-1] if lines else type(error).__name__)[:_LONGEST_REASON])
        else:
            ended.put("")

    def cancel(job: Any) -> None:
        try:
            job.cancel()
        except Exception as error:
            _LOG.debug("the job could not be cancelled: %s", error)

    # Beam's waiting for the end cannot be interrupted.
    threading.Thread(target=run, daemon=True).start()
    beats, since = start.name("alive"), time.monotonic()
    seen, patience = start.store.files(beats), max(silent_seconds, _STARTING_SECONDS)
    reason: str | None = None
    try:
        while reason is None and time.monotonic() - since <= patience:
            with suppress(Empty):
                reason = ended.get(timeout=start.every_seconds)
            if reason is None and (now := start.store.files(beats)) != seen:
                seen, since, patience = now, time.monotonic(), silent_seconds
    finally:
        # Neither does it end after Ctrl-C; and a machine that is cut off does not answer.
        for job in submitted if reason is None else ():
            threading.Thread(target=cancel, args=(job,), daemon=True).start()
    if reason is None:
        return "no worker sends a heartbeat any more"
    if not reason:
        return None
    for file in start.store.files(start.name("errors")):
        left = json.loads(start.store.get(file.name) or b"{}")
        raise (BadInputError if left.get("bad_input") else TrajmillError)(left.get("line", "a worker failed"))
    if submitted:
        return f"the job ended ({reason})"
    lost = f"no job service takes the job ({reason})"
    if is_first:
        raise TrajmillError(f"stage {start.stage}: {lost}; correct beam.runner and beam.options, or start it")
    return lost


def runner_mistake(name: str) -> str | None:
    """Say what is wrong with the name of a Beam runner (one that Beam lists, or `module.Class`); None if nothing is."""
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
    """Say what is wrong with options; unknown ones only on this machine: engines on others have their own."""
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
    mode = given.get("direct_running_mode")
    if mode in _REFUSED_MODES:
        return f"Beam's {mode} {_REFUSED_MODES[mode]}; set rollout.workers to the number of processes instead"
    if settings.runner == "PortableRunner" and not given.get("job_endpoint"):
        return "PortableRunner needs the address of a job service, as --job_endpoint=localhost:8099"
    known = PipelineOptions([]).get_all_options()
    unknown = next((name for name in given if name not in known), None)
    if settings.on_this_machine and unknown is not None:
        return f"Beam has no option --{unknown}; {instead_of(unknown, known)}"
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
