"""Tasks in OSWorld's format: what is incomplete is listed, desktop-env scores the rest."""

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from openpyxl import Workbook

from tests.failures import failing
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
    ({"evaluator": []}, "evaluator: Input should be a valid dictionary"),
    (evaluator(result=[7]), "is malformed: "),
]


class Done(NamedTuple):
    """The parts of a task and the command on the machine that does it; without one, the agent has to give up."""

    parts: dict[str, Any]
    command: Sequence[str] = ()


def complete_tasks() -> dict[str, Done]:
    """Tasks over files, a terminal and Calc, by id."""

    def url(name: str) -> str:
        return f"https://example.org/{quote(name)}?download=true"

    def give(*names: str) -> list[dict[str, Any]]:
        return [step("download", files=[{"url": url(name), "path": f"{DESKTOP}/{name}"} for name in names])]

    def file(name: str) -> dict[str, Any]:
        return {"type": "vm_file", "path": f"{DESKTOP}/{name}", "dest": name}

    def wanted(name: str) -> dict[str, Any]:
        return {"type": "cloud_file", "path": url(name), "dest": f"wanted-{name}"}

    def copied(name: str, onto: str) -> Sequence[str]:
        return ("cp", f"{DESKTOP}/{name}", f"{DESKTOP}/{onto}")

    def task(config: list[Any], parts: dict[str, Any], *command: str) -> Done:
        return Done({"config": config, **parts}, command)

    made, moved = (
        [step("execute", command=["touch", f"{DESKTOP}/a.txt"])],
        ("mv", f"{DESKTOP}/a.txt", f"{DESKTOP}/b.txt"),
    )
    there, either = rule(include=["b.txt"], exclude=["a.txt"]), [rule(expected="b.txt\n"), rule(expected="")]
    cell = {"type": "check_cell", "sheet_idx": 0, "coordinate": "B3", "props": {"value": {"method": "eq", "ref": 30}}}
    calc = [*give("budget.xlsx", "budget-done.xlsx"), step("launch", command=["soffice", f"{DESKTOP}/budget.xlsx"])]
    saving = {"postconfig": [step("execute", command=copied("budget.xlsx", "saved.xlsx"))]}
    cells = evaluator("compare_table", file("saved.xlsx"), None, options={"rules": [cell]}, **saving)
    text = evaluator("compare_text_file", file("list.txt"), wanted("sorted list.txt"))
    return {
        "rename": task(made, evaluator("check_include_exclude", expected=there), *moved),
        "either": task(made, evaluator(["exact_match"] * 2, [LISTING] * 2, either, conj="or"), *moved),
        "sort": task(give("list.txt", "sorted list.txt"), text, *copied("sorted list.txt", "list.txt")),
        "impossible": task(made, {"evaluator": {"func": "infeasible"}}),
        "calc": task(calc, cells, *copied("budget-done.xlsx", "budget.xlsx")),
        "unstarted": task([step("open", path="/home/user/none")], evaluator()),
    }


def write_downloads(folder: Path) -> None:
    """Write what the tasks download: documents as they are given, and as they should become."""
    folder.mkdir()
    (folder / "list.txt").write_text("pear\napple\nfig\n")
    (folder / "sorted list.txt").write_text("apple\nfig\npear\n")
    for name, total in (("budget", None), ("budget-done", 30)):
        book = Workbook()
        for row in (["Rent", 10], ["Food", 20], ["Total", total]):
            book.active.append(row)
        book.save(folder / f"{name}.xlsx")


class Given(NamedTuple):
    """A folder of tasks, OSWorld's code with copies of their downloads, and what was imported of them."""

    folder: Path
    osworld: OsworldSpec
    tasks: dict[str, Done]
    imported: ImportedQueries


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Given:
    if not (OSWORLD / "installed").exists():
        pytest.skip("OSWorld's code is not there: `make osworld-env` installs it")
    folder = tmp_path_factory.mktemp("osworld")
    mirror, tasks, complete = folder / "mirror", folder / "tasks", complete_tasks()
    for path in (mirror / "etc", tasks):
        path.mkdir(parents=True)
    (mirror / "etc/passwd").touch()
    write_downloads(mirror / "example.org")
    written = {f"{number:02}": {**evaluator(), **parts} for number, (parts, _) in enumerate(INCOMPLETE)}
    written |= {name: done.parts for name, done in complete.items()}
    for name, parts in written.items():
        task = {"id": name, "instruction": f"Do {name}.", "config": [], "proxy": False, **parts}
        (tasks / f"{name}.json").write_text(json.dumps(task))
    own = OsworldSpec(python=OSWORLD / "bin/python", mirror=mirror)
    return Given(tasks, own, complete, asyncio.run(import_checked(tasks, own, 0.0, ORIGIN, 0.0)))


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


async def test_tasks_are_scored_by_desktop_env_and_its_provider_restores_the_machine(
    tmp_path: Path, given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = {query.task: query for query in given.imported.queries}
    scores: dict[str, list[float | None]] = {}
    async with osworld_machine(tmp_path) as machine:
        machine.home = tmp_path / "home"
        restore = snapshot_of(machine.url, tmp_path, monkeypatch)
        environment = await RemoteDesktops((machine.url,), given.folder, osworld=given.osworld, restore=restore)()
        for name, (_, command) in given.tasks.items():
            if len(scores) != 1:  # the second is left to the provider
                machine.restore()
            if name == "unstarted":
                break
            await environment.reset(queries[name], 0)
            scores[name] = [await environment.score()]
            if command:
                await environment.desktop.execute(command)
                scores[name].append(await environment.score())
            await environment.step(Terminate(status="failure"))
            scores[name].append(await environment.score())
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
    assert scores.pop("impossible") == [0.0, 1.0]
    assert len(scores) == len(given.tasks) - 2 and set(map(tuple, scores.values())) == {(0.0, 1.0, 0.0)}
