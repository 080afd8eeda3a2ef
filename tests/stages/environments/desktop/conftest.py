from pathlib import Path

import pytest

from trajmill.stages.environments.desktop.spec import OsworldSpec

OSWORLD = Path(__file__).parents[4] / ".venv-osworld"


@pytest.fixture(scope="session")
def osworld() -> OsworldSpec:
    """OSWorld's own code, where it is installed."""
    if not (OSWORLD / "installed").exists():
        pytest.skip("OSWorld's code is not there: `make osworld-env` installs it")
    return OsworldSpec(python=OSWORLD / "bin/python")
