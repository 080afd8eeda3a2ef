from __future__ import annotations

from pathlib import Path

import pytest

from trajmill.flows.serving.model_server import error_in_log

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it wrote nothing"),
        ("\n  \n", "it wrote nothing"),
        ("loading\nloading weights\n\n", "loading weights"),
        ("api_server.py: error: unrecognized arguments: --x\n", "api_server.py: error: unrecognized arguments: --x"),
        (
            "(APIServer pid=7) WARNING 11-20 22:25:20 [a.py:2] limits can cause OSError: 24\n"
            "(Worker pid=8) ERROR 11-20 22:25:21 [b.py:10]     raise torch.OutOfMemoryError(\n"
            "(Worker pid=8) ERROR 11-20 22:25:21 [b.py:10] torch.OutOfMemoryError: 3 GiB are missing\n"
            "(Worker pid=8) ERROR 11-20 22:25:21 [b.py:10] Traceback (most recent call last):\n"
            "(APIServer pid=7) RuntimeError: see root cause above\n"
            "  warnings.warn('1 leaked semaphore')\n",
            "torch.OutOfMemoryError: 3 GiB are missing",
        ),
        (
            "pydantic.ValidationError: 1 validation error for ModelConfig\n"
            "  Value error, no such folder\n"
            "    For further information visit the page\n",
            "pydantic.ValidationError: 1 validation error for ModelConfig  Value error, no such folder",
        ),
        ("ValueError: \x1b[31mred\x07\n", "ValueError: [31mred"),
        ("\xff\xfe" * 400 + "end\n", "\xff\xfe" * 200),
    ],
)
def test_the_last_lines_of_a_log_are_kept(tmp_path: Path, text: str, words: str) -> None:
    log = tmp_path / "server.log"
    log.write_text(text)
    assert error_in_log(log) == words


def test_words_of_an_earlier_start_do_not_count_and_of_a_long_log_the_end_is_read(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"ValueError: old\n")
    assert error_in_log(log, log.stat().st_size) == "it wrote nothing"
    log.write_bytes(b"ValueError: long ago\n" + b"line\n" * 100_000 + b"\xff\xfe\x00 the end\n")
    assert error_in_log(log).endswith(" the end")
