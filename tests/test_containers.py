import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
import yaml

from trajmill.flows.cli.app import app

_ROOT = Path(__file__).parents[1]
_COMPOSE = yaml.safe_load((_ROOT / "compose.yaml").read_text(encoding="utf-8"))
_IMAGES = ("Dockerfile", "Dockerfile.worker")
_COMPILED = shutil.ignore_patterns("__pycache__")
_OWN = [name for name, service in _COMPOSE["services"].items() if "entrypoint" not in service]


def _copied(image: str) -> list[str]:
    lines = (_ROOT / image).read_text(encoding="utf-8").splitlines()
    copies = [line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from=" not in line]
    return [name for names in copies for name in names]


def test_the_images_copy_what_there_is_and_all_that_is_sent() -> None:
    copied = {name for image in _IMAGES for name in _copied(image)}
    assert copied and all((_ROOT / name).exists() for name in copied)
    sent = (_ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {f"!{name}" for name in copied} == {line for line in sent if line.startswith("!")}


@pytest.mark.slow
def test_a_wheel_of_what_the_images_copy_is_whole(tmp_path: Path) -> None:
    fewer, more = sorted((set(_copied(image)) for image in _IMAGES), key=len)
    assert fewer <= more
    for name in fewer:
        source, target = _ROOT / name, tmp_path / "source" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target, ignore=_COMPILED) if source.is_dir() else shutil.copy(source, target)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--wheel-dir", str(tmp_path)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(tmp_path / "source")], check=True)
    [wheel] = tmp_path.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    wanted = {str(path.relative_to(_ROOT)) for path in (_ROOT / "trajmill").rglob("*") if path.is_file()}
    assert {name for name in wanted if "__pycache__" not in name} <= held


def test_a_volume_is_mounted_on_a_folder_that_the_user_of_the_image_owns() -> None:
    mounts = [mount for service in _COMPOSE["services"].values() for mount in service["volumes"] if mount[0] != "."]
    folders = {mount.partition(":")[2] for mount in mounts}
    made = re.findall(r"install --directory --owner 1000 --group 1000 (\S+)", (_ROOT / "Dockerfile").read_text("utf-8"))
    assert folders and folders == set(made)


def test_the_worker_image_has_the_beam_that_was_tested() -> None:
    base = (_ROOT / "Dockerfile.worker").read_text(encoding="utf-8")
    pinned = (_ROOT / "constraints.txt").read_text(encoding="utf-8")
    found = re.search(r"^FROM apache/beam_python3\.11_sdk:(\S+)$", base, re.MULTILINE)
    assert found is not None and f"apache-beam=={found[1]}" in pinned.splitlines()


def _recipes() -> Iterator[list[str]]:
    """The commands of ours that `deploy/` starts."""
    deploy = _ROOT / "deploy"
    for each in yaml.safe_load_all((deploy / "kubernetes.yaml").read_text(encoding="utf-8")):
        template = each["spec"].get("template", {"spec": {"containers": []}})
        yield from (container["args"] for container in template["spec"]["containers"] if "args" in container)
    yield yaml.safe_load((deploy / "cluster.yaml").read_text(encoding="utf-8"))["services"]["worker"]["command"]
    script = (deploy / "slurm.sh").read_text(encoding="utf-8")
    yield from (line.split() for line in re.findall(r"trajmill (worker [^;]+|evolve .+)", script))


def test_the_script_for_slurm_is_one_of_bash() -> None:
    subprocess.run(["bash", "-n", _ROOT / "deploy" / "slurm.sh"], check=True)


@pytest.mark.parametrize("words", [*(_COMPOSE["services"][name]["command"] for name in _OWN), *_recipes()], ids=str)
def test_services_are_commands_of_ours(words: list[str]) -> None:
    command = typer.main.get_command(app)
    name, *arguments = words
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
