"""Save commands the import of pandas, which takes a third of a second where it is installed: none of them uses it.

pyarrow imports it when a process makes its first array, to recognize data frames, and does not ask again.
"""

import sys
from importlib.machinery import ModuleSpec


class _WithoutPandas:
    """A module finder that reports pandas as not installed."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("no command reads data frames", name=name)
        return None


def skip_pandas() -> None:
    """Keep pyarrow from importing pandas in the process of a command, as it does to recognize data frames."""
    if "pyarrow" in sys.modules and "pandas" not in sys.modules:
        sys.meta_path.insert(0, _WithoutPandas)
        try:
            sys.modules["pyarrow"].array([])
        finally:
            sys.meta_path.remove(_WithoutPandas)
