"""Write docs/rows.md: ten rows of each family and of each derived kind, with their screens and targets.

`python docs/rows.py [FOLDER]` runs two small rounds in FOLDER (a temporary one by default) and exports them.
"""

from __future__ import annotations

import html
import io
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image, ImageDraw

from trajmill.schemas.actions import Drag, Swipe, action_from_json, pressed_point
from trajmill.schemas.dialects.families import FAMILIES

HERE = Path(__file__).parent
PICTURES = HERE / "pictures" / "rows"
ROWS = 10
_CELL, _GAP = 160, 8
_WIDE = 5 * _CELL + 4 * _GAP
_FIRST, _LAST = 200, 280
"""Characters of a long prompt that are shown, from its start and its end."""
_RUN = """
[run]
name = "rows-{agent}"
rounds = 1
root = "data"
[agent]
kind = "{agent}"
[queries]
train = 40
heldout_slots = 4
heldout_phrasings = 4
heldout_apps = 0
validation = 4
[rollout]
episodes_per_round = 60
[derive.planning]
trials = 0
[train]
min_updates = 40
max_updates = 40
[evaluate]
episodes = 4
train_sample = 4
"""
KINDS: Mapping[str, str] = {
    "step": "end_to_end",
    "grounding": "end_to_end",
    "action_semantics": "end_to_end",
    "planning": "end_to_end",
    "ces": "end_to_end",
    "rft": "end_to_end",
    "forks": "end_to_end",
    "prm": "end_to_end",
    "roles": "mobile_agent_v3",
}
"""By derived kind, the agent of the run that it is derived from. `reasoning`, `grounding_rl` and `judge` need models,
`coda` a Planner that has learned."""
_HEAD = """# Rows

After reading this page you know what trajmill writes: ten rows of each family and of each derived kind.

`make rows` writes this page from two small rounds of the default world and the exports of their releases. A cross
marks the position of the action, a line a swipe. The pictures have the numbers of their rows. System messages and the
middle of long prompts (`[…]`) are left out. The kinds `reasoning`, `grounding_rl`, `judge` and
`coda` need models and are not shown.
"""


class Row(NamedTuple):
    asked: str
    reply: str
    pictures: Sequence[Path]
    action: str
    sort: str
    """Rows of different sorts are shown before further ones of the same."""


def trajmill(folder: Path, *arguments: str) -> None:
    subprocess.run([Path(sys.executable).with_name("trajmill"), *arguments], cwd=folder, check=True)


def run_rounds(folder: Path) -> None:
    """Run the rounds, derive the kinds and make the releases; a second call in the same folder resumes."""
    for agent in dict.fromkeys(KINDS.values()):
        config = folder / f"{agent}.toml"
        config.write_text(_RUN.format(agent=agent), encoding="utf-8")
        trajmill(folder, "evolve", "--config", config.name)
        for kind in (kind for kind, of in KINDS.items() if of == agent):
            trajmill(folder, "derive", kind, "--config", config.name)
        trajmill(folder, "releases", "make", "--config", config.name)


def exported(folder: Path, agent: str, family: str, kind: str = "") -> list[Row]:
    """Export a release and return ten of its rows, of as many sorts as there are."""
    out = folder / f"out-{family}-{kind or 'policy'}"
    if not out.exists():
        of_kind = ("--kind", kind) if kind else ()
        # The releases of all three runs are in one warehouse; the last of a run has its derived kinds.
        release = sorted((folder / "data" / "releases").glob(f"rows-{agent}-*"))[-1].name
        arguments = ("--format", "swift", "--family", family, "--release", release, "--out", out.name)
        trajmill(folder, "export", "--config", f"{agent}.toml", *arguments, *of_kind)
    sorts: dict[str, list[Row]] = {}
    for shard in sorted((out / "data").glob("*.jsonl")):
        for line in shard.read_text(encoding="utf-8").splitlines():
            row = read_row(out, json.loads(line))
            sorts.setdefault(row.sort, []).append(row)
    turns = zip_longest(*(spread(rows) for rows in sorts.values()))
    return [row for turn in turns for row in turn if row is not None][:ROWS]


