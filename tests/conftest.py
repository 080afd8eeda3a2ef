import asyncio
import atexit
import gc
import inspect
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pytest
from execnet import XSpec
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.bucket_server import bucket_server, environment_for, new_bucket
from tests.built_once import built_in
from tests.forked_workers import fork_workers
from tests.other_buckets import BUCKET, CONTAINER, azurite, azurite_program, google_server
from tests.stages.environments.shared_factory import SharedFactory

# How long an example takes says nothing on a machine that is busy.
settings.register_profile("untimed", deadline=None, max_examples=40)
settings.register_profile("quick", deadline=None, max_examples=15)
settings.load_profile("untimed")

# All that is imported stays to the end: garbage collection looks in vain for what of it is garbage.
gc.disable()


def pytest_collection_finish() -> None:
    """Collects garbage from now on, but not among what is there by now."""
    gc.freeze()
    gc.enable()


# Python's own end collects what was imported; extension modules would call it leaked.
atexit.register(gc.unfreeze)


_TRAINERS: Final = "one process of each trainer"
_VLLM: Final = "one vLLM server"
_PREFECT: Final = "one Prefect server"
_TOGETHER: Final = {
    "tests/trainers/": _TRAINERS,
    "tests/vllm/test_policy.py": _VLLM,
    "tests/vllm/test_vllm.py": _VLLM,
    "tests/flows/nights/test_deployments.py::test_the_deployments_are_served": "a Prefect server of its own",
    "tests/flows/nights/": _PREFECT,
    "tests/flows/test_prefect_settings.py": _PREFECT,
    "tests/flows/test_secrets.py": _PREFECT,
}
"""What goes to one worker, because it shares what is slow to start; it comes first, being long."""

_LONGEST: Final = (
    "flows/test_cluster_run.py",
    "flows/test_bucket_run.py",
    "vllm/test_offline.py",
    "flows/test_asynchronous.py",
    "flows/test_deriving.py",
    "stages/training/hugging_face/test_training.py",
    "stages/environments/desktop/test_programs.py",
    "flows/tasks/test_judge.py",
    "flows/policies/test_addition.py",
    "flows/test_judging.py",
    "flows/test_environment_server.py",
)
"""Files that take a minute or more, the longest first: one that came late would keep its worker alone at the end."""
_FIRST: Final = ("vllm", "desktop", "browser", "slow")
"""Marks of tests that take long or wait: they come before all others, which fill the gaps at the end."""


class WholeFiles(LoadScopeScheduling):  # type: ignore[misc]
    """Gives each worker whole files, so that the tests of a file share what they build."""

    def _split_scope(self, nodeid: str) -> str:
        return _group(nodeid)


def pytest_xdist_setupnodes(config: pytest.Config, specs: list[XSpec]) -> None:
    """Makes the workers forks of one process, where that can be."""
    if sys.platform == "linux":
        fork_workers(config, specs)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> WholeFiles:
    """Chooses how tests are divided between the workers."""
    return WholeFiles(config, log)


_MARK_OF_FILE: Final = re.compile(r"^pytestmark = \[?pytest\.mark\.(\w+)", re.MULTILINE)
_ONLY_LEAVES_OUT: Final = re.compile(r"not \w+( and not \w+)*")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves a file unread if `-m` leaves out all of its tests: what they import would take seconds."""
    wanted = config.option.markexpr
    if not collection_path.match("test_*.py") or not _ONLY_LEAVES_OUT.fullmatch(wanted):
        return None
    mark = _MARK_OF_FILE.search(collection_path.read_text(encoding="utf-8"))
    return True if mark and mark[1] in wanted.split() else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the files with long tests first."""
    places: dict[Path, int] = {}
    for item in items:
        places[item.path] = min(_place(item), places.get(item.path, len(_LONGEST) + len(_FIRST)))
    items.sort(key=lambda item: places[item.path])


