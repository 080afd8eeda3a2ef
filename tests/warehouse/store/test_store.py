from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.store.base import FileStore, store_at


def test_a_file_is_put_read_listed_and_deleted(store: FileStore) -> None:
    assert store.get("a/b.json") is None and store.size("a/b.json") is None and store.files("a") == []
    store.put("a/b.json", b"one")
    store.put("a/b.json", b"three")
    store.put("a/deep/c", b"")
    store.put("other", b"x")
    assert store.get("a/b.json") == b"three" and store.size("a/b.json") == 5
    assert [(file.name, file.size) for file in store.files("a")] == [("a/b.json", 5), ("a/deep/c", 0)]
    assert store.folders("a") == ["deep"] and "a" in store.folders("")
    store.delete("a/b.json")
    store.delete("a/b.json")
    assert [file.name for file in store.files("a")] == ["a/deep/c"]


def test_of_many_who_create_a_file_or_claim_a_name_one_succeeds(store: FileStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda number: store.create("only", b"%d" % number), range(8)))
        claimed = list(pool.map(lambda _: store.claim("claims/000001"), range(8)))
    assert made.count(True) == 1 and store.get("only") == b"%d" % made.index(True)
    assert claimed.count(True) == 1 and not store.claim("claims/000001")


def test_a_local_file_is_published_and_fetched_where_it_is_missing(store: FileStore) -> None:
    with pytest.raises(FileNotFoundError):
        store.fetch("models/one/weights")
    path = store.local / "models/one/weights"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"w" * 1000)
    store.publish("models/one/weights")
    if store.local != Path(store.address):
        path.unlink()
    assert store.fetch("models/one/weights").read_bytes() == b"w" * 1000
    if store.local != Path(store.address):
        path.write_bytes(b"x" * 1000)
        assert store.fetch("models/one/weights", anew=True).read_bytes() == b"w" * 1000


def test_a_bucket_that_is_not_there_is_one_line(bucket_url: str) -> None:
    missing = store_at("s3://there-is-no-such-bucket/warehouse")
    for use in (lambda: missing.get("a"), lambda: missing.put("a", b""), lambda: missing.files("a")):
        with pytest.raises(BadInputError, match=r"\As3://there-is-no-such-bucket[^\n]*no such bucket[^\n]*\Z"):
            use()


@pytest.mark.parametrize(
    "written", ["ftp://host/folder", "s3://", "s3:///a", "s3://b/a?b", "s3://b/a%20b", "s3://b//a", "S3://a/b"]
)
def test_an_impossible_url_is_one_line(written: str) -> None:
    with pytest.raises(BadInputError, match=r"\A[^\n]*correct the address of the warehouse\Z"):
        store_at(written)


@pytest.mark.parametrize(
    ("server", "line"),
    [
        ("localhost:9000", "AWS_ENDPOINT_URL: localhost:9000 is not an address of a server; begin it with https://"),
        ("http://localhost:9000", "AWS_ENDPOINT_URL: .* has no encryption; allow that with AWS_ALLOW_HTTP=true"),
    ],
)
def test_an_impossible_server_is_one_line(server: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    monkeypatch.delenv("AWS_ALLOW_HTTP", raising=False)
    with pytest.raises(BadInputError, match=line):
        store_at(f"s3://a-bucket-of-no-server/{hash(server)}").get("warehouse.json")
