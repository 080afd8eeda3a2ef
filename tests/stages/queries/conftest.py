import pytest

from trajmill.schemas.record import Origin


@pytest.fixture(scope="session")
def origin() -> Origin:
    return Origin(round=1, run_id="run", code_version="code")
