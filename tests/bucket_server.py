"""An S3 server for tests (moto), and the variables of the environment that lead to it."""

from __future__ import annotations

import logging
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def bucket_server(host: str = "127.0.0.1") -> Iterator[str]:
    """Run a server at an address of this machine; gives its URL."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address=host, port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def environment_for(endpoint: str, caches: object) -> dict[str, str]:
    """What a process needs to use a server.

    Args:
        endpoint: the address of the server.
        caches: the folder for what the process keeps on its own disk.
    """
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "anybody",
        "AWS_SECRET_ACCESS_KEY": "anything",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "XDG_CACHE_HOME": str(caches),
    }


def new_bucket(endpoint: str) -> str:
    """Make a bucket; gives the URL of a folder in it."""
    name = f"bucket-{uuid.uuid4().hex}"
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{name}", method="PUT")).close()
    return f"s3://{name}/warehouse"
