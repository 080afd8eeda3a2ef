import json
import os
import sys
import threading
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from tests.failures import failing
from tests.stages.environments.desktop.osworld_server import osworld_machine
from tests.stages.environments.desktop.queries import ORIGIN, query_of, step
from trajmill.schemas import actions as act
from trajmill.schemas.errors import EnvironmentFailure, FailureClass
from trajmill.stages.environments.desktop.environment import RemoteDesktops
from trajmill.stages.environments.desktop.local.desktop import LocalDesktop
from trajmill.stages.environments.desktop.local.server import serve_desktop
from trajmill.stages.environments.desktop.osworld.tasks import import_checked
from trajmill.stages.environments.desktop.spec import OsworldSpec, RestoreSpec

pytestmark = pytest.mark.slow

LISTING = {"type": "vm_command_line", "command": ["ls"]}
RULE = {"type": "rule", "rules": {"expected": "a"}}
FILE = {"type": "vm_file", "path": "/home/user/a", "dest": "a"}


def evaluator(func: Any = "exact_match", result: Any = LISTING, expected: Any = RULE, **others: Any) -> dict[str, Any]:
    return {"evaluator": {"func": func, "result": result, "expected": expected, **others}}


INCOMPLETE: list[tuple[dict[str, Any], str]] = [
    ({"config": [step("levitate")]}, "config 1: desktop-env has no setup step 'levitate'"),
    ({"config": [step("launch")]}, "config 1: launch: missing a required argument: 'command'"),
    ({"config": [step("open", path="/a", wait=1)]}, "config 1: open: got an unexpected keyword argument 'wait'"),
    ({"config": [step("googledrive", operation=[], args=[])]}, "config 1: googledrive: needs a Google account"),
    ({"config": [step("launch", command=["{SCREEN_WIDTH}"])]}, "config 1: launch: {SCREEN_WIDTH} is filled in only"),
    ({"config": [step("execute", command=["a"], stdout="../a")]}, "stdout '../a' is not a plain file name"),
    ({"config": [step("upload_file", files=[{"local_path": "/etc/passwd", "path": "/a"}])]}, "'/etc/passwd' is not in"),
    ({"config": [step("download", files=[{"url": "file:///etc/passwd", "path": "/a"}])]}, "which is no http address"),
    ({"proxy": True}, "needs a proxy"),
    (evaluator("os"), "desktop-env has no metric 'os'"),
    (evaluator("__import__"), "desktop-env has no metric '__import__'"),
    (evaluator("exact_match", options={"fuzzy": 1}), "exact_match: got an unexpected keyword argument 'fuzzy'"),
    (evaluator(["exact_match", "exact_match"]), "differ in length"),
    (evaluator(result={"type": "mood"}), "desktop-env has no getter 'mood'"),
    (evaluator(result={"type": "vm_command_line"}), "getter vm_command_line lacks 'command'"),
    (evaluator(result={**FILE, "dest": "../a"}), "getter vm_file: dest '../a' is not a plain file name"),
    (evaluator("check_python_file_by_test_suite", FILE, FILE), "would run Python files of the machine"),
    (evaluator("compare_image_text", FILE), "needs the package easyocr"),
    (evaluator("run_sqlite3", FILE, {"type": "rule", "rules": {"sql": "ATTACH 'a' AS b"}}), "takes one SELECT"),
    ({"evaluator": []}, "evaluator: Input should be a valid dictionary"),
    ({"config": [7]}, "config.0: "),
    (evaluator(result=[7]), "is malformed: "),
]


async def test_incomplete_tasks_are_listed_with_reasons_and_never_run(tmp_path: Path, osworld: OsworldSpec) -> None:
    for number, (parts, _) in enumerate(INCOMPLETE):
        task = {"id": str(number), "instruction": "Do it.", "config": [], **evaluator(), **parts}
        (tmp_path / f"{number:02}.json").write_text(json.dumps(task))
    infeasible = {"id": "no", "instruction": "Fly.", "evaluator": {"func": "infeasible"}}
    (tmp_path / "infeasible.json").write_text(json.dumps(infeasible))
    imported = await import_checked(tmp_path, osworld, 0.0, ORIGIN, 0.0)
    assert [query.instruction for query in imported.queries] == ["Fly."]
    assert [
        (reason, each.message)
        for (_, reason), each in zip(INCOMPLETE, imported.failures, strict=True)
        if reason not in each.message
    ] == []


