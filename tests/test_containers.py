"""The image and the compose file name what there is; building them needs a Docker daemon, which tests do not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
import yaml

from trajmill.flows.cli.app import app

_ROOT = Path(__file__).parents[1]
_COMPOSE = yaml.safe_load((_ROOT / "compose.yaml").read_text(encoding="utf-8"))
_OWN = [name for name, service in _COMPOSE["services"].items() if "entrypoint" not in service]


@pytest.mark.parametrize("image", ["Dockerfile", "Dockerfile.worker"])
def test_the_image_copies_what_there_is_and_what_is_sent(image: str) -> None:
    lines = (_ROOT / image).read_text(encoding="utf-8").splitlines()
    copies = [line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from=" not in line]
    copied = [name for names in copies for name in names]
    assert copied and all((_ROOT / name).exists() for name in copied)
    sent = (_ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {f"!{name.removeprefix('./')}" for name in copied} == {line for line in sent if line.startswith("!")}


def test_the_worker_image_has_the_beam_that_was_tested() -> None:
    base = (_ROOT / "Dockerfile.worker").read_text(encoding="utf-8")
    pinned = (_ROOT / "constraints.txt").read_text(encoding="utf-8")
    found = re.search(r"^FROM apache/beam_python3\.11_sdk:(\S+)$", base, re.MULTILINE)
    assert found is not None and f"apache-beam=={found[1]}" in pinned.splitlines()


@pytest.mark.parametrize("service", _OWN)
def test_services_are_commands_of_ours(service: str) -> None:
    command = typer.main.get_command(app)
    name, *arguments = _COMPOSE["services"][service]["command"]
    found = command.get_command(typer.Context(command), name)  # type: ignore[attr-defined]
    assert found is not None
    found.make_context(name, arguments)


def test_ports_are_only_on_loopback() -> None:
    ports = [port for service in _COMPOSE["services"].values() for port in service.get("ports", ())]
    assert ports and all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in ports)


def test_the_package_needs_no_links() -> None:
    assert [path for path in (_ROOT / "trajmill").rglob("*") if path.is_symlink()] == []
    for floor in ("schemas", "warehouse", "stages", "pipelines", "flows"):
        assert (_ROOT / floor).readlink() == Path("trajmill") / floor
