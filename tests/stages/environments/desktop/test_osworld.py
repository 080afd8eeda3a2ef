"""Tasks in OSWorld's format: what is incomplete is listed, desktop-env scores the rest."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

import pytest
from docx import Document
from docx.enum.text import WD_ALIGN_PARAGRAPH
from openpyxl import Workbook

from tests.failures import failing
from tests.http_server import QuietHandler, serving
from tests.stages.environments.desktop.osworld_server import osworld_machine
from tests.stages.environments.desktop.queries import ORIGIN, step
from trajmill.schemas.actions import Terminate
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.stages.environments.desktop.environment import RemoteDesktops
from trajmill.stages.environments.desktop.osworld.tasks import import_checked
from trajmill.stages.environments.desktop.spec import OsworldSpec, RestoreSpec
from trajmill.stages.environments.tasks import ImportedQueries

pytestmark = pytest.mark.slow
OSWORLD = Path(__file__).parents[4] / ".venv-osworld"

DESKTOP = "/home/user/Desktop"
LISTING = {"type": "vm_command_line", "command": ["ls", DESKTOP]}
FILE = {"type": "vm_file", "path": "/home/user/a", "dest": "a"}


def rule(**rules: Any) -> dict[str, Any]:
    return {"type": "rule", "rules": rules}


def evaluator(
    func: Any = "exact_match", result: Any = LISTING, expected: Any = rule(expected="a"), **others: Any
) -> dict[str, Any]:
    wanted = {} if expected is None else {"expected": expected}
    return {"evaluator": {"func": func, "result": result, **wanted, **others}}


def downloading(*urls: str) -> dict[str, Any]:
    return {"config": [step("download", files=[{"url": url, "path": "/a"} for url in urls])]}


INCOMPLETE: list[tuple[dict[str, Any], str]] = [
    ({"config": [step("levitate")]}, "config 1: desktop-env has no setup step 'levitate'"),
    ({"config": [step("launch")]}, "config 1: launch: missing a required argument: 'command'"),
    ({"config": [step("open", path="/a", wait=1)]}, "config 1: open: got an unexpected keyword argument 'wait'"),
    ({"config": [step("launch", command=["{SCREEN_WIDTH}"])]}, "config 1: launch: {SCREEN_WIDTH} is filled in only"),
    ({"config": [step("execute", command=["a"], stdout="../a")]}, "stdout '../a' is not a plain file name"),
    ({"config": [step("upload_file", files=[{"local_path": "/etc/passwd", "path": "/a"}])]}, "'/etc/passwd' is not in"),
    (downloading("file:///etc/passwd"), "which is no http address"),
    (downloading("https://example.org/lost"), "the mirror lacks 1 of its files: https://example.org/lost"),
    (evaluator("os"), "desktop-env has no metric 'os'"),
    (evaluator("__import__"), "desktop-env has no metric '__import__'"),
    (evaluator("exact_match", options={"fuzzy": 1}), "exact_match: got an unexpected keyword argument 'fuzzy'"),
    (evaluator(result={"type": "mood"}), "desktop-env has no getter 'mood'"),
    (evaluator(result={"type": "vm_command_line"}), "getter vm_command_line lacks 'command'"),
    (evaluator(result={**FILE, "dest": "../a"}), "getter vm_file: dest '../a' is not a plain file name"),
    (evaluator("check_python_file_by_test_suite", FILE, FILE), "would run Python files of the machine"),
    (evaluator("compare_image_text", FILE), "needs the package easyocr"),
    (evaluator("run_sqlite3", FILE, rule(sql="ATTACH 'a' AS b")), "takes one SELECT"),
    ({"evaluator": []}, "evaluator should be a table of keys and values"),
    (evaluator(result=[7]), "is malformed: "),
]


class Done(NamedTuple):
    """The parts of a task and the command on the machine that does it; without one, the agent has to give up."""

    parts: dict[str, Any]
    command: Sequence[str] = ()


def complete_tasks(address: str) -> dict[str, Done]:
    """Twelve tasks over files, a terminal, Calc and Writer, and one whose setup fails, by id.

    `address` is where their downloads are.
    """

    def url(name: str) -> str:
        return f"{address}/{quote(name)}?download=true"

    def give(*names: str) -> list[dict[str, Any]]:
        return [step("download", files=[{"url": url(name), "path": f"{DESKTOP}/{name}"} for name in names])]

    def file(name: str) -> dict[str, Any]:
        return {"type": "vm_file", "path": f"{DESKTOP}/{name}", "dest": name}

    def task(config: list[Any], parts: dict[str, Any], *command: str) -> Done:
        return Done({"config": config, **parts}, command)

    def replaced(name: str, by: str, func: str, compared: bool = True, **others: Any) -> Done:
        """A document that another takes the place of; `compared` with what is downloaded for the evaluator."""
        result = file("saved.xlsx" if "postconfig" in others else name)
        wanted = {"type": "cloud_file", "path": url(by), "dest": f"wanted-{by}"} if compared else None
        opened = [step("launch", command=["soffice", f"{DESKTOP}/{name}"])] if name.endswith("x") else []
        scored = evaluator(func, result, wanted, **others)
        return task([*give(name, by), *opened], scored, "cp", f"{DESKTOP}/{by}", f"{DESKTOP}/{name}")

    made, listed = [step("execute", command=["touch", f"{DESKTOP}/a.txt"])], file("list.txt")
    moved, kiwi = ("mv", f"{DESKTOP}/a.txt", f"{DESKTOP}/b.txt"), ("sed", "-i", "s/pear/kiwi/", f"{DESKTOP}/list.txt")
    there, either = rule(include=["b.txt"], exclude=["a.txt"]), [rule(expected="b.txt\n"), rule(expected="")]
    both = [rule(expected=["fig"]), rule(expected=["kiwi"])]
    cell = {"type": "check_cell", "sheet_idx": 0, "coordinate": "B3", "props": {"value": {"method": "eq", "ref": 30}}}
    total, sheet = {"rules": [cell]}, {"rules": [{"type": "sheet_data", "sheet_idx0": 0, "sheet_idx1": "EI0"}]}
    saving = [step("execute", command=["cp", f"{DESKTOP}/budget.xlsx", f"{DESKTOP}/saved.xlsx"])]
    budgets, letters = ("budget.xlsx", "budget-done.xlsx", "compare_table"), ("letter.docx", "letter-done.docx")
    return {
        "rename": task(made, evaluator("check_include_exclude", expected=there), *moved),
        "remove": task(made, evaluator(expected=rule(expected="")), "rm", f"{DESKTOP}/a.txt"),
        "either": task(made, evaluator(["exact_match"] * 2, [LISTING] * 2, either, conj="or"), *moved),
        "sort": replaced("list.txt", "sorted list.txt", "compare_text_file"),
        "add-row": replaced("table.csv", "longer.csv", "compare_csv"),
        "both-lines": task(give("list.txt"), evaluator(["file_contains"] * 2, [listed] * 2, both), *kiwi),
        "impossible": task(made, {"evaluator": {"func": "infeasible"}}),
        "calc-total": replaced(*budgets, compared=False, options=total),
        "calc-sheet": replaced(*budgets, options=sheet),
        "calc-save": replaced(*budgets, compared=False, options=total, postconfig=saving),
        "writer-thanks": replaced(*letters, "compare_docx_files"),
        "writer-centre": replaced("letter.docx", "centred.docx", "is_first_line_centered", compared=False),
        "unstarted": task([step("open", path="/home/user/none")], evaluator()),
    }


def write_downloads(folder: Path) -> None:
    """Write what the tasks download: documents as they are given, and as they should become."""
    folder.mkdir()
    (folder / "list.txt").write_text("pear\napple\nfig\n")
    (folder / "sorted list.txt").write_text("apple\nfig\npear\n")
    (folder / "table.csv").write_text("name,price\npear,2\n")
    (folder / "longer.csv").write_text("name,price\npear,2\nfig,3\n")
    for name, total in (("budget", None), ("budget-done", 30)):
        book = Workbook()
        for row in (["Rent", 10], ["Food", 20], ["Total", total]):
            book.active.append(row)
        book.save(folder / f"{name}.xlsx")
    for name, text in (("letter", "Dear Ann"), ("letter-done", "Dear Ann, thank you"), ("centred", "Dear Ann")):
        document = Document()
        side = WD_ALIGN_PARAGRAPH.CENTER if name == "centred" else WD_ALIGN_PARAGRAPH.LEFT
        document.add_paragraph(text).alignment = side
        document.save(str(folder / f"{name}.docx"))


class Given(NamedTuple):
    """A folder of tasks, OSWorld's code with copies of their downloads, and what was imported of them."""

    folder: Path
    osworld: OsworldSpec
    tasks: dict[str, Done]
    imported: ImportedQueries


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Given]:
    if not (OSWORLD / "installed").exists():
        pytest.skip("OSWorld's code is not there: `make osworld-env` installs it")
    folder = tmp_path_factory.mktemp("osworld")
    mirror, tasks, downloads = folder / "mirror", folder / "tasks", folder / "downloads"
    for path in (mirror / "etc", tasks):
        path.mkdir(parents=True)
    (mirror / "etc/passwd").touch()
    write_downloads(downloads)

    class Downloads(QuietHandler):
        def reply(self) -> None:
            self.answer((downloads / unquote(urlsplit(self.path).path[1:])).read_bytes())

    with serving(Downloads) as address:
        # Ours takes copies; desktop-env itself downloads.
        (mirror / address.removeprefix("http://")).symlink_to(downloads)
        complete = complete_tasks(address)
        written = {f"{number:02}": {**evaluator(), **parts} for number, (parts, _) in enumerate(INCOMPLETE)}
        written |= {name: done.parts for name, done in complete.items()}
        for name, parts in written.items():
            task = {"id": name, "instruction": f"Do {name}.", "config": [], "proxy": False, **parts}
            (tasks / f"{name}.json").write_text(json.dumps(task))
        own = OsworldSpec(python=OSWORLD / "bin/python", mirror=mirror)
        yield Given(tasks, own, complete, asyncio.run(import_checked(tasks, own, 0.0, ORIGIN, 0.0)))


