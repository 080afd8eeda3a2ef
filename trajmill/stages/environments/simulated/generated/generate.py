"""Generate apps that nobody drew: endless, deterministic in the seed, and no two nearly alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import yaml

from trajmill.schemas.errors import BadInputError
from trajmill.schemas.record import content_id
from trajmill.schemas.tables.query import Platform
from trajmill.stages.environments.simulated.app_files.app_spec import AppSpec
from trajmill.stages.environments.simulated.generated.draft import Draft, Part
from trajmill.stages.environments.simulated.generated.features import FEATURES
from trajmill.stages.environments.simulated.generated.grammar import Domain, Grammar, packaged_grammar

ALIKE = 0.4
"""Share of texts and forms in common from which two apps are near-duplicates."""
_MOST_TRIES = 50
_PHONES = 0.7


class GeneratedApp(NamedTuple):
    domain: str
    file: Part
    """As the YAML file has it."""
    traits: frozenset[object]
    """Its texts and forms, by which near-duplicates are found."""

    @property
    def spec(self) -> AppSpec:
        return AppSpec.model_validate(self.file)


def generated_apps(seed: int, grammar: Grammar | None = None) -> Iterator[GeneratedApp]:
    """Yield apps without end; the one at a place depends on the seed and on those before it.

    Raises BadInputError if the grammar has no further app that differs enough from the others.
    """
    grammar = grammar or packaged_grammar()
    made: list[GeneratedApp] = []
    names = set[str]()
    while True:
        app = _next_app(grammar, seed, made, names)
        names.add(app.file["name"])
        made.append(app)
        yield app


def write_apps(apps: Sequence[GeneratedApp], folder: Path) -> list[Path]:
    """Write each app as a YAML file of its id; raises BadInputError if the folder holds other files."""
    folder.mkdir(parents=True, exist_ok=True)
    if other := next(folder.iterdir(), None):
        raise BadInputError(f"--out {folder} holds other files, such as {other.name!r}; name a new or empty folder")
    paths = []
    for app in apps:
        paths.append(folder / f"{app.file['app']}.yaml")
        text = yaml.dump(
            app.file, Dumper=_Plain, sort_keys=False, default_flow_style=None, width=150, allow_unicode=True
        )
        paths[-1].write_text(text, encoding="utf-8")
    return paths


def app_files_in(folder: Path) -> list[Path]:
    """Return the app files of a folder, by name; raises BadInputError if it has none."""
    if files := sorted(folder.glob("*.yaml")):
        return files
    raise BadInputError(f"environment.generated_apps.folders: {folder} has no file *.yaml; run trajmill apps generate")


class _Plain(yaml.SafeDumper):
    """Repeats what stands twice; app files have no anchors."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _next_app(grammar: Grammar, seed: int, made: Sequence[GeneratedApp], names: set[str]) -> GeneratedApp:
    index = len(made)
    # Each domain once, then each once more in another order.
    turn, place = divmod(index, len(grammar.domains))
    order = list(grammar.domains)
    Random(int(content_id("domains", seed, turn), 16)).shuffle(order)
    key, domain = order[place], grammar.domains[order[place]]
    # Apps of different domains are never alike.
    akin = [app for app in made if app.domain == key]
    for attempt in range(_MOST_TRIES):
        random = Random(int(content_id("app", seed, index, attempt), 16))
        file = _draft(grammar, domain, random).as_file(f"{key}_{seed}_{index}")
        app = GeneratedApp(key, file, traits_of(file))
        if file["name"] not in names and all(likeness(app, other) < ALIKE for other in akin):
            return app
    raise BadInputError(f"the grammar has no further app about {key!r} after {index} apps; ask for fewer")


def _draft(grammar: Grammar, domain: Domain, random: Random) -> Draft:
    name = random.choice(domain.names) + random.choice(grammar.words.texts["plus"])
    platform = domain.platform or (Platform.PHONE if random.random() < _PHONES else Platform.DESKTOP)
    draft = Draft(grammar.words, domain, platform, name, random)
    features = draft.some(FEATURES, 3, len(FEATURES))
    random.shuffle(features)
    for add in features:
        add(draft)
    return draft


def likeness(one: GeneratedApp, other: GeneratedApp) -> float:
    """Return the Jaccard index of two apps' traits."""
    return len(one.traits & other.traits) / len(one.traits | other.traits)


def traits_of(file: Part) -> frozenset[object]:
    traits: set[object] = {(name, item["name"]) for name, items in file.get("lists", {}).items() for item in items}
    for name, screen in file["screens"].items():
        traits |= {("title", screen["title"]), ("form", name, *(widget["kind"] for widget in screen["widgets"]))}
        for widget in screen["widgets"]:
            texts = {str(widget[key]) for key in ("text", "label", "hint") if key in widget}
            traits |= {(widget["kind"], text) for text in texts}
    return frozenset(traits | {text for task in file["tasks"].values() for text in task["phrasings"]})
