import subprocess
from pathlib import Path

import pytest

from trajmill.schemas.errors import BadInputError
from trajmill.warehouse.layout import Warehouse
from trajmill.warehouse.releases import SUMS, checked_weights, keep_weights


@pytest.fixture
def sealed(warehouse: Warehouse) -> Path:
    fresh = warehouse.root / "fresh"
    (fresh / "part").mkdir(parents=True)
    (fresh / "model.safetensors").write_bytes(bytes(1000))
    (fresh / "part" / "config.json").write_text("{}")
    keep_weights(warehouse, fresh, warehouse.model("v1"))
    assert not fresh.exists()
    return warehouse.model("v1")


def test_whole_folders_and_those_of_an_earlier_trajmill_pass(warehouse: Warehouse, sealed: Path) -> None:
    checked_weights(warehouse, sealed)
    subprocess.run(["sha256sum", "--check", "--quiet", SUMS], cwd=sealed, check=True)
    (sealed / SUMS).unlink()
    (sealed / "model.safetensors").write_bytes(b"")
    checked_weights(warehouse, sealed)


def test_a_flipped_bit_and_a_missing_file_are_named(warehouse: Warehouse, sealed: Path) -> None:
    weights = sealed / "model.safetensors"
    weights.write_bytes(b"\x01" + bytes(999))
    with pytest.raises(BadInputError, match=r"\A[^\n]*model\.safetensors: changed since it was stored[^\n]*\Z"):
        checked_weights(warehouse, sealed)
    weights.unlink()
    with pytest.raises(BadInputError, match=r"model\.safetensors: missing"):
        checked_weights(warehouse, sealed)


@pytest.mark.parametrize("damaged", [b"\xff\x00", b""])
def test_damaged_hashes_are_named(warehouse: Warehouse, sealed: Path, damaged: bytes) -> None:
    (sealed / SUMS).write_bytes(damaged)
    with pytest.raises(BadInputError, match=SUMS):
        checked_weights(warehouse, sealed)
