"""A writer that says what it is told to: the answer to a prompt of `stages/queries/model_writer.py`."""

from __future__ import annotations

import json
import re

_BEGINNINGS = {"a plain": "please", "the person": "I want this:", "as short": "now:"}


def honest_draft(prompt: str) -> str:
    """The task and every wording that the prompt lists, in the manner that it wants, as the JSON it asks for."""
    task = re.findall(r"^Task: (.*)$", prompt, re.MULTILINE)[0]
    values = prompt.partition("Required values:")[2]
    words = re.findall(r'^- [^:]*: (?:on; )?(say|type) "([^"]*)"', values, re.MULTILINE)
    said = [f'"{word}"' if kind == "type" else word for kind, word in words]
    said += [f"see {app}" for app in re.findall(r"it stands in (\w+)", values)]
    manner = re.findall(r"^Manner: (\w+ \w+)", prompt, re.MULTILINE)
    begin = _BEGINNINGS.get(manner[0], "") if manner else ""
    end = "?" if "ends with a question mark" in prompt else "."
    return json.dumps({"instruction": f"{begin} {task}: {', '.join(said)}{end}"})