def test_incomplete_tasks_are_listed_with_reasons(given: Given) -> None:
    assert {query.task for query in given.imported.queries} == {*given.tasks}
    failed = zip(INCOMPLETE, given.imported.failures, strict=True)
    assert [(reason, each.message) for (_, reason), each in failed if reason not in each.message] == []


_VMRUN = """#!{python}
import sys, urllib.request as requests
match sys.argv[3:]:
    case ["list"] | ["revertToSnapshot", _, "clean"] if sys.argv[1:3] == ["-T", "ws"]:
        print("Total running VMs: 1", "{vm}", sep="\\n")
        if "clean" in sys.argv:
            requests.urlopen(requests.Request("{url}/restore", b""))
    case ["getGuestIPAddress", "{vm}", "-wait"]:
        print("127.0.0.1")
    case _:
        sys.exit(1)
"""


def snapshot_of(url: str, folder: Path, environment: pytest.MonkeyPatch) -> RestoreSpec:
    """Restoring by desktop-env's provider of VMware, whose `vmrun` is a script here."""
    program, machine = folder / "bin" / "vmrun", str(folder / "a.vmx")
    program.parent.mkdir()
    program.write_text(_VMRUN.format(python=sys.executable, url=url, vm=machine))
    program.chmod(0o755)
    environment.setenv("PATH", str(program.parent), prepend=os.pathsep)
    return RestoreSpec(provider="vmware", machines={url: machine}, snapshot="clean")


