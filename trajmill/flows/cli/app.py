"""The command `trajmill`: its sub-commands, and how it prints a failure.

Commands import what they need when they run, so that `trajmill --help` is fast.
"""

from __future__ import annotations

import atexit
import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from importlib.metadata import version
from traceback import format_exception

import typer
from typer import Option

from trajmill.flows.cli import data, init, loop, worker, worlds
from trajmill.flows.cli.options import ConfigFile, load
from trajmill.flows.interrupt import Interrupt, noticing_interrupts
from trajmill.schemas.errors import TrajmillError
from trajmill.schemas.secrets import Secrets

STOPPED = "stopped; finished work is kept, and the same command continues"
INTERRUPTED = 130
"""Exit code after Ctrl-C, as in shells; after another signal, 128 and its number."""
_LAST_SECONDS = 10.0

app = typer.Typer(
    name="trajmill",
    help="Produces GUI-agent trajectories, trains the agent on them, and repeats with the better agent.",
    epilog='Example: trajmill evolve; trajmill sql "SELECT * FROM success_by_round"',
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for _module in (init, loop, worker, data, worlds):
    app.add_typer(_module.app)
app.add_typer(worlds.apps, name="apps")
app.add_typer(loop.policy, name="policy")
app.add_typer(worlds.env, name="env")
app.add_typer(worlds.tasks, name="tasks")
app.add_typer(worlds.graph, name="graph")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"trajmill {version('trajmill')}")
        raise typer.Exit


@app.callback()
def options(
    traceback: bool = Option(False, "--traceback", help="Show where in the code an error comes from."),
    show_version: bool = Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Options of all commands; `run` removes `--traceback` before they are parsed."""


@app.command("config", epilog="Example: trajmill config > trajmill.toml")
def show_config(config: ConfigFile = None) -> None:
    """Print the configuration in force, with all keys explained."""
    from trajmill.flows.configuration.tables import config_as_toml

    print(config_as_toml(load(config)), end="")


def main() -> None:
    codes: list[int] = []

    def end_at_once() -> None:
        """End the process before Python's own teardown, in which an Arrow thread that has read a bucket may abort."""
        if codes:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            except OSError:
                return  # The output is closed; Python reports that itself.
            os._exit(codes[0])

    atexit.register(end_at_once)  # first, so it runs last
    # Without a handler, what libraries log while they are imported would be printed.
    logging.getLogger().addHandler(logging.NullHandler())
    show_own_warnings()
    give_memory_back()
    collect_garbage_rarely()
    codes.append(run(sys.argv[1:], ends_in_time=True))
    sys.exit(codes[0])


def give_memory_back() -> None:
    """Make Arrow use jemalloc, here and in workers, unless the user chose an allocator; call before importing pyarrow.

    Three rounds of the default job peak at 1,297 MiB with it and at 1,571 with Arrow's default, which keeps freed
    memory. Arrow has jemalloc on Linux only.
    """
    if sys.platform == "linux":
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "jemalloc")


def collect_garbage_rarely() -> None:
    """Look for reference cycles after 50,000 new objects, here and in workers; call before other imports.

    After 700, as Python does, two rounds of the default job took 117 CPU seconds instead of 108, with equal policies.
    """
    gc.set_threshold(50_000, 20, 10)


def show_own_warnings() -> None:
    lines = logging.StreamHandler()
    lines.setLevel(logging.WARNING)
    logging.getLogger("trajmill").addHandler(lines)


def run(arguments: Sequence[str], *, ends_in_time: bool = False) -> int:
    """Run one command and return its exit code; a failure is one line on standard error.

    With `ends_in_time`, SIGTERM ends the whole process some seconds later, even if the command is blocked, as when a
    library still retries a store that is gone.
    """
    with noticing_interrupts() as interrupt:
        if ends_in_time:
            threading.Thread(target=_end_in_time, args=[interrupt], daemon=True).start()
        given = [argument for argument in arguments if argument != "--traceback"]
        try:
            code = app(args=given, prog_name="trajmill", standalone_mode=False) or 0
            return _interrupted(interrupt) if code == INTERRUPTED else code
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 1
        except (KeyboardInterrupt, typer.Abort):
            return _interrupted(interrupt)
        except typer.TyperException as error:
            print(_usage_mistake(error), file=sys.stderr)
            return error.exit_code
        except Exception as error:
            from trajmill.warehouse.store.base import LeaseLostError  # imports pydantic

            if interrupt.number is not None and not isinstance(error, LeaseLostError):
                return _interrupted(interrupt)
            text = "".join(format_exception(error)) if "--traceback" in arguments else f"{_message_of(error)}\n"
            print(Secrets.of(os.environ).scrub(text), end="", file=sys.stderr)
            return 1


def _usage_mistake(error: typer.TyperException) -> str:
    from pydantic import ValidationError

    from trajmill.stages.parts import plain_mistake

    text = error.format_message()
    if "\n" in text:  # The help of a group of commands that was called without one.
        return text
    if isinstance(error.__cause__, ValidationError):
        text = plain_mistake(text.split("'")[1], error.__cause__.errors(include_url=False)[0])
    return f"{text if text.endswith('?') else text.rstrip('.') + ';'} --help explains the command"


def _message_of(error: Exception) -> str:
    from trajmill.warehouse.atomic import is_disk_full

    if isinstance(error, TrajmillError):
        return str(error)
    if is_disk_full(error):
        return f"disk full ({error}): nothing was lost; free some space and run the same command again"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename} cannot be used ({error.strerror}): nothing was lost; name another file or folder"
    return f"unexpected {type(error).__name__}: {error}; --traceback shows where"


def _end_in_time(interrupt: Interrupt) -> None:
    interrupt.sigterm.wait()
    time.sleep(_LAST_SECONDS)
    print(f"\n{STOPPED}", file=sys.stderr, flush=True)
    os._exit(128 + signal.SIGTERM)


def _interrupted(interrupt: Interrupt) -> int:
    print(f"\n{STOPPED}", file=sys.stderr)
    return INTERRUPTED if interrupt.number is None else 128 + interrupt.number
