"""Twelve tasks in OSWorld's format, over files, a terminal, Calc and Writer, and how each is done."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from docx import Document
from docx.enum.text import WD_ALIGN_PARAGRAPH
from openpyxl import Workbook

from tests.stages.environments.desktop.queries import step

DESKTOP = "/home/user/Desktop"


class Done(NamedTuple):
    """A task and the command on the machine that does it; without one, the agent has to give up."""

    task: dict[str, Any]
    command: Sequence[str] = ()


def write_downloads(folder: Path) -> None:
    """Write what the tasks download: documents as they are given, and as they should become."""
    folder.mkdir(parents=True)
    (folder / "list.txt").write_text("pear\napple\nfig\n")
    (folder / "sorted.txt").write_text("apple\nfig\npear\n")
    (folder / "table.csv").write_text("name,price\npear,2\n")
    (folder / "longer.csv").write_text("name,price\npear,2\nfig,3\n")
    for name, total in (("budget", None), ("budget-done", 30)):
        book = Workbook()
        for row in (["Rent", 10], ["Food", 20], ["Total", total]):
            book.active.append(row)
        book.save(folder / f"{name}.xlsx")
    for name, title in (("letter", "Dear Ann"), ("letter-done", "Dear Ann, thank you")):
        document = Document()
        document.add_paragraph(title)
        document.save(str(folder / f"{name}.docx"))
    document.paragraphs[0].alignment = WD_ALIGN_PARAGRAPH.CENTER
    document.save(str(folder / "centred.docx"))


def tasks(address: str) -> list[Done]:
    """Return the tasks; `address` is where their downloads are."""

    def give(name: str) -> dict[str, Any]:
        return step("download", files=[{"url": f"{address}/{name}", "path": f"{DESKTOP}/{name}"}])

    def copied(name: str, onto: str) -> Sequence[str]:
        return ("cp", f"{DESKTOP}/{name}", f"{DESKTOP}/{onto}")

    def done(
        by: Sequence[str], name: str, config: list[Any], func: Any, result: Any, expected: Any = None, **others: Any
    ) -> Done:
        right = {} if expected is None else {"expected": expected}
        evaluator = {"func": func, "result": result, **right, **others}
        said = {"id": name, "instruction": f"Do {name}.", "config": config, "evaluator": evaluator, "proxy": False}
        return Done(said, by)

    def output(*command: str) -> dict[str, Any]:
        return {"type": "vm_command_line", "command": list(command)}

    def rule(**rules: Any) -> dict[str, Any]:
        return {"type": "rule", "rules": rules}

    def file(name: str) -> dict[str, Any]:
        return {"type": "vm_file", "path": f"{DESKTOP}/{name}", "dest": name}

    def wanted(name: str) -> dict[str, Any]:
        return {"type": "cloud_file", "path": f"{address}/{name}", "dest": f"wanted-{name}"}

    listing, there = output("ls", DESKTOP), rule(include=["b.txt"], exclude=["a.txt"])
    made = step("execute", command=["touch", f"{DESKTOP}/a.txt"])
    cell = {"type": "check_cell", "sheet_idx": 0, "coordinate": "B3", "props": {"value": {"method": "eq", "ref": 30}}}
    same = {"type": "sheet_data", "sheet_idx0": 0, "sheet_idx1": "EI0"}
    budgets = [give("budget.xlsx"), give("budget-done.xlsx")]
    letters = [give("letter.docx"), give("letter-done.docx")]
    calc = [*budgets, step("launch", command=["soffice", "--calc", f"{DESKTOP}/budget.xlsx"])]
    writer = [*letters, step("launch", command=["soffice", "--writer", f"{DESKTOP}/letter.docx"])]
    saving = [step("execute", command=["cp", f"{DESKTOP}/budget.xlsx", f"{DESKTOP}/saved.xlsx"])]
    sorting, adding = [give("list.txt"), give("sorted.txt")], [give("table.csv"), give("longer.csv")]
    either, both = [rule(expected="b.txt\n"), rule(expected="")], [rule(expected=["fig"]), rule(expected=["kiwi"])]
    moved, kiwi = ("mv", f"{DESKTOP}/a.txt", f"{DESKTOP}/b.txt"), ("sed", "-i", "s/pear/kiwi/", f"{DESKTOP}/list.txt")
    total, cells = copied("budget-done.xlsx", "budget.xlsx"), {"options": {"rules": [cell]}}
    sheets, book, letter = {"options": {"rules": [same]}}, file("budget.xlsx"), file("letter.docx")
    centring = [*letters, give("centred.docx")]
    return [
        done(moved, "rename", [made], "check_include_exclude", listing, there),
        done(("rm", f"{DESKTOP}/a.txt"), "remove", [made], "exact_match", listing, rule(expected="")),
        done(moved, "keep-either", [made], ["exact_match"] * 2, [listing] * 2, either, conj="or"),
        done(
            copied("sorted.txt", "list.txt"),
            "sort",
            sorting,
            "compare_text_file",
            file("list.txt"),
            wanted("sorted.txt"),
        ),
        done(
            copied("longer.csv", "table.csv"), "add-row", adding, "compare_csv", file("table.csv"), wanted("longer.csv")
        ),
        done(kiwi, "both-lines", [give("list.txt")], ["file_contains"] * 2, [file("list.txt")] * 2, both),
        Done({**done((), "impossible", [made], "infeasible", {}).task, "evaluator": {"func": "infeasible"}}),
        done(total, "calc-total", calc, "compare_table", book, **cells),
        done(total, "calc-sheet", budgets, "compare_table", book, wanted("budget-done.xlsx"), **sheets),
        done(total, "calc-save", budgets, "compare_table", file("saved.xlsx"), postconfig=saving, **cells),
        done(
            copied("letter-done.docx", "letter.docx"),
            "writer-thanks",
            writer,
            "compare_docx_files",
            letter,
            wanted("letter-done.docx"),
        ),
        done(
            copied("centred.docx", "letter-done.docx"),
            "writer-centre",
            centring,
            "is_first_line_centered",
            file("letter-done.docx"),
        ),
    ]
