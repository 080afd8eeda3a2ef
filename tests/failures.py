"""What an environment raises."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from trajmill.schemas.errors import EnvironmentFailure, FailureClass


@contextmanager
def failing(kind: FailureClass, match: str | None = None) -> Iterator[None]:
    """An environment fails in one line, with its class."""
    with pytest.raises(EnvironmentFailure, match=match) as caught:
        yield
    assert caught.value.failure_class is kind and "\n" not in str(caught.value)
