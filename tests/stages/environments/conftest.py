from collections.abc import Iterator
from typing import Any

import pytest

from tests.stages.environments.shared_factory import SharedFactory


@pytest.fixture(scope="module")
def browser(request: pytest.FixtureRequest) -> Iterator[SharedFactory[Any]]:
    """The browser of a module, which says how it is started."""
    shared = SharedFactory(request.module.start_browser())
    yield shared
    shared.close()


@pytest.fixture
def environment(browser: SharedFactory[Any]) -> Iterator[Any]:
    made = browser.run(browser.factory())
    yield made
    browser.run(made.close())
