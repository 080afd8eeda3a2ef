from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from trajmill.flows.serving.model_server import ServerAnswer, ask_server, served_models

pytestmark = pytest.mark.slow

OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"


@contextmanager
def saying(answer: bytes) -> Iterator[str]:
    """The address of something that says the same to everybody."""

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_what_runs_here_is_not_asked_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    with saying(OK + b"fine") as address:
        assert ask_server(address) == ServerAnswer(200, "fine")


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH_9.2\r\n", b"\xff\x00"])
def test_what_does_not_speak_http_is_no_server(answer: bytes) -> None:
    with saying(answer) as address:
        assert ask_server(address).status == 0


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b'{"data": 3}', b'{"data": [{}]}', b'{"data": [{"id": "\xff"}]']
)
def test_a_malformed_list_of_models_is_refused(body: bytes) -> None:
    with saying(OK + body) as address:
        assert served_models(address) == ServerAnswer(0, "its list of models cannot be read")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"error": {"message": "no\\nsuch  adapter"}}', "no such adapter"),
        ('{"error": "Unauthorized"}', '{"error": "Unauthorized"}'),
        ("a\nb", "a b"),
        ("x" * 500, "x" * 300),
    ],
)
def test_the_reason_of_a_refusal_is_one_line(text: str, reason: str) -> None:
    assert ServerAnswer(400, text).reason == reason
