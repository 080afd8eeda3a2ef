"""Every kind of environment is described by one spec."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from trajmill.stages.environments.kinds import (
    ENVIRONMENTS,
    AndroidSpec,
    BrowserSpec,
    DesktopSpec,
    FaultRates,
    SimulatedSpec,
)
from trajmill.stages.environments.spec import EnvironmentSpec


@pytest.mark.parametrize("kind", ENVIRONMENTS.built_in)
def test_the_spec_of_a_kind_is_complete_without_a_key_and_reaches_workers(kind: str) -> None:
    spec = ENVIRONMENTS.spec_class(kind).model_validate({})
    assert isinstance(spec, EnvironmentSpec)
    assert spec.kind == kind
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_specs_are_known_without_what_the_environments_need() -> None:
    code = (
        "import sys\n"
        "from trajmill.stages.environments.kinds import ENVIRONMENTS\n"
        "[ENVIRONMENTS.spec_class(kind) for kind in ENVIRONMENTS.built_in]\n"
        "heavy = {'PIL', 'networkx', 'numpy', 'playwright', 'pyarrow', 'yaml', 'httpx', 'adbutils'}\n"
        "print(*sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_where_episodes_happen_is_no_part_of_a_run_and_what_happens_is() -> None:
    there = AndroidSpec(host="10.0.0.7", port=5038, serials=("emulator-5554",), call_seconds=9.0, lease_seconds=1.0)
    assert there.identity() == AndroidSpec().identity()
    assert AndroidSpec(settle_seconds=1.0).identity() != AndroidSpec().identity()
    assert DesktopSpec(servers=("http://10.0.0.7:5000",)).identity() == DesktopSpec().identity()
    assert SimulatedSpec(faults=FaultRates(slow=0.1)).identity() != SimulatedSpec().identity()


def test_files_count_by_what_is_in_them(tmp_path: Path) -> None:
    one, same, other = (tmp_path / name for name in ("one.jsonl", "same.jsonl", "other.jsonl"))
    one.write_text("{}\n")
    same.write_text("{}\n")
    other.write_text("{} \n")
    assert BrowserSpec(tasks=one).identity() == BrowserSpec(tasks=same).identity()
    assert BrowserSpec(tasks=one).identity() != BrowserSpec(tasks=other).identity()
    assert SimulatedSpec(apps=(one,)).identity() != SimulatedSpec(apps=(other,)).identity()


def test_a_spec_says_which_of_its_keys_must_be_set() -> None:
    for spec in (BrowserSpec(), AndroidSpec()):
        assert [each.key for each in spec.missing(other_queries=False)] == ["tasks"]
        assert spec.missing(other_queries=True) == []
    assert DesktopSpec().missing(other_queries=False) == []
