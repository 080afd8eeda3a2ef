from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from tests.stages.environments.shared_factory import SharedFactory


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine, in the loop of the browser that it shares or in one of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    named = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    shared = pyfuncitem.funcargs.get("browser")
    (shared.run if isinstance(shared, SharedFactory) else asyncio.run)(pyfuncitem.obj(**named))
    return True


@pytest.fixture
def environment(browser: SharedFactory[Any]) -> Iterator[Any]:
    made = browser.run(browser.factory())
    yield made
    browser.run(made.close())
