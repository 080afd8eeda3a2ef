"""Scores tasks by `DesktopEnv` itself, without our code: a task file and whether the agent gave up, a line each.

Run by the interpreter of OSWorld's environment, with the port of a machine that runs already.
"""

import json
import os
import sys
from pathlib import Path
from unittest.mock import Mock

# What desktop-env imports and these tasks do not need is not installed.
sys.modules.update(dict.fromkeys(("easyocr", "pydrive", "pydrive.auth", "pydrive.drive"), Mock()))

from desktop_env import desktop_env  # noqa: E402

provider = Mock()
provider.get_ip_address.return_value = f"127.0.0.1:{sys.argv[1]}:9222:8006:8080"
desktop_env.create_vm_manager_and_provider = lambda *_, **__: (None, provider)
scores = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)
direct = desktop_env.DesktopEnv("docker", path_to_vm="none", cache_dir="direct", require_a11y_tree=False)
for line in sys.stdin:
    path, gave_up = json.loads(line)
    direct._set_task_info(json.loads(Path(path).read_text()))  # noqa: SLF001
    direct.setup_controller.reset_cache_dir(direct.cache_dir)
    direct.action_history = ["FAIL" if gave_up else "DONE"]
    scores.write(f"{float(direct.evaluate())}\n")
