"""No text becomes a command: not in a real shell, and not in that of the stand-in, which reads as a real one does."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stages.environments.android.stand_in.sh import Exit, Result, Shell
from trajmill.stages.environments.android.commands import quote, shell_line

WORDS = st.lists(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
    | st.text("'\"\\$`(){}|&;<>*?#~! \n\ta", max_size=12)
    | st.sampled_from(["'; reboot #", "$(reboot)", "`reboot`", "a && b || c", "", "-n", "a\nb", "é🙂", "%s"]),
    min_size=1,
    max_size=8,
)


@pytest.mark.slow
@given(WORDS)
@settings(max_examples=60)
def test_shells_read_back_exactly_the_words(words: list[str]) -> None:
    line = shell_line([("printf", "%s\\0", *words)])
    read = subprocess.run(["sh", "-c", line], capture_output=True, check=True).stdout.decode()
    assert read.split("\0")[:-1] == words
    assert Shell(little_program, lambda path, content: None).run(line).out.decode() == read


@pytest.mark.parametrize("word", ["a\0b", "\ud800"])
def test_text_that_no_command_line_can_hold_is_refused(word: str) -> None:
    with pytest.raises(ValueError):
        quote(word)


@pytest.mark.parametrize(
    "text",
    [
        "printf '%s\\0' a; printf '%s\\0' b && printf '%s\\0' c",
        "printf '%s\\0' $(printf x)y `printf z`",
        "printf '%s\\0' \"it's $(printf 'in') \\\"quotes\\\"\" # a comment; printf no",
        "printf '%s\\0' a\\;b 'c'\"d\"e",
        "exit 3",
        "[ -e /nowhere ] || printf '%s\\0' none",
        "printf '%s\\0' abc | cat",
    ],
)
def test_the_stand_in_reads_what_is_not_quoted_as_a_real_shell_does(text: str) -> None:
    real = subprocess.run(["sh", "-c", text], capture_output=True, check=False)
    result = Shell(little_program, lambda path, content: None).run(text)
    assert (result.out, result.status) == (real.stdout, real.returncode)


def little_program(words: Sequence[str], given: bytes) -> Result:
    match words:
        case ["printf", "%s\\0", *rest]:
            return Result("".join(f"{word}\0" for word in rest).encode())
        case ["printf", word]:
            return Result(word.encode())
        case ["cat"]:
            return Result(given)
        case ["exit", status]:
            raise Exit(int(status))
        case _:
            return Result(status=1)