def _place(item: pytest.Item) -> int:
    if item.nodeid.startswith(tuple(_TOGETHER)):
        return -len(_TOGETHER) + list(_TOGETHER.values()).index(_group(item.nodeid))
    marks = {mark.name for mark in item.iter_markers()}
    signs = *(item.nodeid.startswith(f"tests/{name}") for name in _LONGEST), *(mark in marks for mark in _FIRST)
    return next((place for place, is_there in enumerate(signs) if is_there), len(signs))


def _group(nodeid: str) -> str:
    shared = (shared for place, shared in _TOGETHER.items() if nodeid.startswith(place))
    return next(shared, nodeid.partition("::")[0])


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine, in the loop of the browser that it shares or in one of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    named = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    shared = pyfuncitem.funcargs.get("browser")
    (shared.run if isinstance(shared, SharedFactory) else asyncio.run)(pyfuncitem.obj(**named))
    return True


@pytest.fixture(scope="session", autouse=True)
def copied_views(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Begins the views of a new warehouse with a copy of an empty one's: to make them anew takes 0.4 s each time."""
    from trajmill.warehouse.layout import Warehouse, create_warehouse
    from trajmill.warehouse.views import _update

    empty = tmp_path_factory.mktemp("views") / "empty.duckdb"
    _update(create_warehouse(empty.parent / "empty"), empty)

    def copy_and_update(warehouse: Warehouse, path: Path) -> None:
        if not path.exists():
            shutil.copyfile(empty, path)
        _update(warehouse, path)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("trajmill.warehouse.views._update", copy_and_update)
        yield


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """The address of an S3 server; one per worker."""
    with bucket_server() as endpoint:
        yield endpoint


@pytest.fixture
def bucket_url(s3_endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty folder in a bucket of the test's own; the environment leads to its server."""
    for name, value in environment_for(s3_endpoint, tmp_path / "caches").items():
        monkeypatch.setenv(name, value)
    return new_bucket(s3_endpoint)


@pytest.fixture
def azure_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty folder in a container of the test's own; the environment leads to its emulator."""
    program = azurite_program()
    if program is None:
        pytest.skip("Azurite is not there: `make azurite` installs it")
    with azurite(program, tmp_path / "azure") as environment:
        for name, value in {**environment, "XDG_CACHE_HOME": str(tmp_path / "caches")}.items():
            monkeypatch.setenv(name, value)
        yield f"abfs://{CONTAINER}/folder"


@pytest.fixture
def google_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty folder in a bucket of the test's own; the environment leads to its stand-in."""
    with google_server(tmp_path) as environment:
        for name, value in {**environment, "XDG_CACHE_HOME": str(tmp_path / "caches")}.items():
            monkeypatch.setenv(name, value)
        yield f"gs://{BUCKET}/folder"


@pytest.fixture(scope="session")
def empty_prefect_home(pytestconfig: pytest.Config) -> Path:
    """A folder of Prefect with an empty database; to be copied. Later sessions find it: Prefect migrates for 12 s."""
    assert pytestconfig.cache is not None
    return built_in(pytestconfig.cache.mkdir("prefect-homes"), version("prefect"), _make_prefect_home)


def _make_prefect_home(folder: Path) -> None:
    code = (
        "import asyncio; from prefect.server.database import provide_database_interface\n"
        "asyncio.run(provide_database_interface().create_db())"
    )
    folder.mkdir()
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PREFECT_HOME": str(folder)})


@pytest.fixture
def prefect_home(empty_prefect_home: Path, tmp_path: Path) -> Path:
    """A folder of Prefect of the test's own, with an empty database."""
    return Path(shutil.copytree(empty_prefect_home, tmp_path / "prefect"))


@pytest.fixture(scope="session")
def prefect_server(empty_prefect_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A Prefect server of the tests' own; its folder, with its database and results; one per session."""
    from trajmill.flows.prefect_settings import short_lived_server

    folder = tmp_path_factory.mktemp("prefect")
    home = shutil.copytree(empty_prefect_home, folder / "home")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PREFECT_HOME", str(home))
        # A busy machine may answer late.
        environment.setenv("PREFECT_API_REQUEST_TIMEOUT", "280")
        environment.delenv("PREFECT_API_URL", raising=False)
        with short_lived_server(folder / "server.log"):
            yield folder
