"""Makes the project's packages visible to the Python that runs it, behind the packages of its own environment.

`make trainers-env` runs it with the project's `bin` folder. It also puts an empty module in the place of torchaudio
where LLaMA-Factory is installed, which imports it at once and uses it for sound only: there is no build of it for CPUs.
"""

import importlib.util
import sys
import sysconfig
from pathlib import Path


def main(project: Path) -> None:
    mine = Path(sysconfig.get_path("purelib"))
    theirs = project.resolve().parent / mine.relative_to(sys.prefix)
    # The project itself is an editable installation there, which a path alone does not find.
    root = Path(__file__).resolve().parents[1]
    (mine / "project.pth").write_text(f"{theirs}\n{root}\n")
    if importlib.util.find_spec("llamafactory"):
        (mine / "torchaudio.py").write_text('"""Stands in for torchaudio."""\n')


if __name__ == "__main__":
    main(Path(sys.argv[1]))
