"""The files of a release with a few short rows and small pictures, which a tiny model learns in a second."""

import random
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from tests.stages.models.pictures import as_png
from trajmill.schemas.dialects.families import Family, family_named
from trajmill.stages.export.exporter import RL_FILE, RL_SCHEMA, SFT_FILE, SFT_SCHEMA

FAMILY: Final[Family] = family_named("qwen2.5-vl").within(64 * 28 * 28)
"""Of the tiny model, with the pixels that it takes."""
REPLIES: Final = ("click the switch", "done", "type: a long word, and another one", "back")


def picture(number: int, width: int = 84, height: int = 112) -> bytes:
    draw = random.Random(number)
    small = Image.new("RGB", (width // 14, height // 14))
    small.putdata([tuple(draw.randrange(256) for _ in range(3)) for _ in range(small.width * small.height)])
    return as_png(small.resize((width, height), Image.Resampling.NEAREST))


def write_supervised(release: Path, weights: tuple[float, ...], text: str = "Press the switch.") -> Path:
    rows = []
    for number, weight in enumerate(weights):
        shown, reply = _shown(number), [{"type": "text", "text": REPLIES[number % len(REPLIES)]}]
        content = [*({"type": "image", "text": ""} for _ in shown), {"type": "text", "text": f"{text} {number}"}]
        learned = {"completion": [{"role": "assistant", "content": reply}], "loss_weight": weight}
        rows.append(shown_row(shown) | {"prompt": [{"role": "user", "content": content}], **learned})
    return write_rows(release / SFT_FILE, rows, SFT_SCHEMA)


def write_rl(release: Path, rows: list[dict[str, Any]]) -> Path:
    made = []
    for number, row in enumerate(rows):
        shown = _shown(number)
        default = {
            "prompt": [{"role": "user", "content": "<image>" * len(shown) + f"Press the switch. {number}"}],
            "response": REPLIES[number % len(REPLIES)],
            "advantage": 1.0 if number % 2 else -0.5,
            "step_weight": 1.0 / (1 + number % 3),
        }
        made.append(shown_row(shown) | default | row)
    return write_rows(release / RL_FILE, made, RL_SCHEMA)


def _shown(number: int) -> list[int]:
    return [] if number % 3 == 2 else [number, number + 100] if number % 4 == 3 else [number]


def shown_row(shown: list[int]) -> dict[str, Any]:
    images = [{"bytes": picture(each), "path": None} for each in shown]
    return {"images": images, "screen_ids": [f"screen-{each}" for each in shown]}


def write_rows(path: Path, rows: list[dict[str, Any]], schema: pa.Schema) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    return path
