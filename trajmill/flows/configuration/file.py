"""Reads the TOML file of a run; each mistake in it is reported in one line."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from pydantic import ValidationError

from trajmill.flows.configuration.check import (
    missing_endpoints,
    missing_files,
    missing_for_environment,
    missing_for_fresh,
    missing_for_graphs,
    missing_for_groups,
    missing_for_operations,
    missing_for_proposals,
    missing_for_training,
    missing_for_written,
    missing_runner,
)
from trajmill.flows.configuration.config import Config
from trajmill.flows.configuration.mistakes import WrittenFile, impossible_values
from trajmill.flows.configuration.paths import with_paths_in
from trajmill.schemas.errors import BadInputError
from trajmill.stages.queries.proposals.starts import read_human_tasks

DEFAULT_FILE = Path("trajmill.toml")
"""Read from the working folder when no file is named."""


_GRAPHS = ("graphs", "files")


def load_config(path: Path | None = None, before_exploring: bool = False) -> Config:
    """The configuration of a run.

    Without a file, `trajmill.toml` of the working folder is read if there is one. Paths in a file are relative to the
    file's folder.

    Args:
        path: the file.
        before_exploring: whether the graphs that it names need not exist yet.

    Raises:
        BadInputError: the file cannot be read or has mistakes; one line for each mistake.
    """
    if path is None:
        if not DEFAULT_FILE.exists():
            return Config()
        path = DEFAULT_FILE
    written = _read(path)
    config = _config(written)
    missing = [
        *missing_files(config, path.parent),
        *missing_for_environment(config),
        *missing_endpoints(config),
        *missing_for_proposals(config),
        *missing_for_fresh(config),
        *missing_for_operations(config),
        *missing_for_graphs(config),
        *missing_for_written(config),
        *missing_for_groups(config),
        *missing_for_training(config),
        *missing_runner(config),
    ]
    if before_exploring:
        missing = [each for each in missing if each.keys != _GRAPHS]
    if missing:
        raise BadInputError("\n".join(written.mistake(each.keys, each.message) for each in missing))
    config = with_paths_in(config, path.parent)
    if config.queries.example_tasks is not None:
        read_human_tasks(config.queries.example_tasks)
    return config


def load_config_named(path: str | None) -> Config:
    """The configuration of a run, from the parameter of a flow."""
    return load_config(None if path is None else Path(path))


def _read(path: Path) -> WrittenFile:
    try:
        text = path.read_text(encoding="utf-8")
        written = WrittenFile(path, text, tomllib.loads(text))
    except FileNotFoundError:
        raise BadInputError(
            f"{path}: there is no such configuration file; `trajmill config` prints one to start from"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise BadInputError(_syntax_mistake(path, str(error))) from None
    except (OSError, ValueError) as error:
        raise BadInputError(f"{path}: the configuration file cannot be read: {error}") from None
    impossible = [written.mistake(keys, message) for keys, message in impossible_values(written.tables)]
    if impossible:
        raise BadInputError("\n".join(impossible))
    return written


def _config(written: WrittenFile) -> Config:
    try:
        return Config.model_validate_json(json.dumps(written.tables, default=str), strict=True)
    except ValidationError as error:
        raise BadInputError("\n".join(written.mistakes(error.errors()))) from None


def _syntax_mistake(path: Path, message: str) -> str:
    found = re.fullmatch(r"(.*) \(at line (\d+), column \d+\)", message)
    if found is None:
        return f"{path}: not TOML: {message}"
    return f"{path}:{found[2]}: not TOML: {found[1]}"
