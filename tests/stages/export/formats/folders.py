"""Episodes written as the folders of trainers, and their rows read back without any trainer."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from tests.stages.derive.samples import DONE, episode, query, step
from tests.stages.export.stored import StoredScreens
from trajmill.schemas.actions import Action, Click, Scroll, Swipe, SystemButton, TypeText
from trajmill.schemas.dialects.families import family_named
from trajmill.schemas.episode import Episode
from trajmill.schemas.geometry import Box
from trajmill.schemas.tables.query import Platform
from trajmill.schemas.tables.trajectory import Step, TargetElement
from trajmill.schemas.tables.verdict import StepLabel
from trajmill.stages.export.formats.base import format_spec
from trajmill.stages.export.formats.card import ExportedFolder, ExportedRelease
from trajmill.stages.export.formats.folder import ReleaseSteps, write_folder
from trajmill.stages.export.formats.steps import ReleasedStep, step_example

SOURCE = ExportedRelease("run-r0001", "run", 1, "test", "apache-2.0")
PHONE_ACTIONS: tuple[Action, ...] = (
    Click(x=36, y=128),
    Swipe(x=360, y=960, x2=360, y2=320),
    TypeText(text="Größe <b>"),
    SystemButton(button="Back"),
    Click(x=719, y=1279),
    Click(x=359, y=641),
    DONE,
)
DESKTOP_ACTIONS: tuple[Action, ...] = (Click(x=1279, y=412, count=2), Scroll(x=640, y=360, clicks=-3), DONE)
BOX = Box(0, 100, 90, 160)
"""The element under the first action."""


def walked() -> tuple[Episode, Episode]:
    """A success on the phone and one on the desktop, with labels and an element."""
    phone = [step(index, action) for index, action in enumerate(PHONE_ACTIONS)]
    phone[0] = phone[0].model_copy(update={"target": TargetElement(role="button", text="Menu", bounds=BOX)})
    desktop = [
        step(index, action, (f"d{index}", f"d{index + 1}"), platform=Platform.DESKTOP)
        for index, action in enumerate(DESKTOP_ACTIONS)
    ]
    labelled = episode(phone, name="p", labels=[StepLabel.GOOD, StepLabel.NEUTRAL])
    return labelled, episode(desktop, name="d", asked=query("qd", Platform.DESKTOP))


class Written(NamedTuple):
    folder: Path
    exported: ExportedFolder


def write(
    kind: str,
    family: str,
    folder: Path,
    episodes: Sequence[Episode],
    weights: Mapping[int, float] | None = None,
    shard_bytes: int = 500_000_000,
) -> Written:
    """All steps of the episodes; `weights` are those of steps by their index, 1 where there is none."""
    folder.mkdir(parents=True)
    spec = format_spec(kind).model_copy(update={"shard_bytes": shard_bytes})
    chosen, screens, weights = family_named(family), StoredScreens(), weights or {}

    def released(one: Episode, at: Step) -> ReleasedStep:
        return ReleasedStep(f"{one.query.query_id}-{at.index}", at.trajectory_id, at.index, weights.get(at.index, 1))

    steps = (step_example(chosen, one, released(one, at), screens) for one in episodes for at in one.steps)
    return Written(folder, write_folder(folder, spec, chosen, SOURCE, ReleaseSteps(steps), screens))


class ReadRow(NamedTuple):
    columns: Mapping[str, Any]
    messages: tuple[tuple[str, str], ...]
    """Role and text, `<image>` where an image stands; without the reply where the trainer examples it."""
    images: tuple[bytes, ...]
    reply: str | None


def read(folder: Path) -> list[ReadRow]:
    return [_read(folder, columns) for columns in _columns(folder)]


def _columns(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted((folder / "data").iterdir()):
        if path.suffix == ".parquet":
            yield from pq.read_table(path).to_pylist()
        else:
            yield from (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())


def _read(folder: Path, columns: dict[str, Any]) -> ReadRow:
    said = columns.get("messages") or [*columns["prompt"], *columns.get("completion", columns.get("chosen", []))]
    messages = tuple((message["role"], _text(message["content"])) for message in said)
    spoken = messages[-1][0] == "assistant"
    images = tuple(
        (folder / image).read_bytes() if isinstance(image, str) else image["bytes"] for image in columns["images"]
    )
    return ReadRow(columns, messages[:-1] if spoken else messages, images, messages[-1][1] if spoken else None)


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    assert isinstance(content, list) and all(block.keys() == {"type", "text"} for block in content)
    return "".join("<image>" if block["type"] == "image" else block["text"] for block in content)
