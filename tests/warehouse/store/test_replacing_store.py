"""A server that ignores `If-None-Match`, as some do, replaces what is there: no lock could hold on it."""

from collections.abc import Iterator

import pytest

from tests.faulty_proxy import unconditional_proxy
from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.store.base import store_at

pytestmark = pytest.mark.slow


@pytest.fixture
def replacing_url(bucket_url: str, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with unconditional_proxy(s3_endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield bucket_url


def test_no_lock_is_held_on_it(replacing_url: str) -> None:
    store = store_at(replacing_url)
    assert store.create("a", b"1") and store.create("a", b"2"), "it replaces"
    for wait in (True, False):
        with (
            pytest.raises(BadInputError, match=r"\As3://[^\n]*only if it is absent[^\n]*\Z"),
            store.hold("staging/run/lock", wait=wait),
        ):
            pytest.fail("two could hold it")
