"""The embedded parser: it reads the devices that the user names."""

from __future__ import annotations

import re

from trajmill.stages.agents.roles.embedded_role import EmbeddedRole, RoleQuestion
from trajmill.stages.agents.roles.sections import numbered, read_items

_NAMED = re.compile(r"(?:^|(?<=[.;,] ))(?:and |then )*on the (phone|desktop|web),? ", re.IGNORECASE)


def embedded_parser() -> EmbeddedRole:
    """One atomic task for each part that begins with "On the phone", "On the desktop" or "On the web"; no answers."""
    return EmbeddedRole("embedded-parser-1", _parsed)


def _parsed(asked: RoleQuestion) -> str:
    request, devices = asked.section("user request"), read_items(asked.section("devices"))
    before, *parts = _NAMED.split(request)
    named = list(zip(parts[::2], parts[1::2], strict=True))
    tasks = [f"[{device.casefold()}] {said.strip(' ,;')}" for device, said in named]
    if before.strip() or not tasks:
        tasks = [f"[{devices[0]}] {request}"]
    return f"### Thought ###\nThe request names its devices.\n### Atomic Tasks ###\n{numbered(tasks)}"
