"""Runs scripts one after the other in one process, because a trainer's packages take long to import.

Each line of standard input is a JSON list: the module of a script, the folder to run it in, and its arguments. A script
that has ended is answered by `done` or `failed` on standard output; what scripts print goes to standard error.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback


def main() -> None:
    """Run scripts until standard input closes."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        for line in sys.stdin:
            module, folder, *arguments = json.loads(line)
            print(_run(module, folder, arguments), file=answers, flush=True)


def _run(module: str, folder: str, arguments: list[str]) -> str:
    os.chdir(folder)
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except BaseException:
        traceback.print_exc()
        return "failed"
    return "done"


if __name__ == "__main__":
    main()
