"""Words on elements that a walk does not press: what they do may not be undone by a reset."""

from __future__ import annotations

import re
from pathlib import Path

_NEVER = "!"


DenyList = re.Pattern[str]
"""What it finds in the text of an element, a whole word in any case, is not pressed."""


def packaged_deny_list(may_destroy: bool = False) -> DenyList:
    """The packaged list; if something may be destroyed, only what ends programs and machines is denied."""
    lines = Path(__file__).with_name("denied_words.txt").read_text(encoding="utf-8").splitlines()
    return deny_list([each.removeprefix(_NEVER) for each in lines if not may_destroy or each.startswith(_NEVER)])


def deny_list(lines: list[str]) -> DenyList:
    """A list from its lines; empty ones and those that begin with `#` are left out."""
    words = [" ".join(line.split()) for line in lines if line.strip() and not line.startswith("#")]
    one_of = "|".join(re.escape(word).replace(r"\ ", r"[\s_-]*") for word in sorted(words, key=len, reverse=True))
    return re.compile(rf"(?<![^\W_])(?:{one_of})(?![^\W_])" if words else r"(?!)", re.IGNORECASE)
