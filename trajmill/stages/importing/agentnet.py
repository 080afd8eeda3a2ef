"""Reads AgentNet (OpenCUA): JSON lines of desktop trajectories, and pictures in a folder beside them.

The set is `xlangai/AgentNet` of the Hugging Face hub with its archives of pictures unpacked. A step's `value` has the
code of its action and, once the set has been augmented, thought, action and reflection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from trajmill.schemas.geometry import Size
from trajmill.schemas.tables.query import Platform
from trajmill.stages.importing.base import (
    LayoutSpec,
    ReadRecording,
    RecordedStep,
    Recording,
    read_recording,
)
from trajmill.stages.importing.files import lines_of, parse_json, read_screen, within
from trajmill.stages.importing.pyautogui_code import read_code

_FACTS = "meta_data"
"""How the file begins that lists the system and the apps of each task, and has no trajectories."""


class AgentNetLayout(LayoutSpec):
    """Human demonstrations on desktops."""

    kind: Literal["agentnet"] = "agentnet"
    """Desktops, with thoughts."""

    def lists(self, folder: Path) -> Sequence[Path]:
        """The files of JSON lines that have trajectories."""
        return sorted(file for file in folder.glob("*.jsonl") if not file.name.startswith(_FACTS))

    def expected(self) -> str:
        """What a folder contains."""
        return "NAME.jsonl, and its pictures in the folder or in one below it"

    def read(self, file: Path, folder: Path) -> Iterator[ReadRecording]:
        """The trajectories of a file, one for each line."""
        places = ["", *sorted(f"{path.name}/" for path in folder.iterdir() if path.is_dir())]
        for line in lines_of(file):
            made = partial(_recording, line.text, folder, places)
            yield read_recording(f"{file.name}:{line.number}", len(line.text), made)


def _recording(text: bytes, folder: Path, places: Sequence[str]) -> Recording:
    found = parse_json(text)
    steps = [step for entry in found["traj"] for step in _steps(entry, folder, places)]
    return Recording(
        name=str(found["task_id"]),
        platform=Platform.DESKTOP,
        instruction=str(found["instruction"]),
        steps=tuple(steps),
        last=None,
        agent="human",
        task=str(found.get("domain") or ""),
    )


def _steps(entry: Mapping[str, Any], folder: Path, places: Sequence[str]) -> list[RecordedStep]:
    """The steps of one entry; code with several actions gives several steps on the same screen."""
    name, value = str(entry["image"]), entry["value"]
    screen = read_screen(within(folder, *(f"{place}{name}" for place in places)), name)
    code = str(value["code"])
    thought, conclusion = str(value.get("thought") or ""), str(value.get("action") or "")
    actions = read_code(code, Size(screen.width, screen.height)) or (None,)
    return [RecordedStep(screen, action, code, thought, conclusion) for action in actions]
