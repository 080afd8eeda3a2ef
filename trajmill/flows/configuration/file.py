"""Reads the TOML file of a run; each mistake in it, and each missing file or endpoint, is reported in one line."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, product
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from trajmill.flows.configuration.config import OWN_JUDGE, Config
from trajmill.flows.configuration.sections import EMBEDDED
from trajmill.flows.configuration.tables import KeyPath, key_paths, spec_at, tables_in
from trajmill.pipelines.fan_out import BeamSettings
from trajmill.schemas.errors import BadInputError
from trajmill.schemas.names import instead_of, nearest
from trajmill.schemas.spec import Spec, decisive_fields
from trajmill.schemas.tables.verdict import Channel
from trajmill.stages.environments.desktop.spec import DesktopSpec
from trajmill.stages.environments.kinds import AppFilesSpec
from trajmill.stages.environments.spec import FixedTasksSpec
from trajmill.stages.models.openai_api.spec import OpenAiSpec
from trajmill.stages.parts import plain_mistake
from trajmill.stages.queries.proposals.source import read_human_tasks

DEFAULT_FILE = Path("trajmill.toml")
"""Read from the working folder when no file is named."""
_LARGEST = 2**63 - 1
S = TypeVar("S", bound=Spec)


def load_config(path: Path | str | None = None, unneeded: str = "") -> Config:
    """Read `path`, or the working folder's `trajmill.toml` if there is one; paths in it are relative to its folder.

    What the key or section `unneeded` names need not exist. Raises BadInputError with a line for each mistake.
    """
    if path is None and not DEFAULT_FILE.exists():
        return Config()
    path = Path(DEFAULT_FILE if path is None else path)
    try:
        text = path.read_text(encoding="utf-8")
        written = _WrittenFile(path, text, tomllib.loads(text))
    except FileNotFoundError:
        raise BadInputError(
            f"{path}: there is no such configuration file; `trajmill config` prints one to start from"
        ) from None
    except tomllib.TOMLDecodeError as error:
        found = re.fullmatch(r"(.*) \(at line (\d+), column \d+\)", str(error))
        where, what = (f"{path}:{found[2]}", found[1]) if found else (str(path), str(error))
        raise BadInputError(f"{where}: not TOML: {what}") from None
    except (OSError, ValueError) as why:
        raise BadInputError(f"{path}: the configuration file cannot be read: {getattr(why, 'strerror', why)}") from None
    written.refuse(_impossible_values(written.tables))
    try:
        config = Config.model_validate_json(json.dumps(written.tables, default=str), strict=True)
    except ValidationError as error:
        raise BadInputError("\n".join(written.mistakes(error.errors()))) from None
    runner = () if unneeded == "beam" else _runner(config)  # It imports Beam.
    folder = path.parent
    missing = chain(_files(folder, config), _endpoints(config), _queries(folder, config), _training(config), runner)
    written.refuse((tuple(place.split(".")), f"{place}{problem}") for place, problem in missing if place != unneeded)
    config = _with_paths_in(config, folder)
    if config.queries.example_tasks is not None:
        read_human_tasks(config.queries.example_tasks)
    return config


class _WrittenFile(NamedTuple):
    path: Path
    text: str
    tables: Mapping[str, Any]

    def refuse(self, wrong: Iterable[tuple[KeyPath, str]]) -> None:
        if lines := [self.mistake(keys, message) for keys, message in wrong]:
            raise BadInputError("\n".join(lines))

    def mistakes(self, details: Iterable[ErrorDetails]) -> list[str]:
        """Return pydantic's errors as messages in the order of the file; one for each key."""
        of_key: dict[KeyPath, tuple[tuple[str | int, ...], list[ErrorDetails]]] = {}
        for detail in details:
            place = _written_place(detail["loc"], self.tables)
            keys = tuple(part for part in place if isinstance(part, str))
            first, found = of_key.setdefault(keys, (place, []))
            if place == first:
                found.append(detail)
        messages = {keys: self._message(keys, found) for keys, (_, found) in of_key.items()}
        ordered = sorted(messages, key=lambda keys: (self.line_of(keys) or 0, messages[keys]))
        return [self.mistake(keys, messages[keys]) for keys in ordered]

    def mistake(self, keys: KeyPath, message: str) -> str:
        line = self.line_of(keys)
        return f"{self.path}: {message}" if line is None else f"{self.path}:{line}: {message}"

    def _message(self, keys: KeyPath, found: list[ErrorDetails]) -> str:
        """Describe what is wrong with one value, which has an error for each type that it could have."""
        detail, name = found[0], ".".join(keys)
        if detail["type"] != "extra_forbidden":
            mistake = plain_mistake(name, *found)
            shown = mistake.startswith(f"{name} should ")
            return f"{mistake}, not {json.dumps(detail['input'], default=str):.80}" if shown else mistake
        siblings = spec_at(Config, keys[:-1], self.tables).model_fields
        known = [each for each in key_paths(Config) if each[-1] == keys[-1]]
        if keys in known:
            return f"{name} is no key of kind {siblings['kind'].default!r}; there are {', '.join(siblings)}"
        close = nearest(keys[-1], siblings)
        meant = [".".join(each) for each in known] + ([".".join((*keys[:-1], close))] if close else [])
        return f"unknown key {name}; " + (f"did you mean {meant[0]}?" if meant else f"there are {', '.join(siblings)}")

    def line_of(self, keys: KeyPath) -> int | None:
        """Return the line that sets a key or opens its table; the text is searched: tomllib keeps no positions."""
        section: KeyPath = ()
        best = (-1, 0)
        for number, line in enumerate(self.text.splitlines(), start=1):
            header = re.match(r"\s*\[+([^\]]+)\]", line)
            setting = re.match(r"\s*([\w\"'.-]+(?:\s*\.\s*[\w\"'-]+)*)\s*=", line)
            if header:
                section = here = _split(header[1])
            elif setting:
                here = (*section, *_split(setting[1]))
            else:
                continue
            if keys[: len(here)] == here and len(here) > best[0]:
                best = (len(here), number)
        return best[1] or None


