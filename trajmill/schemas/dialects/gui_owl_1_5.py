"""The dialect of GUI-Owl 1.5: a sentence on what to do, then one JSON function call.

Action: Open the menu.
<tool_call>
{"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [936, 979]}}
</tool_call>
"""

from __future__ import annotations

from collections.abc import Sequence

from trajmill.schemas.dialects.base import GUI_OWL_1_5
from trajmill.schemas.dialects.published_tools import (
    COMPUTER_ACTIONS,
    COMPUTER_USE,
    MOBILE_ACTIONS,
    MOBILE_USE,
    PublishedToolDialect,
    computer_message,
    mobile_message,
)
from trajmill.schemas.dialects.tool_call import CallText, Words, one_line

_LABEL = "Action:"
_REQUEST = "Please generate the next move according to the UI screenshot, instruction and previous actions."
_FORM = """

# Response format

Response format for every step:
1) Action: one short sentence that says what to do on the screen.
2) One <tool_call>...</tool_call> block that holds nothing but the JSON: {"name": <function-name>, "arguments": \
<args-json-object>}.

Rules:
- Write these two parts in this order, and nothing else.
- To finish, call the tool with action=terminate."""


class _GuiOwl(PublishedToolDialect):
    written_by = (GUI_OWL_1_5,)

    def task_text(self, instruction: str, guidance: str | None, past: Sequence[str]) -> str:
        hints = f"\n\nGuidance:\n{guidance.strip()}" if guidance else ""
        lines = [f"Step {number}: {one_line(step)}" for number, step in enumerate(past, 1)]
        done = "\n".join(lines) or "None"
        return f"{_REQUEST}\n\nInstruction: {instruction}{hints}\n\nPrevious actions:\n{done}"

    def _words(self, call: CallText) -> Words:
        thought, label, sentence = call.before.rpartition(_LABEL)
        return Words(thought.strip(), sentence.strip()) if label else Words("", call.before.strip())

    def _around(self, call: str, words: Words) -> str:
        return f"{_LABEL} {one_line(words.conclusion)}\n{call}"


MOBILE = _GuiOwl(MOBILE_USE, tuple(MOBILE_ACTIONS), mobile_message(MOBILE_ACTIONS, with_human_name=True) + _FORM)
DESKTOP = _GuiOwl(COMPUTER_USE, tuple(COMPUTER_ACTIONS), computer_message(COMPUTER_ACTIONS) + _FORM)
