"""Checks the name of a Beam runner and its options before anything runs."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stderr
from importlib.util import find_spec
from typing import Any

from trajmill.pipelines.engine.beam import PipelineOptions, StandardOptions, create_runner
from trajmill.pipelines.engine.settings import BeamSettings
from trajmill.schemas.nearest import instead_of

_REFUSED_MODES = {"multi_threading": "loses rows", "multi_processing": "waits for ever for a process that was killed"}


def runner_mistake(name: str) -> str | None:
    """What is wrong with the name of a Beam runner; None if Beam can make it.

    Args:
        name: a name that Beam knows, or `module.Class`.
    """
    try:
        create_runner(name)
    except ImportError as error:
        return f"{name} cannot be imported ({error})"
    except (ValueError, AttributeError):
        return f"there is no Beam runner {name!r}; {instead_of(name, StandardOptions.KNOWN_RUNNER_NAMES)}"
    if name == "DataflowRunner" and find_spec("apitools") is None:
        return "DataflowRunner needs pip install 'apache-beam[gcp]'"
    return None


def options_mistake(settings: BeamSettings) -> str | None:
    """What is wrong with the options of a runner; None if nothing is.

    Engines on other machines have options of their own, so only those of a runner on this machine must be known.
    """
    for option in settings.options:
        if not option.startswith("--"):
            return f"{option!r} is no option; write it as on a command line, e.g. --job_endpoint=localhost:8099"
    try:
        given = _parsed(settings.options)
    except ValueError as error:
        return str(error)
    if given.get("runner"):
        return "name the runner with beam.runner"
    mode = given.get("direct_running_mode")
    if mode in _REFUSED_MODES:
        return f"Beam's {mode} {_REFUSED_MODES[mode]}; set rollout.workers to the number of processes instead"
    if settings.runner == "PortableRunner" and not given.get("job_endpoint"):
        return "PortableRunner needs the address of a job service, as --job_endpoint=localhost:8099"
    known = _parsed(())
    unknown = next((name for name in given if name not in known), None)
    if settings.on_this_machine and unknown is not None:
        return f"Beam has no option --{unknown}; {instead_of(unknown, known)}"
    return None


def _parsed(options: Sequence[str]) -> dict[str, Any]:
    """The values of all of Beam's options, and of those that it does not know, by name.

    Raises:
        ValueError: Beam refuses a value; the message is Beam's.
    """
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            return dict(PipelineOptions(list(options)).get_all_options(retain_unknown_options=True))
    except SystemExit:
        raise ValueError(said.getvalue().strip().rpartition("error: ")[2]) from None
