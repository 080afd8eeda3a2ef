"""An adb host server (protocol: AOSP `packages/modules/adb/OVERVIEW.TXT`, `SERVICES.TXT`, `SYNC.TXT`)."""

import socket
import socketserver
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from tests.stages.environments.android.stand_in.phone import Phone
from tests.stages.environments.android.stand_in.programs import Programs

_VERSION = "0029"
_REGULAR_FILE = 0o100644
_BLOCK = 64 * 1024


class AdbServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128  # what does not fit waits a second and more before it knocks again

    def __init__(self, phones: Sequence[Phone], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Connection)
        self.phones = {phone.serial: phone for phone in phones}
        self.programs = {phone.serial: Programs(phone) for phone in phones}
        self.stopped = threading.Event()
        self.connections: set[socket.socket] = set()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def stop(self) -> None:
        self.stopped.set()
        self.shutdown()
        for connection in tuple(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()


@contextmanager
def serving(phones: Sequence[Phone], port: int = 0) -> Iterator[AdbServer]:
    server = AdbServer(phones, port)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="adb-stand-in")
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()


class _Refused(Exception):
    """A request that is answered with FAIL."""


class _Connection(socketserver.StreamRequestHandler):
    server: AdbServer
    wbufsize = 0
    disable_nagle_algorithm = True

    def handle(self) -> None:
        """Answer questions to the server, or a service of the phone that was chosen; the connection ends after each."""
        phone: Phone | None = None
        self.server.connections.add(self.connection)
        # What ends early is no number and no header.
        with suppress(OSError, ValueError, struct.error):
            try:
                while request := self.rfile.read(int(self.rfile.read(4), 16)).decode():
                    if phone is not None:
                        self._local(phone, request)
                        return
                    phone = self._host(request)
                    if phone is None:
                        return
            except _Refused as refusal:
                self.wfile.write(b"FAIL" + _block(str(refusal)))
        self.server.connections.discard(self.connection)

    def _host(self, request: str) -> Phone | None:
        """Answer a question to the server itself; the phone for one that selects it."""
        answer, phone = "", None
        match request.split(":"):
            case ["host", "version"]:
                answer = _VERSION
            case ["host", "devices"]:
                answer = "".join(f"{each.serial}\t{_state(each)}\n" for each in self.server.phones.values())
            case ["host", "features" | "host-features"]:
                pass
            case ["host", "tport", "serial", *serial]:
                phone = self._phone(serial)
                self.wfile.write(b"OKAY" + struct.pack("<Q", 1))
            case ["host", "transport", *serial]:
                phone = self._phone(serial)
                self.wfile.write(b"OKAY")
            case ["host-serial", *serial, "get-state"]:
                answer = _state(self._phone(serial))
            case ["host-serial", *serial, "features" | "list-forward"]:
                self._phone(serial)
            case _:
                raise _Refused(f"unknown host service {request!r}")
        if phone is None:
            self.wfile.write(b"OKAY" + _block(answer))
        return phone

    def _phone(self, serial: Sequence[str]) -> Phone:
        phone = self.server.phones.get(":".join(serial))
        if phone is None:
            raise _Refused(f"device '{':'.join(serial)}' not found")
        if phone.faults.offline:
            raise _Refused("device offline")
        if phone.away:
            phone.away -= 1
            raise _Refused("device still authorizing")
        return phone

    def _local(self, phone: Phone, request: str) -> None:
        service, _, line = request.partition(":")
        service = service.partition(",")[0]
        if service not in ("shell", "exec", "sync"):
            raise _Refused("unknown service")
        self.wfile.write(b"OKAY")
        if phone.faults.hangs:
            self.server.stopped.wait()
        elif service == "sync":
            self._sync(phone)
        else:
            self.wfile.write(
                self.server.programs[phone.serial].run(line, self.rfile.read).out[: phone.faults.cut_after]
            )

    def _sync(self, phone: Phone) -> None:
        while True:
            kind, length = struct.unpack("<4sI", self.rfile.read(8))
            content = phone.read(self.rfile.read(length).decode())
            if kind == b"QUIT":
                return
            if kind == b"STAT":
                known = (_REGULAR_FILE, len(content), 1) if content is not None else (0, 0, 0)
                self.wfile.write(struct.pack("<4sIII", b"STAT", *known))
            elif kind == b"RECV" and content is not None:
                for start in range(0, len(content), _BLOCK):
                    block = content[start : start + _BLOCK]
                    self.wfile.write(struct.pack("<4sI", b"DATA", len(block)) + block)
                self.wfile.write(struct.pack("<4sI", b"DONE", 0))
            else:
                text = b"No such file or directory"
                self.wfile.write(struct.pack("<4sI", b"FAIL", len(text)) + text)


def _state(phone: Phone) -> str:
    return "offline" if phone.faults.offline else "device"


def _block(text: str) -> bytes:
    return f"{len(text.encode()):04x}".encode() + text.encode()
