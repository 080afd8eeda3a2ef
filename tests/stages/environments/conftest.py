from collections.abc import Iterator
from typing import Any

import pytest

from tests.stages.environments.shared_factory import SharedFactory


@pytest.fixture
def environment(browser: SharedFactory[Any]) -> Iterator[Any]:
    made = browser.run(browser.factory())
    yield made
    browser.run(made.close())