def _split(dotted: str) -> KeyPath:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


def _written_place(place: tuple[str | int, ...], value: object) -> tuple[str | int, ...]:
    """Cut off what pydantic appends after a single value: the members of its type that the value does not fit."""
    for depth, part in enumerate(place):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int):
            value = value[part]
        else:
            return place[:depth]
    return place


def _impossible_values(value: object, keys: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Find values that TOML allows and nothing else: numbers of more than 64 bits, and texts with NUL."""
    match value:
        case Mapping():
            for name, each in value.items():
                yield from _impossible_values(each, (*keys, name))
        case list():
            for each in value:
                yield from _impossible_values(each, keys)
        case int() if abs(value) > _LARGEST:
            yield keys, f"{'.'.join(keys)} should be at most {_LARGEST}, not {value}"
        case str() if "\0" in value:
            yield keys, f"{'.'.join(keys)} has the character NUL, which no name or path can have"


def _with_paths_in(spec: S, folder: Path) -> S:
    def moved(value: object) -> object:
        match value:
            case Path():
                return folder / value
            case Spec():
                return _with_paths_in(value, folder)
            case tuple():
                return tuple(map(moved, value))
            case dict():
                return {name: moved(each) for name, each in value.items()}
            case _:
                return value

    return spec.model_copy(update={name: moved(getattr(spec, name)) for name in type(spec).model_fields})


def _files(folder: Path, config: Config) -> Iterator[tuple[str, str]]:
    """Find the files that do not exist; like the next functions, yield what is wrong after its dotted key."""
    for keys, spec in tables_in(config, only_decisive=True):
        for name in decisive_fields(type(spec)):
            value = getattr(spec, name)
            values = value if isinstance(value, tuple) else value.values() if isinstance(value, dict) else (value,)
            for path in values:
                if isinstance(path, Path) and not (folder / path).exists():
                    yield ".".join((*keys, name)), f": there is no {path}"
    files = (config.pathways.file, config.graphs.files, config.explore.apps)
    other_queries = any((config.pathways.queries, config.pathways.written, config.causal.any_wanted, *files))
    for key, message in config.environment.missing(other_queries):
        yield f"environment.{key}", f" {message}"


def _endpoints(config: Config) -> Iterator[tuple[str, str]]:
    """Roles and judges whose endpoint is not defined, endpoints without an address, and names that are taken."""
    named = list(config.asked_endpoints())
    for name, judge in config.judges.items():
        by_key = {"step": (judge.step or EMBEDDED,), "text": judge.text, "multimodal": judge.multimodal}
        named += [(("judges", name, key), endpoint) for key, endpoints in by_key.items() for endpoint in endpoints]
    for name, recipe in config.recipes.items():
        named += [(("recipes", name, key), each) for key, each in {"model": recipe.model, **recipe.roles()}.items()]
    named += [(("derive", key), name) for key in ("writer", "describer") if (name := getattr(config.derive, key))]
    known = [EMBEDDED, *config.endpoints]
    for keys, name in dict.fromkeys(named):
        if keys[0] == "recipes" and name in ("", EMBEDDED):
            yield ".".join(keys), " is missing: the NAME of the [endpoints.NAME] of its model"
        elif name not in known:
            advice = f"did you mean {close}?" if (close := nearest(name, known)) else "add it with its model and urls"
            yield ".".join(keys), f": there is no [endpoints.{name}]; {advice}"
    for name, spec in config.endpoints.items():
        if name == EMBEDDED:
            yield f"endpoints.{name}", f': "{EMBEDDED}" is the name of what comes with trajmill'
        elif isinstance(spec, OpenAiSpec) and not spec.addresses:
            yield f"endpoints.{name}", ".urls is missing: the base address of its server"
    if OWN_JUDGE in config.judges:
        yield f"judges.{OWN_JUDGE}", f': "{OWN_JUDGE}" is taken by the judge of the run; choose another name'


def _queries(folder: Path, config: Config) -> Iterator[tuple[str, str]]:
    environment, queries = config.environment, config.queries
    if isinstance(environment, AppFilesSpec):
        known = environment.app_names(folder)
        unseen = {"heldout": queries.heldout_app_names, "validation": queries.validation_apps(known)}
        for split, name in ((split, each) for split, names in unseen.items() for each in names if each not in known):
            yield (
                f"queries.{split}_app_names",
                f": no app {name!r:.60}; {instead_of(name, known)}, or write []",
            )
    proposals = [key for key in ("curriculum", "screenshot") if getattr(queries, key)]
    against = []
    if queries.example_tasks is None:
        against.append("it needs queries.example_tasks, a file of tasks that people wrote")
    if config.models.writer == EMBEDDED:
        against.append("tasks are proposed by a model; map models.writer to an [endpoints.NAME]")
    if isinstance(environment, FixedTasksSpec):
        against.append(f"{environment.kind} has no start states for other tasks than its own; set it to 0")
    for channel in config.judge.channels:
        if channel in (Channel.PROGRAMMATIC, Channel.PROBE):
            against.append(f"{channel} cannot check a proposed task; leave it out of judge.channels")
        elif set(getattr(config.models.critic, channel)) == {EMBEDDED}:
            against.append(f"only a model can judge a proposed task; map models.critic.{channel} to one")
    for key, reason in product(proposals, against):
        yield f"queries.{key}", f": {reason}"
    if queries.try_proposals and not proposals:
        yield "queries.try_proposals", ": nothing is proposed; set queries.curriculum or queries.screenshot"
    has_graphs = isinstance(environment, AppFilesSpec) or config.graphs.any_wanted or config.causal.any_wanted
    if queries.fresh and not has_graphs:
        yield "queries.fresh", f": environment.kind = {environment.kind!r} has no navigation graphs"
    if config.atomic.wanted and not isinstance(environment, DesktopSpec):
        yield "atomic", f': its programs are those of environment.kind = "desktop", not {environment.kind}'
    if config.graphs.any_wanted and not config.graphs.files:
        yield "graphs.files", " is missing: the files of the apps' graphs (see graphs.md)"
    for section, count in (("atomic", config.atomic.written), ("pathways", config.pathways.written)):
        if count and config.models.writer == EMBEDDED:
            yield f"{section}.written", ": a model writes them; map models.writer to an [endpoints.NAME]"


def _training(config: Config) -> Iterator[tuple[str, str]]:
    if Channel.PROBE in config.judge.channels and not config.rollout.probe:
        yield "rollout.probe", " is 0: the judge's channel `probe` needs what it sees"
    if config.rollout.probe and not (config.judge.graphs or config.graphs.files):
        yield "rollout.probe", ": it walks on the graphs of apps; name their files in judge.graphs"
    judges = {"judge": config.judge} | {f"judges.{name}": each for name, each in config.judges.items()}
    for place, judge in judges.items():
        if len(set(judge.channels)) < len(judge.channels):
            yield f"{place}.channels", ": each channel votes once; name it once"
    size, largest = config.rollout.group_size, config.rollout.largest_group
    if config.rollout.branches and config.unguided_episodes < 1:
        yield "rollout.branch_share", ": guided attempts and branches leave no episodes for first ones; lower a share"
    elif size > max(1, config.first_episodes):
        attempts = f"a round makes {config.first_episodes} attempts without hints, fewer than a group of {size}"
        yield "rollout.group_size", f": {attempts}"
    if largest and (size == 1 or largest <= size):
        needed = f"it extends groups of 2 or more, and rollout.group_size is {size}"
        yield "rollout.largest_group", f": {needed}; set both, or set it to 0"
    if largest and config.run.asynchronous:
        yield "rollout.largest_group", ": a group needs one policy; set run.asynchronous = false, or set it to 0"
    if size == 1 and config.train.learns_from == "rl_steps":
        yield "rollout.group_size", ": the recipe of [train] compares attempts at one query; set 2 or more"
    kind = config.train.learns_kind
    for role in config.derive.kind(kind).needs if kind else ():
        if (getattr(config.derive, role) or getattr(config.models, role)) == EMBEDDED:
            advice = f"set derive.{role} to the NAME of an [endpoints.NAME]"
            yield "train", f".kind {config.train.kind!r} derives {kind}, which asks a model: {advice}"
    if kind and not config.derive.kind(kind).trains_policy:
        advice = "put it in [recipes.NAME] and run `trajmill train --recipe NAME`"
        yield "train", f".kind {config.train.kind!r} on {kind} trains no policy; {advice}"
    for role, name in config.train.roles().items():
        if name == EMBEDDED or getattr(config.endpoints.get(name), "kind", "") == EMBEDDED:
            yield f"train.{role}", f": the frozen {role} must read images; name an [endpoints.NAME]"


def _runner(config: Config) -> Iterator[tuple[str, str]]:
    if (config.beam.runner, config.beam.options) != (BeamSettings().runner, BeamSettings().options):
        from trajmill.pipelines.executors.beam import options_mistake, runner_mistake

        if mistake := runner_mistake(config.beam.runner):
            yield "beam.runner", f": {mistake}"
        elif mistake := options_mistake(config.beam):
            yield "beam.options", f": {mistake}"


def tasks_unknown_to_judge(config: Config) -> str | None:
    """Return a one-line warning if embedded critics cannot judge the environment's tasks."""
    embedded = [
        f"models.critic.{channel}"
        for channel in config.judge.channels
        if channel not in (Channel.PROGRAMMATIC, Channel.PROBE)
        and EMBEDDED in getattr(config.models.critic, channel)
        and getattr(config.judge, f"{channel}_critic").startswith("annotated_")
    ]
    if isinstance(config.environment, AppFilesSpec) or not embedded:
        return None
    return (
        f"embedded critics cannot judge environment {config.environment.kind!r}: trajectories stay unjudged and "
        f'teach nothing; map {" and ".join(embedded)} to a model, set judge.channels = ["programmatic"], or judge by '
        'graphs of the apps (judge.text_critic = "graph_way", judge.multimodal_critic = "graph_end")'
    )
