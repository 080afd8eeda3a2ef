"""Lets torchvision be imported where its compiled operators cannot be loaded: its CUDA build beside a CPU torch.

Nothing that a vision-language model needs uses those operators, but torchvision describes two of them to torch when it
is imported, and torch refuses descriptions of operators that it does not know. Run as a program, this module puts
itself into the environment of its Python, where a `.pth` file imports it at every start; torch is imported only with
torchvision. `make vllm-env` does that where torchvision needs it.
"""

import shutil
import sys
import sysconfig
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

_SIGNATURES = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


class _OperatorsFirst(MetaPathFinder):
    """Finds nothing itself: it declares the operators just before the first import of torchvision."""

    def __init__(self) -> None:
        self._declared: object = None

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name == "torchvision" and self._declared is None:
            self._declared = _declare()
        return None


def _declare() -> object:
    import torch

    library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    for signature in _SIGNATURES:
        library.define(signature)  # type: ignore[no-untyped-call]
    return library


def _install() -> None:
    packages = Path(sysconfig.get_path("purelib"))
    here = Path(__file__)
    shutil.copy(here, packages)
    (packages / f"{here.stem}.pth").write_text(f"import {here.stem}\n")


if __name__ == "__main__":
    _install()
else:
    sys.meta_path.insert(0, _OperatorsFirst())
