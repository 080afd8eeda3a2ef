"""Beam is imported in one place, and prints nothing there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_beam_is_imported_in_one_place() -> None:
    rooms = ("stages", "warehouse", "pipelines", "flows")
    files = [file for room in rooms for file in (ROOT / room).rglob("*.py")]
    importing = [
        file for file in files if "import apache_beam" in (text := file.read_text()) or "from apache_beam" in text
    ]
    assert [str(file.relative_to(ROOT)) for file in importing] == ["pipelines/executors/beam.py"]


@pytest.mark.slow
def test_a_process_that_imports_it_prints_nothing_then_logs_as_before() -> None:
    code = (
        "import logging; import trajmill.pipelines.fan_out; root = logging.getLogger()\n"
        "assert not root.hasHandlers(); root.warning('ours')"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (process.stdout, process.stderr) == ("", "ours\n")
