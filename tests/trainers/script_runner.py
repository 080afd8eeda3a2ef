"""Calls scripts one after the other in one process, because a trainer's packages take long to import.

Each line of standard input is a JSON list: the module of a script, the folder to run it in, variables of the
environment or null, and the arguments of its `main`, whose answer is a line of standard output; what scripts print
goes to standard error. With variables, a forked process runs it: ms-swift keeps the bounds of the first model it loads.
"""

import gc
import json
import os
import sys
import traceback
from importlib import import_module
from typing import Any, TextIO


def main() -> None:
    gc.disable()  # what a trainer's packages leave is little beside what they are
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        for line in sys.stdin:
            module, folder, variables, asked = json.loads(line)
            import_module(module)
            if variables is None:
                answer(answers, module, folder, asked)
            elif child := os.fork():
                os.waitpid(child, 0)
            else:
                os.environ |= variables
                answer(answers, module, folder, asked)
                os._exit(0)


def answer(answers: TextIO, module: str, folder: str, asked: dict[str, Any]) -> None:
    os.chdir(folder)
    try:
        told = {"told": import_module(module).main(**asked)}
    except BaseException:
        traceback.print_exc()
        told = {}
    print(json.dumps(told), file=answers, flush=True)


if __name__ == "__main__":
    main()
