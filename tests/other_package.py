import sys
from pathlib import Path

import pytest


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch, entry_points: str, **modules: str) -> None:
    """Puts modules into a folder, where this process finds them as a package that is installed."""
    information = folder / "another-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: another\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(entry_points)
    for name, code in modules.items():
        (folder / f"{name}.py").write_text(code)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(folder)
