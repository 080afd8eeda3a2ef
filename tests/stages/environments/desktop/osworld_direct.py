"""Score tasks by `DesktopEnv` itself, without our code: one JSON request a line on stdin, one score a line on stdout.

Run by the interpreter of OSWorld's environment.
"""

import json
import os
import sys
import types

for name in ("easyocr", "pydrive", "pydrive.auth", "pydrive.drive"):
    sys.modules[name] = module = types.ModuleType(name)
    for part in ("GoogleAuth", "GoogleDrive", "GoogleDriveFile", "GoogleDriveFileList"):
        setattr(module, part, None)

from desktop_env import desktop_env  # noqa: E402


class Running:
    """A provider of a machine that runs already."""

    def __init__(self, port: int) -> None:
        self.port = port

    def start_emulator(self, *_: object) -> None: ...

    def get_ip_address(self, _: str) -> str:
        return f"127.0.0.1:{self.port}:9222:8006:8080"


scores = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)
for line in sys.stdin:
    asked = json.loads(line)
    provider = Running(asked["port"])
    desktop_env.create_vm_manager_and_provider = lambda *_, provider=provider, **__: (None, provider)
    direct = desktop_env.DesktopEnv("docker", path_to_vm="none", cache_dir="direct", require_a11y_tree=False)
    direct._set_task_info(asked["task"])  # noqa: SLF001
    direct.setup_controller.reset_cache_dir(direct.cache_dir)
    direct.action_history = ["FAIL" if asked["gave_up"] else "DONE"]
    scores.write(f"{float(direct.evaluate())}\n")