def spread(rows: Sequence[Row]) -> list[Row]:
    """At most ten rows, at equal distances."""
    return [rows[at * len(rows) // ROWS] for at in range(ROWS)] if len(rows) > ROWS else list(rows)


def read_row(out: Path, row: Mapping[str, Any]) -> Row:
    *_, asked, reply = row["messages"]
    action = row["action"]
    kind = json.loads(action)["kind"] if action else ""
    sort = f"{kind} {row['platform']} {row.get('variant', '')}"
    return Row(asked["content"], reply["content"], [out / name for name in row["images"]], action, sort)


def sheet(rows: Sequence[Row], first_screen: bool) -> bytes:
    """Draw the last screen of each row, or the first, with the place of its action; return the picture as WebP."""
    cells = [cell_of(row, 0 if first_screen else -1) for row in rows]
    places, across, down, highest = list[tuple[int, int]](), 0, 0, 0
    for cell in cells:
        if across + cell.width > _WIDE:
            across, down, highest = 0, down + highest + _GAP, 0
        places.append((across, down))
        across, highest = across + cell.width + _GAP, max(highest, cell.height)
    whole = Image.new("RGB", (_WIDE, down + highest), "white")
    for number, (cell, place) in enumerate(zip(cells, places, strict=True), 1):
        ImageDraw.Draw(cell).text((2, 0), str(number), "white", stroke_width=2, stroke_fill="black", font_size=16)
        whole.paste(cell, place)
    packed = io.BytesIO()
    whole.save(packed, "WEBP", quality=62, method=6)
    return packed.getvalue()


def cell_of(row: Row, which: int) -> Image.Image:
    if not row.pictures:
        return Image.new("RGB", (_CELL, _CELL), "lightgrey")
    with Image.open(row.pictures[which]) as stored:
        drawn = stored.convert("RGB")
    action = action_from_json(row.action) if row.action else None
    at = pressed_point(action) if action else None
    pen, wide = ImageDraw.Draw(drawn), drawn.width // 60
    if at is not None:
        x, y = at
        pen.line((x - 4 * wide, y, x + 4 * wide, y), "red", wide)
        pen.line((x, y - 4 * wide, x, y + 4 * wide), "red", wide)
    if isinstance(action, Swipe | Drag):
        pen.line((action.x, action.y, action.x2, action.y2), "red", wide)
    # A desktop is as wide as two phones.
    across = _CELL if drawn.height > drawn.width else 2 * _CELL + _GAP
    return drawn.resize((across, drawn.height * across // drawn.width), Image.Resampling.LANCZOS)


def section(title: str, name: str, rows: Sequence[Row]) -> Iterator[str]:
    yield f"\n## {title}\n\n![Screens of the rows below](pictures/rows/{name}.webp)\n\n"
    yield "| | asked | reply |\n|---|---|---|\n"
    for number, row in enumerate(rows, 1):
        is_short = len(row.asked) <= _FIRST + _LAST
        asked = row.asked if is_short else f"{row.asked[:_FIRST]} […] {row.asked[-_LAST:]}"
        yield f"| {number} | {in_cell(asked)} | {in_cell(row.reply)} |\n"


def in_cell(text: str) -> str:
    """A text in a cell of a table, word for word."""
    return html.escape(text, quote=False).replace("\n", "<br>").replace("|", "&#124;").replace("*", "&#42;")


def main(folder: Path) -> None:
    run_rounds(folder)
    shown = [(f"Family `{family}`", family, "end_to_end", family, "") for family in FAMILIES]
    shown += [(f"Kind `{kind}`", f"kind-{kind}", agent, "gui-owl", kind) for kind, agent in KINDS.items()]
    parts, drawn = [_HEAD], dict[bytes, str]()
    shutil.rmtree(PICTURES, ignore_errors=True)
    PICTURES.mkdir(parents=True)
    for title, name, agent, family, kind in shown:
        rows = exported(folder, agent, family, kind)
        picture = sheet(rows, first_screen=kind == "action_semantics")
        # Families that show the same screens share their sheet.
        name = drawn.setdefault(picture, name)
        (PICTURES / f"{name}.webp").write_bytes(picture)
        parts += section(title, name, rows)
    (HERE / "rows.md").write_text("".join(parts), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