async def test_a_machine_is_set_up_by_mirror_and_scored_by_desktop_env(tmp_path: Path, osworld: OsworldSpec) -> None:
    url = "https://example.org/a%20b/given.txt?download=true"
    (tmp_path / "mirror/example.org/a b").mkdir(parents=True)
    (tmp_path / "mirror/example.org/a b/given.txt").write_text("given\n")
    (tmp_path / "tasks").mkdir()
    named = {"path": "/home/user/a", "dest": "a"}
    cases = {
        "same": [step("download", files=[{"url": url, "path": "/home/user/a"}])],
        "broken": [step("upload_file", files=[{"local_path": "same.json", "path": "/home/user/a"}]), step("levitate")],
        "lost": [step("download", files=[{"url": url.replace("given", "lost"), "path": "/home/user/a"}])],
        "unstarted": [step("open", path="/home/user/a")],
    }
    for name, config in cases.items():
        compared = evaluator(
            "compare_text_file", {"type": "vm_file", **named}, {"type": "cloud_file", **named, "path": url}
        )
        compared["evaluator"]["expected"]["dest"] = "wanted"
        task = {"id": name, "instruction": "Keep it.", "config": config, **compared}
        (tmp_path / "tasks" / f"{name}.json").write_text(json.dumps(task))
    own = osworld.model_copy(update={"mirror": tmp_path / "mirror"})
    imported = await import_checked(tmp_path / "tasks", own, 0.0, ORIGIN, 0.0)
    assert {failure.input_id for failure in imported.failures} == {"broken", "lost"}
    same, unstarted = imported.queries
    async with osworld_machine(tmp_path) as machine:
        environment = await RemoteDesktops((machine.url,), tmp_path / "tasks", osworld=own)()
        try:
            await environment.reset(same, 0)
            assert machine.files["/home/user/a"] == b"given\n"
            assert await environment.score() == 1.0
            machine.files["/home/user/a"] = b"changed\n"
            assert await environment.score() == 0.0
            machine.files["/home/user/a"] = b"given\n"
            await environment.step(act.Terminate(status="failure"))
            assert await environment.score() == 0.0
            machine.restore()
            # desktop-env raises for few steps that fail, and logs the rest.
            with failing(FailureClass.SETUP, "Failed to open file"):
                await environment.reset(unstarted, 0)
            machine.breaks = True
            with pytest.raises(EnvironmentFailure):
                await environment.score()
        finally:
            await environment.close()
        machine.breaks = False
        machine.restore()
        plain = await RemoteDesktops((machine.url,), tmp_path / "tasks")()
        with failing(FailureClass.SETUP, "set `environment.osworld`"):
            await plain.reset(same, 0)
        await plain.close()
        missing = OsworldSpec(python=tmp_path / "no-python")
        with failing(FailureClass.SETUP, "run `make osworld-env`"):
            await RemoteDesktops((machine.url,), tmp_path, osworld=missing)()


async def test_a_snapshot_is_restored_by_desktop_envs_provider(
    tmp_path: Path, osworld: OsworldSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """VMware's tool `vmrun` is a script here, which restores the machine and knows its address."""
    program = tmp_path / "bin" / "vmrun"
    program.parent.mkdir()
    async with osworld_machine(tmp_path) as machine:
        program.write_text(_VMRUN.format(python=sys.executable, url=machine.url, vm=tmp_path / "a.vmx"))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
        restore = RestoreSpec(provider="vmware", machines={machine.url: str(tmp_path / "a.vmx")}, snapshot="clean")
        environment = await RemoteDesktops((machine.url,), tmp_path, osworld=osworld, restore=restore)()
        try:
            for _ in range(2):
                await environment.reset(query_of(tmp_path / "tasks"), 0)
        finally:
            await environment.close()
        assert machine.restored == 1


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


def test_a_local_desktop_takes_its_token_as_the_password_in_its_address() -> None:
    """As desktop-env sends it, which knows of no tokens."""
    server = serve_desktop(cast(LocalDesktop, None), "right")
    threading.Thread(target=server.serve_forever, args=[0.05], daemon=True).start()
    try:
        for password, status in (("right", 200), ("wrong", 403)):
            address = f"http://token:{password}@127.0.0.1:{server.server_address[1]}/capabilities"
            assert httpx.get(address, trust_env=False).status_code == status
    finally:
        server.shutdown()
        server.server_close()
