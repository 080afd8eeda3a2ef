"""pyarrow does without pandas until somebody imports it, and then takes its data frames as always."""

from __future__ import annotations

import subprocess
import sys

import pytest

_LATE = """
import sys
import pyarrow as pa
from trajmill.schemas.record import Row
assert pa.table({"a": pa.array([1])}).num_rows == 1
import pyarrow.dataset
assert "pandas" not in sys.modules
import importlib.util
assert importlib.util.find_spec("pandas") and "pandas" not in sys.modules
import pandas
"""
_EARLY = """
import pandas
import pyarrow as pa
from trajmill.schemas.record import Row
"""
_KNOWN = """
assert pa.table(pandas.DataFrame({"a": [1]})).num_rows == 1
assert pa.array(pandas.Series([1.0, None])).null_count == 1
assert type(pa.array([1]).to_pandas()) is pandas.Series
"""


@pytest.mark.slow
@pytest.mark.parametrize("imported", [_LATE, _EARLY], ids=["late", "early"])
def test_pandas_is_known_as_soon_as_somebody_imports_it(imported: str) -> None:
    subprocess.run([sys.executable, "-c", imported + _KNOWN], check=True)


@pytest.mark.slow
def test_an_array_can_be_made_a_series_without_an_import_before() -> None:
    code = (
        "import pyarrow as pa; from trajmill.schemas.record import Row; series = pa.array([1]).to_pandas()\n"
        "import pandas; assert type(series) is pandas.Series; assert pa.table(pandas.DataFrame()).num_rows == 0"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
