"""Map the tensor names in a file, legacy ones included, to the names of a model type."""

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from torch import Tensor

from clozeline.errors import WeightsError

_SUFFIXES = {".gamma": ".weight", ".beta": ".bias"}
"""Names of norms in files from TensorFlow."""


@dataclass(frozen=True)
class Renamed:
    """Tensors by their current names, and what was skipped."""

    tensors: dict[str, Tensor]
    left_out: dict[str, Tensor]
    further: list[str]
    """names of heads that the type does not have"""


@dataclass(frozen=True)
class Renaming:
    """The known names of a model type, and the variations found in files."""

    known: Set[str]
    base: str
    other_prefixes: tuple[str, ...]
    left_out: Set[str]
    buffers: Set[str]
    other_names: Mapping[str, str] = field(default_factory=dict)

    def apply(self, tensors: Mapping[str, Tensor], where: str, *, strict: bool = False) -> Renamed:
        """Sort the tensors of a file; those of heads that the type does not have are left out unless `strict`.

        Raises:
            WeightsError: names are unknown (up to twelve are listed), or two of them mean the same tensor.
        """
        renamed = Renamed({}, {}, [])
        sources: dict[str, str] = {}
        unknown: list[str] = []
        if tensors and all(name.startswith("module.") for name in tensors):  # written by a data-parallel wrapper
            tensors = {name.removeprefix("module."): tensor for name, tensor in tensors.items()}
        for name, tensor in tensors.items():
            if (present := self._present(name)) is not None:
                if present in sources:
                    raise WeightsError(f"{where}: {sources[present]} and {name} are both {present}; expected one")
                sources[present] = name
                renamed.tensors[present] = tensor
            elif _matches(self.left_out, name):
                renamed.left_out[name] = tensor
            elif not _matches(self.buffers, name):
                unknown.append(name)
        # without the prefix of the body, a file is that of the class without heads: all of it is body
        if self.base and not strict and any(name.startswith(self.base) for name in sources.values()):
            renamed.further.extend(name for name in unknown if self._is_further_head(name))
        if unknown := [name for name in unknown if name not in renamed.further]:
            why = f"{join_names(unknown)}; is it another type's, or a fine-tuned model with a head of its own?"
            raise WeightsError(f"{where}: {len(unknown)} tensors that a model of its type does not have: {why}")
        return renamed

    def _is_further_head(self, name: str) -> bool:
        """Return whether a tensor is neither of the body nor next to, above or below a module that the type has."""
        module = name.rpartition(".")[0]
        modules = {known.rpartition(".")[0] for known in self.known}
        body = {known.removeprefix(self.base).partition(".")[0] for known in self.known if known.startswith(self.base)}
        inside = name.startswith((self.base, *self.other_prefixes)) or name.partition(".")[0] in body
        related = any(_contains(module, known) or _contains(known, module) for known in modules)
        return bool(module) and not inside and not related

    def group_further(self, names: Iterable[str]) -> list[str]:
        """Return heads by the shortest part of their names that the type does not have: `cls.chain.*`."""
        found = set()
        for name in names:
            parts = name.split(".")
            starts = [".".join(parts[:count]) for count in range(1, len(parts))]
            new = next(start for start in starts if not any(_contains(start, known) for known in self.known))
            found.add(f"{new}.*")
        return sorted(found)

    def _present(self, name: str) -> str | None:
        """Return the current name of a tensor, None if the type has none."""
        for old, new in _SUFFIXES.items():
            if name.endswith(old):
                name = name.removesuffix(old) + new
        for other, present in self.other_names.items():
            if name.startswith(other):
                name = present + name.removeprefix(other)
        without = [name.removeprefix(prefix) for prefix in (self.base, *self.other_prefixes) if prefix]
        return next((other for other in (name, self.base + name, *without) if other in self.known), None)


def join_names(names: Iterable[str], most: int = 12) -> str:
    """Join sorted names, shortened after the first `most`."""
    ordered = sorted(names)
    return ", ".join(ordered[:most]) + (f" and {len(ordered) - most} more" if len(ordered) > most else "")


def _contains(outer: str, inner: str) -> bool:
    return inner == outer or inner.startswith(f"{outer}.")


def _matches(patterns: Iterable[str], name: str) -> bool:
    return any(re.search(pattern, name) for pattern in patterns)
