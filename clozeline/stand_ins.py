"""Stand-ins for the libraries of computation while a command prints its help, as Sphinx's `autodoc_mock_imports`.

Help lists the keys of classes that are next to the code they configure, so it imports modules that import torch, which
takes two seconds. Help computes nothing: in its process, the names of these libraries have no content. numpy is not
among them, as modules compute tables with it when they are imported.
"""

import itertools
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

LIBRARIES: Final = frozenset(
    {
        "torch",
        "safetensors",
        "pyarrow",
        "tokenizers",
        "sklearn",
        "scipy",
        "sacrebleu",
        "seqeval",
        "nltk",
        "rouge_score",
        "pandas",
        "omegaconf",
    }
)


class StandIn(ModuleType):
    """A module, class, function or constant of a library: whatever is read of it or called is another stand-in."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return StandIn(name)

    def __call__(self, *arguments: Any, **_: Any) -> Any:
        """Return a decorated function as it is, and a stand-in for any other value."""
        alone = len(arguments) == 1 and callable(arguments[0])
        return arguments[0] if alone and not isinstance(arguments[0], StandIn) else self

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        """Return no class, as the base of one of ours."""
        return ()

    def __getitem__(self, key: Any) -> Any:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __or__(self, other: Any) -> Any:
        return Any

    __ror__ = __or__


class _Finder(MetaPathFinder, Loader):
    """Finds a stand-in for every module of the libraries."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in LIBRARIES else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Execute nothing."""


def asks_for_help(words: Sequence[str]) -> bool:
    """Return whether an option among the words of a command line is `--help`; after `--` they are no options."""
    options = itertools.takewhile("--".__ne__, words)
    return not {"-h", "--help"}.isdisjoint(options)


def use_stand_ins() -> None:
    """Import stand-ins for libraries that were not imported before; for a process that only prints help."""
    if not LIBRARIES & sys.modules.keys():
        sys.meta_path.insert(0, _Finder())
