"""A small task pool: the rows of two steps, as the format `feedback` writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tests.stages.training.hugging_face.small_release import FAMILY, picture
from trajmill.schemas.actions import Action, Click, SystemButton
from trajmill.schemas.geometry import Box, Size
from trajmill.schemas.tables.query import Platform
from trajmill.stages.export.formats.folder import FIGURES_FILE, supervised_schema
from trajmill.stages.export.formats.trainers import FeedbackFormat
from trajmill.stages.export.rewards import ReplyTarget

SCREEN: Final = Size(84, 112)
RIGHT: Final[tuple[Action, ...]] = (Click(x=42, y=56), SystemButton(button="Back"))
BOX: Final = Box(28, 28, 56, 84)
PAST: Final = [["<tool_call>one</tool_call>", "Opened the wallet."]]


def write_pool(release: Path) -> Path:
    rows = []
    for number in range(len(RIGHT)):
        rows.append(_row(number, "coordinator", 1))
        rows.append(_row(number, "state_tracker", 0))
        rows.append(_row(number, "wallet", 2))
    rows.append(_row(7, "state_tracker", 0))
    (release / "data").mkdir(parents=True)
    pq.write_table(
        pa.Table.from_pylist(rows, schema=supervised_schema(FeedbackFormat())), release / "data" / "rows.parquet"
    )
    (release / FIGURES_FILE).write_text(json.dumps({"shards": ["data/rows.parquet"]}))
    return release


def _row(number: int, variant: str, screens: int) -> dict[str, Any]:
    ids = list(range(number + 1 - screens, number + 1))
    content = [{"type": "text", "text": f"What is step {number}?"}, *({"type": "image", "text": ""} for _ in ids)]
    right = RIGHT[number % len(RIGHT)]
    target = ReplyTarget(
        family=FAMILY.name,
        platform=Platform.PHONE,
        action=right,
        box=BOX if isinstance(right, Click) else None,
        screen=SCREEN,
        resized=SCREEN,
    )
    return {
        **dict.fromkeys(supervised_schema(FeedbackFormat()).names),
        "example_id": f"{variant}-{number}",
        "trajectory_id": "t",
        "step_index": number,
        "instruction": "Open the wallet and go back.",
        "prompt": [{"role": "user", "content": content}],
        "variant": variant,
        "target": target.model_dump_json(),
        "past": json.dumps(PAST if variant == "wallet" and number else []),
        "images": [{"bytes": picture(each), "path": None} for each in ids],
        "screen_ids": [f"screen-{each}" for each in ids],
        "loss_weight": 1.0,
    }