@asynccontextmanager
async def direct_scores(given: Given, url: str, folder: Path) -> AsyncIterator[Callable[[str, bool], Awaitable[float]]]:
    """Inside, desktop-env's own environment scores a task by its id and whether the agent gave up."""
    command = (given.osworld.python, Path(__file__).with_name("osworld_direct.py"), url.rpartition(":")[2])
    process = await asyncio.create_subprocess_exec(*command, cwd=folder, stdin=PIPE, stdout=PIPE)
    assert process.stdin is not None and process.stdout is not None
    asked, said = process.stdin, process.stdout

    async def score(name: str, gave_up: bool) -> float:
        asked.write(json.dumps([str(given.folder / f"{name}.json"), gave_up]).encode() + b"\n")
        return float(await said.readline())

    try:
        yield score
    finally:
        process.kill()
        await process.wait()


async def test_twelve_tasks_score_as_desktop_env_scores_them_and_its_provider_restores_the_machine(
    tmp_path: Path, given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = {query.task: query for query in given.imported.queries}
    scores: dict[str, list[float | None]] = {}
    async with osworld_machine(tmp_path) as machine, direct_scores(given, machine.url, tmp_path) as direct:
        machine.home = tmp_path / "home"
        restore = snapshot_of(machine.url, tmp_path, monkeypatch)
        environment = await RemoteDesktops((machine.url,), given.folder, osworld=given.osworld, restore=restore)()
        for name, (_, command) in given.tasks.items():
            if len(scores) != 1:  # the second is left to the provider
                machine.restore()
            if name == "unstarted":
                break
            await environment.reset(queries[name], 0)
            scores[name] = [await environment.score(), await direct(name, False)]
            if command:
                await environment.desktop.execute(command)
                scores[name] += [await environment.score(), await direct(name, False)]
            await environment.step(Terminate(status="failure"))
            scores[name] += [await environment.score(), await direct(name, True)]
        assert machine.restored == len(given.tasks)
        # desktop-env raises for few steps that fail, and logs the rest.
        with failing(FailureClass.SETUP, "Failed to open file"):
            await environment.reset(queries["unstarted"], 0)
        machine.breaks = True
        with pytest.raises(EnvironmentFailure):
            await environment.score()
        await environment.close()
        machine.breaks = False
        machine.restore()
        plain = await RemoteDesktops((machine.url,), given.folder)()
        with failing(FailureClass.SETUP, "set `environment.osworld`"):
            await plain.reset(queries["rename"], 0)
        await plain.close()
        with failing(FailureClass.SETUP, "run `make osworld-env`"):
            await RemoteDesktops((machine.url,), tmp_path, osworld=OsworldSpec(python=tmp_path / "none"))()
    assert scores.pop("impossible") == [0.0, 0.0, 1.0, 1.0]
    assert scores == {name: [0.0, 0.0, 1.0, 1.0, 0.0, 0.0] for name in scores} and len(scores) == 11
