"""An S3 server for tests (moto), and the variables of the environment that lead to it."""

from __future__ import annotations

import logging
import threading
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def bucket_server(host: str = "127.0.0.1") -> Iterator[str]:
    """Run a server at an address of this machine; gives its URL."""
    from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    # Its own server looks through the folders of all services for each request, which takes a third of the time.
    server = make_server(host, 0, create_backend_app("s3"), threaded=True, request_handler=MotoRequestHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()


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
