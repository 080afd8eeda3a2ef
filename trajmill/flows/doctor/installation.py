"""Checks what is installed: versions, extras, and the programs that the environment of a configuration needs."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from trajmill.flows.configuration.config import Config
from trajmill.flows.doctor.base import Finding
from trajmill.stages.environments.desktop.spec import DesktopSpec

_ENGINES = ("prefect", "apache-beam", "deltalake", "duckdb", "pyarrow", "torch", "transformers")
_EXTRA_OF_ENVIRONMENT = {
    "webapp": "web",
    "browser": "web",
    "miniwob": "web",
    "browsergym": "browsergym",
    "android": "android",
    "desktop": "desktop",
}
_BROWSER, _INSTALL = "chromium-headless-shell", "`make system-deps` installs it"
_PROGRAMS = {
    "web": {_BROWSER: _INSTALL},
    "browsergym": {_BROWSER: _INSTALL},
    "android": {"adb": "install Android's platform tools and put adb in PATH"},
    "desktop": dict.fromkeys(("Xvfb", "openbox", "dbus-daemon"), _INSTALL),
}
_EXTRAS = ("web", "browsergym", "android", "desktop", "openenv", "curate", "ocr", "train")


def check_installation(config: Config) -> Iterator[Finding]:
    """The versions, each extra, and the programs of the environment; only what the configuration needs can be wrong."""
    engines = ", ".join(f"{name} {version(name)}" for name in _ENGINES if _is_installed(name))
    yield Finding("versions", f"trajmill {version('trajmill')}, Python {sys.version.split()[0]}, {engines}")
    needed = _EXTRA_OF_ENVIRONMENT.get(config.environment.kind, "")
    for extra in _EXTRAS:
        missing = [name for name in _packages_of(extra) if not _is_installed(name)]
        if not missing:
            yield Finding(f"extra {extra}", "installed")
        elif extra == needed:
            mend = f"pip install 'trajmill[{extra}]'"
            yield Finding(f"extra {extra}", f"{' and '.join(missing)} missing, environment.kind needs it", mend)
        else:
            yield Finding(f"extra {extra}", "not installed, and not needed")
    elsewhere = isinstance(config.environment, DesktopSpec) and config.environment.servers
    for program, mend in ({} if elsewhere else _PROGRAMS.get(needed, {})).items():
        found = shutil.which(program)
        yield Finding(program, found or "not in PATH", "" if found else mend)


def _packages_of(extra: str) -> list[str]:
    """The names of the packages of an extra."""
    marked = [text for text in requires("trajmill") or () if re.search(rf"extra == ['\"]{extra}['\"]", text)]
    return [re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0] for text in marked]


def _is_installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True
