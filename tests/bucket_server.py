"""An S3 server for tests (moto), and the variables of the environment that lead to it."""

from __future__ import annotations

import io
import logging
import threading
import urllib.request
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


def _creating_atomically(application: WSGIApplication) -> WSGIApplication:
    """Serve conditional puts one after the other: moto looks and stores in two steps, S3 in one."""
    one_at_a_time = threading.Lock()

    def serve(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if not {"HTTP_IF_NONE_MATCH", "HTTP_IF_MATCH"} & environ.keys() or environ["REQUEST_METHOD"] != "PUT":
            return application(environ, start_response)
        # Read first: a client that stalls must not hold up the others.
        environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))
        with one_at_a_time:
            return list(application(environ, start_response))

    return serve


@contextmanager
def bucket_server(
    host: str = "127.0.0.1", before: Callable[[WSGIApplication], WSGIApplication] = lambda application: application
) -> Iterator[str]:
    """Run a server; requests come to it through the application that `before` makes of its own."""
    from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    # Its own server looks through the folders of all services for each request, which takes a third of the time.
    application = before(_creating_atomically(create_backend_app("s3")))
    server = make_server(host, 0, application, threaded=True, request_handler=MotoRequestHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()


def environment_for(endpoint: str, caches: object) -> dict[str, str]:
    """What a process needs to use a server; `caches` is the folder for what it keeps on its own disk."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "anybody",
        "AWS_SECRET_ACCESS_KEY": "anything",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "XDG_CACHE_HOME": str(caches),
    }


def new_bucket(endpoint: str) -> str:
    name = f"bucket-{uuid.uuid4().hex}"
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{name}", method="PUT")).close()
    return f"s3://{name}/warehouse"
