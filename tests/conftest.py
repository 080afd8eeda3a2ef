from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

# How long an example takes says nothing on a machine that is busy.
settings.register_profile("untimed", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=15)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A Prefect server of the tests' own, with its database and results in a temporary folder; one per session."""
    from trajmill.flows.prefect_settings import short_lived_server

    folder = tmp_path_factory.mktemp("prefect")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PREFECT_HOME", str(folder))
        environment.delenv("PREFECT_API_URL", raising=False)
        with short_lived_server(folder / "server.log"):
            yield
