"""Queries for atomic operations on objects that are drawn by chance (`source = atomic`, GUI-Owl 6.2, computers)."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from random import Random
from typing import Any, Literal, NamedTuple

import yaml

from trajmill.schemas.record import Record, content_id
from trajmill.schemas.tables.query import PathStep, Platform, Slot, Source, Split
from trajmill.stages.environments.screen_goal import KEY
from trajmill.stages.queries.base import Candidate, Offer, QueryPlan, SourceContext, SplitCandidates, Written, phrased
from trajmill.stages.queries.spec import AtomicApp
from trajmill.stages.queries.walk import FINISH

_DRAWS = 8


class AtomicTask(NamedTuple):
    """One operation on objects that its start state creates."""

    app: AtomicApp
    values: Mapping[str, str]
    config: Sequence[Mapping[str, Any]]
    steps: Sequence[PathStep]
    goal: Mapping[str, Any]
    operation: str = ""

    @property
    def task(self) -> str:
        return f"{self.app}.{self.operation}"

    def facts(self) -> None:
        return None

    def worded(self, heldout: bool, seed: int) -> Written:
        return phrased(__package__, self.operation, self.task, self.values, heldout, Random(seed), "atomic-grammar-2")

    def plan(self) -> QueryPlan:
        page = f"{self.app}.start"
        path = tuple(step.model_copy(update={"page": page}) for step in (*self.steps, FINISH))
        return QueryPlan(
            platform=Platform.DESKTOP,
            apps=(self.app,),
            source=Source.ATOMIC,
            start_state=json.dumps({"config": list(self.config)}, sort_keys=True),
            goal=json.dumps(self.goal, sort_keys=True),
            pages={page: "The window that is open at the start."},
            slots=tuple(Slot(name=name, value=value, said="", page=page) for name, value in self.values.items()),
            path=path,
        )


class AtomicSource(NamedTuple):
    wanted: Mapping[Split, int]
    """By split, the queries of each operation; of held-out apps as many as of held-out slots."""
    programs: Collection[str]

    async def candidates(self, context: SourceContext) -> Offer:
        """Return operations of all splits; an operation on few objects gives fewer queries than are wanted."""
        seen: set[str] = set()

        def stream(name: str, split: Split, wanted: int) -> Iterator[Candidate]:
            rng = Random(int(content_id("atomic", context.seed, split, name), 16))
            for _ in range(_DRAWS * wanted):
                goal = OPERATIONS[name](packaged_objects(), rng)._replace(operation=name)
                words = rng.getrandbits(32)
                key = content_id(goal.task, sorted(goal.values.items()), goal.plan().start_state)
                if key not in seen:
                    seen.add(key)
                    yield Candidate(goal, split, split is Split.HELDOUT_PHRASINGS, words)

        splits: list[SplitCandidates] = []
        for split in Split:
            wanted = self.wanted[Split.HELDOUT_SLOTS if split is Split.HELDOUT_APPS else split]
            for name, operation in OPERATIONS.items() if wanted else ():
                app = operation(packaged_objects(), Random(0)).app
                if app in self.programs and (app in context.unseen.all) == (split is Split.HELDOUT_APPS):
                    splits.append(SplitCandidates(split, wanted, [stream(name, split, wanted)]))
        return Offer(tuple(splits))


HOME = "/home/user"
_DOCUMENT = f"{HOME}/Documents/note.txt"
_LINES = 5
_SHEET = f"{HOME}/Documents/table.csv"
_ROWS = 4
_COLUMNS = "ABC"
_EMPTY = [""] * len(_COLUMNS)
_BELOW_THE_TABLE = range(_ROWS + 3, _ROWS + 7)
_OUT_OF_SIGHT = range(60, 80)
_Table = Sequence[Sequence[str]]
_RENAME = {"role": "menu_item", "text": "Rename..."}


class Objects(Record):
    folders: tuple[str, ...]
    files: tuple[str, ...]
    lines: tuple[str, ...]
    fields: tuple[str, ...]
    headings: tuple[str, ...]
    goods: tuple[str, ...]


@cache
def packaged_objects() -> Objects:
    return Objects.model_validate(yaml.safe_load(files(__package__).joinpath("objects.yaml").read_text()))


def run(how: Literal["launch", "execute"], *command: str) -> Mapping[str, Any]:
    return {"type": how, "parameters": {"command": list(command)}}


def _file(path: str, content: str) -> Mapping[str, Any]:
    # The content is passed as an argument: the shell never runs it.
    return run("execute", "sh", "-c", 'printf %s "$2" > "$1"', "sh", path, content)


def _step(operation: str, target: str = "", text: str = "") -> PathStep:
    return PathStep(page="", operation=operation, target=target, text=text)


def _output_is(command: list[str], expected: str) -> Mapping[str, Any]:
    result = {"type": "vm_command_line", "command": command}
    return {"func": "exact_match", "result": result, "expected": {"type": "rule", "rules": {"expected": expected}}}


def _on_file(objects: Objects, rng: Random, operation: str, *shown: Mapping[str, str]) -> AtomicTask:
    """Press one of three empty files; the status line names it, because a menu may cover the file itself."""
    names = rng.sample(objects.files, 3)
    status = {"role": "text", "text": f'"{names[0]}" (0 bytes) plain text document'}
    made = [*(_file(f"{HOME}/{name}", "") for name in names), run("launch", "pcmanfm", HOME)]
    steps = [_step(operation, f"pcmanfm/icon:{names[0]}")]
    return AtomicTask("pcmanfm", {"file": names[0]}, made, steps, {KEY: [*shown, status]})


def _open_folder(objects: Objects, rng: Random) -> AtomicTask:
    folders = rng.sample(objects.folders, 3)
    made = [*(run("execute", "mkdir", "-p", f"{HOME}/{each}") for each in folders), run("launch", "pcmanfm", HOME)]
    steps = [_step("double_tap", f"pcmanfm/icon:{folders[0]}")]
    goal = {KEY: [{"role": "heading", "text": folders[0], "state": "title"}]}
    return AtomicTask("pcmanfm", {"folder": folders[0]}, made, steps, goal)


def _drag_file(objects: Objects, rng: Random) -> AtomicTask:
    (name, other), folders = rng.sample(objects.files, 2), rng.sample(objects.folders, 2)
    made = [run("execute", "mkdir", "-p", f"{HOME}/{each}") for each in folders]
    made += [*(_file(f"{HOME}/{each}", each) for each in (name, other)), run("launch", "pcmanfm", HOME)]
    steps = [_step("drag", f"pcmanfm/icon:{name}", f"pcmanfm/icon:{folders[0]}")]
    goal = _output_is(["ls", f"{HOME}/{folders[0]}"], name)
    return AtomicTask("pcmanfm", {"file": name, "folder": folders[0]}, made, steps, goal)


def _in_document(
    app: AtomicApp, values: Mapping[str, str], before: Sequence[str], steps: Sequence[PathStep], after: Sequence[str]
) -> AtomicTask:
    office = ("soffice", "--writer", "--nologo", "--norestore")
    program = office if app == "libreoffice-writer" else (app,)
    made = [_file(_DOCUMENT, "".join(f"{line}\n" for line in before)), run("launch", *program, _DOCUMENT)]
    goal = _output_is(["cat", _DOCUMENT], "\n".join(after))
    return AtomicTask(app, values, made, (*steps, _step("key", text="ctrl+s")), goal)


def _add_line(objects: Objects, rng: Random) -> AtomicTask:
    before, added = rng.sample(objects.lines, 2)
    steps = (_step("key", text="ctrl+end"), _step("type", text=added))
    return _in_document("mousepad", {"text": added}, [before], steps, [before, added])


def _move_line(objects: Objects, rng: Random) -> AtomicTask:
    first, *others = rng.sample(objects.lines, 3)
    steps = [_step("key", text=chord) for chord in ("ctrl+home", "shift+down", "ctrl+x", "ctrl+end", "ctrl+v")]
    return _in_document("mousepad", {"text": first}, [first, *others], steps, [*others, first])


def _paragraph(place: int) -> str:
    # Paragraphs are the first text fields in the window.
    return "soffice/text_field" if place == 0 else f"soffice/text_field#{place + 1}"


def _fill_in(objects: Objects, rng: Random) -> AtomicTask:
    fields, goods = rng.sample(objects.fields, 3), rng.choice(objects.goods)
    chosen = rng.randrange(len(fields))
    form = [f"{field}:" for field in fields]
    filled = [f"{label} {goods}" if place == chosen else label for place, label in enumerate(form)]
    steps = (_step("tap", _paragraph(chosen)), _step("key", text="end"), _step("type", text=f" {goods}"))
    return _in_document("libreoffice-writer", {"text": goods, "field": fields[chosen]}, form, steps, filled)


def _replace_line(objects: Objects, rng: Random) -> AtomicTask:
    *lines, replacement = rng.sample(objects.lines, _LINES + 1)
    chosen = rng.randrange(_LINES)
    steps = (_step("select", _paragraph(chosen), _paragraph(chosen)), _step("type", text=replacement))
    after = [*lines[:chosen], replacement, *lines[chosen + 1 :]]
    return _in_document("libreoffice-writer", {"line": lines[chosen], "text": replacement}, lines, steps, after)


def _empty_rows(objects: Objects, rng: Random) -> AtomicTask:
    table, row = _table(objects, rng), rng.randint(2, _ROWS - 1)
    first, last = f"A{row}", f"{_COLUMNS[-1]}{row + 1}"
    steps = (_step("drag", f"soffice/cell:{first}", f"soffice/cell:{last}"), _step("key", text="delete"))
    after = [*table[: row - 1], _EMPTY, _EMPTY, *table[row + 1 :]]
    return _in_sheet({"first": first, "last": last}, table, steps, after)


def _into_cell(objects: Objects, rng: Random, rows: range) -> AtomicTask:
    table, text = _table(objects, rng), rng.choice(objects.goods)
    row, column = rng.choice(rows), rng.randrange(len(_COLUMNS))
    address = f"{_COLUMNS[column]}{row}"
    cell = f"soffice/cell:{address}"
    written = ["" if other != column else text for other in range(len(_COLUMNS))]
    scrolled = (_step("scroll", cell),) if rows is _OUT_OF_SIGHT else ()
    steps = (*scrolled, _step("tap", cell), _step("type", text=f"{text}\n"))
    gap = [_EMPTY] * (row - 1 - len(table))
    return _in_sheet({"text": text, "cell": address}, table, steps, [*table, *gap, written])


def _in_sheet(values: Mapping[str, str], before: _Table, steps: Sequence[PathStep], after: _Table) -> AtomicTask:
    start = ("soffice", "--calc", "--nologo", "--norestore", "--infilter=CSV:44,34,76,1", _SHEET)
    made = [_file(_SHEET, f"{_csv(before)}\n"), run("launch", *start)]
    goal = _output_is(["cat", _SHEET], _csv(after))
    return AtomicTask("libreoffice-calc", values, made, (*steps, _step("key", text="ctrl+s")), goal)


def _table(objects: Objects, rng: Random) -> list[Sequence[str]]:
    goods = rng.sample(objects.goods, _ROWS)
    return [objects.headings, *([name, str(rng.randint(2, 90)), str(rng.randint(1, 52))] for name in goods)]


def _csv(table: _Table) -> str:
    """Format CSV as LibreOffice saves it: text in quotes, numbers and empty cells without."""
    return "\n".join(",".join(f'"{text}"' if text.isalpha() else text for text in row) for row in table)


OPERATIONS: Mapping[str, Callable[[Objects, Random], AtomicTask]] = {
    "click": lambda objects, rng: _on_file(objects, rng, "tap"),
    "double_click": _open_folder,
    "right_click": lambda objects, rng: _on_file(objects, rng, "right_tap", _RENAME),
    "drag_move": _drag_file,
    "input_text": _add_line,
    "shortcut": _move_line,
    "input_place": _fill_in,
    "select_text": _replace_line,
    "input_cell": partial(_into_cell, rows=_BELOW_THE_TABLE),
    "scroll": partial(_into_cell, rows=_OUT_OF_SIGHT),
    "drag_select": _empty_rows,
}
