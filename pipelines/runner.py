"""Checks the name of a Beam runner before anything runs."""

from __future__ import annotations

from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.runners.runner import create_runner

from trajmill.schemas.nearest import instead_of


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
    return None
