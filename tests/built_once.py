"""Builds what is slow to build once for all workers of a session of tests."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def built_once(factory: pytest.TempPathFactory, name: str, build: Callable[[Path], object]) -> Path:
    """The folder `name` of the session. The first worker that asks builds it, and the others wait."""
    session = factory.getbasetemp()
    return built_in(session.parent if "PYTEST_XDIST_WORKER" in os.environ else session, name, build)


def built_in(parent: Path, name: str, build: Callable[[Path], object]) -> Path:
    """The folder `name` of a folder of any session; who asks first builds it, and others wait."""
    folder, finished = parent / name, parent / f"{name}.finished"
    with FileLock(parent / f"{name}.lock"):
        if not finished.exists():
            shutil.rmtree(folder, ignore_errors=True)
            build(folder)
            finished.touch()
    return folder


def copy_of(warehouse: Path, to: Path) -> Path:
    """Copy a warehouse that tests of other workers may read: each of them replaces its file of views."""
    return Path(shutil.copytree(warehouse, to, ignore=shutil.ignore_patterns(".trajmill.duckdb.*")))
