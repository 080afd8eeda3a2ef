"""No text becomes a command, neither in a real shell nor in that of the stand-in."""

import subprocess
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stages.environments.android.stand_in.sh import Result, Shell
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
    ran: list[Sequence[str]] = []
    Shell(lambda words, given: ran.append(words) or Result(), lambda path, content: None).run(line)  # type: ignore[func-returns-value]
    assert ran == [["printf", "%s\\0", *words]]


@pytest.mark.parametrize("word", ["a\0b", "\ud800"])
def test_text_that_no_command_line_can_hold_is_refused(word: str) -> None:
    with pytest.raises(ValueError):
        quote(word)
