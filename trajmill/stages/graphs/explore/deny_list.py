"""Words on elements that a walk does not press: what they do may not be undone by a reset."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

_FILE = "denied_words.txt"
_NEVER = "!"


class DenyList(NamedTuple):
    """An element with one of these words is not pressed."""

    pattern: re.Pattern[str]

    def denies(self, text: str) -> bool:
        """Whether a text has one of the words, as a whole word in any case."""
        return self.pattern.search(text) is not None


def packaged_deny_list(may_destroy: bool = False) -> DenyList:
    """The packaged list; if something may be destroyed, only what ends programs and machines is denied."""
    lines = Path(__file__).with_name(_FILE).read_text(encoding="utf-8").splitlines()
    return deny_list([each.removeprefix(_NEVER) for each in lines if not may_destroy or each.startswith(_NEVER)])


def deny_list(lines: list[str]) -> DenyList:
    """A list from its lines; empty ones and those that begin with `#` are left out."""
    words = [" ".join(line.split()) for line in lines if line.strip() and not line.startswith("#")]
    one_of = "|".join(re.escape(word).replace(r"\ ", r"[\s_-]*") for word in sorted(words, key=len, reverse=True))
    return DenyList(re.compile(rf"(?<![^\W_])(?:{one_of})(?![^\W_])" if words else r"(?!)", re.IGNORECASE))
