"""Calls scripts one after the other in one process, because a trainer's packages take long to import.

Each line of standard input is a JSON list: the module of a script, the folder to run it in, and the arguments of its
`main`, whose answer is a line of standard output; what scripts print goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from importlib import import_module


def main() -> None:
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        for line in sys.stdin:
            module, folder, asked = json.loads(line)
            os.chdir(folder)
            try:
                told = {"told": import_module(module).main(**asked)}
            except BaseException:
                traceback.print_exc()
                told = {}
            print(json.dumps(told), file=answers, flush=True)


if __name__ == "__main__":
    main()
