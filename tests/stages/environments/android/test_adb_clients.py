"""The stand-in is an adb server to clients that know nothing of it: Debian's adb, and adbutils as it comes."""

from __future__ import annotations

import io
import shutil
import subprocess
from pathlib import Path

import pytest
from PIL import Image

from tests.stages.environments.android.stand_in.phone import Phone
from tests.stages.environments.android.stand_in.server import AdbServer

needs_adb = pytest.mark.skipif(shutil.which("adb") is None, reason="adb is not installed; run `make system-deps`")


def adb(server: AdbServer, *words: str) -> bytes:
    command = ["adb", "-P", str(server.port), "-s", "emulator-5554", *words]
    return subprocess.run(command, capture_output=True, check=True, timeout=200).stdout


@needs_adb
def test_debians_adb_lists_shoots_dumps_pulls_and_taps(phone: Phone, server: AdbServer, tmp_path: Path) -> None:
    assert b"emulator-5554\tdevice\nemulator-5556\tdevice\n" in adb(server, "devices")
    assert adb(server, "get-state") == b"device\n"
    image = Image.open(io.BytesIO(adb(server, "exec-out", "screencap -p")))
    assert image.size == (720, 1280)
    assert b"dumped to: /sdcard/w.xml" in adb(server, "shell", "uiautomator dump /sdcard/w.xml")
    adb(server, "pull", "/sdcard/w.xml", str(tmp_path / "w.xml"))
    assert 'resource-id="launcher/clock"' in (tmp_path / "w.xml").read_text()
    adb(server, "shell", "am start -n org.trajmill.clock/.MainActivity")
    assert b"org.trajmill.clock/" in adb(server, "shell", "dumpsys window | grep mCurrentFocus")
    adb(server, "shell", "input keyevent 3; echo not a word of it: $?")
    assert phone.ran[-2:] == [("input", "keyevent", "3"), ("echo", "not", "a", "word", "of", "it:", "0")]
