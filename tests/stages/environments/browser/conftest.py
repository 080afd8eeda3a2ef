from collections.abc import Iterator

import pytest

from tests.stages.environments.browser.site import serving


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    with serving() as address:
        yield address
