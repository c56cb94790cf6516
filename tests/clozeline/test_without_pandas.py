"""A command's process does without pandas, and can still import it."""

from __future__ import annotations

import subprocess
import sys

import pytest

_SCRIPT = """
import sys
import pyarrow
from clozeline.without_pandas import skip_pandas

{call}
assert pyarrow.array([1, None]).to_pylist() == [1, None]
assert pyarrow.table({{"text": ["a"]}})["text"].to_numpy().tolist() == ["a"]
assert ("pandas" in sys.modules) is {loaded}
import pandas
"""


@pytest.mark.parametrize(("call", "loaded"), [("skip_pandas()", False), ("", True)], ids=["skipped", "as usual"])
def test_arrays_do_without_pandas_and_others_may_still_import_it(call: str, loaded: bool) -> None:
    pytest.importorskip("pandas")
    script = _SCRIPT.format(call=call, loaded=loaded)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
