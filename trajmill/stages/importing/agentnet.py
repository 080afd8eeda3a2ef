"""AgentNet (OpenCUA): JSON lines of desktop trajectories, and pictures in a folder beside them.

The set is `xlangai/AgentNet` of the Hugging Face hub with its archives of pictures unpacked. A step's `value` has the
code of its action and, once the set has been augmented, thought, action and reflection.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.query import Platform
from trajmill.stages.importing.base import (
    LayoutSpec,
    ReadRecording,
    RecordedStep,
    Recording,
    lines_of,
    parse_json,
    read_recording,
    read_screen,
    within,
)
from trajmill.stages.importing.pyautogui_code import read_code

_FACTS = "meta_data"
"""Prefix of the file that lists the system and the apps of each task, and has no trajectories."""


class AgentNetLayout(LayoutSpec):
    """Human demonstrations on desktops."""

    expected: ClassVar[str] = "NAME.jsonl, and its pictures in the folder or in one below it"
    kind: Literal["agentnet"] = "agentnet"
    """Desktops, with thoughts."""

    def lists(self, folder: Path) -> Sequence[Path]:
        return sorted(file for file in folder.glob("*.jsonl") if not file.name.startswith(_FACTS))

    def read(self, file: Path, folder: Path) -> Iterator[ReadRecording]:
        places = ["", *sorted(f"{path.name}/" for path in folder.iterdir() if path.is_dir())]
        for line in lines_of(file):
            make = partial(_recording, line.text, folder, places)
            yield read_recording(f"{file.name}:{line.number}", len(line.text), make)


def _recording(text: bytes, folder: Path, places: Sequence[str]) -> Recording:
    found = parse_json(text)
    steps = []
    for entry in found["traj"]:
        name, value = str(entry["image"]), entry["value"]
        screen = read_screen(within(folder, *(f"{place}{name}" for place in places)), name)
        code, thought = str(value["code"]), str(value.get("thought") or "")
        # Code with several actions gives several steps on the same screen.
        for action in read_code(code, Size(screen.width, screen.height)) or (None,):
            steps.append(RecordedStep(screen, action, code, thought, str(value.get("action") or "")))
    return Recording(
        name=str(found["task_id"]),
        platform=Platform.DESKTOP,
        instruction=str(found["instruction"]),
        steps=tuple(steps),
        task=str(found.get("domain") or ""),
    )
