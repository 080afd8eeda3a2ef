from collections.abc import Iterator

import pytest

from tests.stages.environments.browser.playing import PATIENT, SharedBrowser
from tests.stages.environments.browser.site import serving
from trajmill.stages.environments.browser.environment import BrowserFactory


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    with serving() as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[SharedBrowser]:
    shared = SharedBrowser(BrowserFactory(timeouts=PATIENT))
    yield shared
    shared.close()
