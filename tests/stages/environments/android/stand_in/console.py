"""The console of an emulator (AOSP `emulator/android-console`): a greeting, then commands that end with OK or KO."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.stages.environments.android.stand_in.phone import Phone
from trajmill.stages.environments.simulated.world import World

TOKEN = "a1B2/c3+"


class Console(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, world: World) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.phone = Phone(f"emulator-{self.server_address[1]}", world)
        self.read_only = False


@contextmanager
def emulator(world: World) -> Iterator[Console]:
    """A phone whose serial names the port of its console, as an emulator's does."""
    with Console(world) as console:
        thread = threading.Thread(target=console.serve_forever, args=(0.02,), name="console-stand-in")
        thread.start()
        yield console
        console.shutdown()
        thread.join()


class _Connection(socketserver.StreamRequestHandler):
    server: Console

    def handle(self) -> None:
        self._say("Android Console: Authentication required", "Android Console: type 'auth <auth_token>'", "OK")
        authentic = False
        for line in self.rfile:
            words = line.decode().split()
            if not words:
                continue  # adb sends the token with the end of its line
            authentic = authentic or words == ["auth", TOKEN]
            if words[0] == "quit":
                return
            with self.server.phone.lock:
                self._say(*(self._answer(words) if authentic else ["KO: authentication token does not match"]))

    def _answer(self, words: list[str]) -> list[str]:
        phone, saved = self.server.phone, self.server.phone.saved
        match words:
            case ["auth", _]:
                return ["Android Console: type 'help' for a list of commands", "OK"]
            case ["avd", "snapshot", "list"]:
                rows = [f"{number:<10}{name:<24}1.2G 2026-11-24 10:00:00" for number, name in enumerate(saved)]
                return ["List of snapshots present on all disks:", "ID        TAG", *rows, "OK"]
            case ["avd", "snapshot", "save", name] if not self.server.read_only:
                phone.save(name)
            case ["avd", "snapshot", "load", name] if name in saved:
                phone.load(name)
            case ["avd", "snapshot", "delete", name] if name in saved:
                del saved[name]
            case _:
                return [f"KO: {' '.join(words)}: failed"]
        return ["OK"]

    def _say(self, *lines: str) -> None:
        self.wfile.write("".join(f"{line}\r\n" for line in lines).encode())
