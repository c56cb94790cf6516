"""Read the tensors of a folder: safetensors or torch files, single or sharded.

Code in a file is never executed.
"""

import io
import pickletools
import re
import warnings
import zipfile
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from clozeline.errors import WeightsError, join_names
from clozeline.model.checkpoints.import_record import read_checkpoint_json
from clozeline.model.checkpoints.tensor_files import read_safetensors

PICKLE_LIMIT: Final = 4 << 20
"""Maximum size in bytes of the list of tensors in a torch file: some 200 bytes per tensor."""
_LEGACY_PICKLES: Final = 4
"""Number of pickles before the tensors in a torch file that is not an archive: two marks, data
about the machine, and the names."""
_SINGLE_FILES: Final = ("model.safetensors", "pytorch_model.bin")
_WRAPPER_KEYS: Final = ("state_dict", "model_state_dict")
"""Keys of a torch file under which some programs put all tensors."""


def has_tensors(folder: Path) -> bool:
    """Return whether a folder has the tensors of a model."""
    names = (name + end for name in _SINGLE_FILES for end in ("", ".index.json"))
    return any((folder / name).is_file() for name in names)


def read_tensors(folder: Path) -> tuple[dict[str, Tensor], list[Path]]:
    """Return the tensors of a folder and their files; safetensors take precedence over torch files.

    Raises:
        WeightsError: there are no tensors, or a file is missing, truncated or has other content.
    """
    for name in _SINGLE_FILES:
        if (single := folder / name).is_file():
            return read_tensor_file(single), [single]
        if (index := folder / f"{name}.index.json").is_file():
            return _read_shards(index)
    found_files = ", ".join(sorted(path.name for path in folder.iterdir())[:8]) or "no files"
    raise WeightsError(
        f"{folder}: expected {', '.join(_SINGLE_FILES)} or one of them with .index.json, but the "
        f"folder has {found_files}: download it again, or import the model again"
    )


def _read_shards(index: Path) -> tuple[dict[str, Tensor], list[Path]]:
    """Return the tensors that an index lists, from the files that it names."""
    listed = read_checkpoint_json(index).get("weight_map")
    if not isinstance(listed, dict) or not all(isinstance(name, str) for name in listed.values()):
        raise WeightsError(
            f"{index}: expected weight_map with the file of each tensor, got "
            f"{type(listed).__name__}"
        )

    tensors: dict[str, Tensor] = {}
    paths = []
    # every file must have exactly the tensors that the index lists for it
    for name in sorted(set(listed.values())):
        if Path(name).name != name or name.startswith("."):
            raise WeightsError(f"{index}: {name!r}: expected the name of a file next to the index")
        path = index.with_name(name)
        if not path.is_file():
            raise WeightsError(
                f"{path} is missing; the index lists it among {len(set(listed.values()))} parts"
            )

        shard = read_tensor_file(path)
        expected = {tensor for tensor, file in listed.items() if file == name}
        if differing := sorted(expected ^ shard.keys()):
            how = "lacks" if differing[0] in expected else "has"
            raise WeightsError(f"{path} {how} {differing[0]}, contrary to {index.name}")

        tensors |= shard
        paths.append(path)

    return tensors, paths


def read_tensor_file(path: Path) -> dict[str, Tensor]:
    """Return the tensors of one file.

    Raises:
        WeightsError: the file is damaged, or has other content than tensors.
    """
    return read_safetensors(path) if path.suffix == ".safetensors" else _read_torch(path)


def _check_pickle_size(path: Path) -> None:
    """Raise WeightsError if a torch file's list of tensors is so large that it may be an attack.

    A long list can fill the memory, and take minutes to read.
    """
    message = (
        f"{path}: its list of tensors has more than {PICKLE_LIMIT} bytes; ask its owner for "
        "safetensors"
    )

    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if any(
                entry.filename.endswith(".pkl") and entry.file_size > PICKLE_LIMIT
                for entry in archive.infolist()
            ):
                raise WeightsError(message)
        return

    # an older file: pickles without an archive
    with path.open("rb") as file:
        start = io.BytesIO(file.read(PICKLE_LIMIT + 1))
    try:
        for _ in range(_LEGACY_PICKLES):
            for _opcode in pickletools.genops(start):
                pass
    except ValueError as error:  # `start` ends too early, or is not a pickle
        if len(start.getbuffer()) > PICKLE_LIMIT:
            raise WeightsError(message) from error


def _read_torch(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a torch file; the loader accepts tensors and containers, no classes."""
    _check_pickle_size(path)
    # torch stores without compression, so a file that would grow is an attack
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            full_size = sum(entry.file_size for entry in archive.infolist())
        if full_size > (size := path.stat().st_size):
            raise WeightsError(
                f"{path}: {size} bytes would grow to {full_size}; expected an uncompressed file"
            )

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    # torch's loader has no specific error for classes, and its message advises to load them
    except Exception as error:
        raise WeightsError(
            f"{path}: the file is truncated, or contains classes, which are never loaded: ask its "
            "owner for safetensors"
        ) from error

    for wrapper in _WRAPPER_KEYS:
        if isinstance(loaded, dict) and isinstance(loaded.get(wrapper), dict):
            loaded = loaded[wrapper]

    if not isinstance(loaded, dict):
        raise WeightsError(f"{path}: expected tensors by name, got {type(loaded).__name__}")
    for name, tensor in loaded.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise WeightsError(f"{path}: {name}: expected a tensor, got {type(tensor).__name__}")
        if tensor.untyped_storage().nbytes() < tensor.numel() * tensor.element_size():
            raise WeightsError(
                f"{path}: {name}: its shape {list(tensor.shape)} is larger than its stored values"
            )

    return loaded


_TENSORFLOW_ENDINGS = {".gamma": ".weight", ".beta": ".bias"}
"""Endings of norm parameters in files from TensorFlow, each with the current ending."""


@dataclass(frozen=True)
class Renamed:
    """Tensors by their current names, and skipped tensors by their names in the file."""

    tensors: dict[str, Tensor]
    skipped: dict[str, Tensor]
    other_heads: list[str]
    """names of tensors of heads that the type does not have"""


@dataclass(frozen=True)
class Renaming:
    """The known names of a model type, and the variations found in files."""

    known: Set[str]
    base: str
    other_prefixes: tuple[str, ...]
    skipped: Set[str]
    buffers: Set[str]
    other_names: Mapping[str, str] = field(default_factory=dict)

    def apply(self, tensors: Mapping[str, Tensor], where: str, *, strict: bool = False) -> Renamed:
        """Sort the tensors of a file, and skip heads that the type lacks unless `strict`.

        Raises:
            WeightsError: names are unknown (up to twelve are listed), or two names mean the same
                tensor.
        """
        renamed = Renamed({}, {}, [])
        sources: dict[str, str] = {}
        unknown: list[str] = []
        # torch's data-parallel wrapper puts "module." before every name
        if tensors and all(name.startswith("module.") for name in tensors):
            tensors = {name.removeprefix("module."): tensor for name, tensor in tensors.items()}
        # known tensors, then tensors and buffers that are skipped
        for name, tensor in tensors.items():
            if (current := self._current_name(name)) is not None:
                if current in sources:
                    raise WeightsError(
                        f"{where}: {sources[current]} and {name} are both {current}; expected one"
                    )
                sources[current] = name
                renamed.tensors[current] = tensor
            elif _matches(self.skipped, name):
                renamed.skipped[name] = tensor
            elif not _matches(self.buffers, name):
                unknown.append(name)

        # if no name has the prefix of the body, a class without heads wrote the file: all is body
        if (
            self.base
            and not strict
            and any(name.startswith(self.base) for name in sources.values())
        ):
            renamed.other_heads.extend(name for name in unknown if self._is_other_head(name))

        if unknown := [name for name in unknown if name not in renamed.other_heads]:
            raise WeightsError(
                f"{where}: {len(unknown)} tensors that a model of its type does not have: "
                f"{join_names(unknown)}; is it a model of another type, or fine-tuned with another "
                "head?"
            )

        return renamed

    def _is_other_head(self, name: str) -> bool:
        """Return whether a tensor is outside the body and unrelated to any module of the type."""
        module = name.rpartition(".")[0]
        modules = {known.rpartition(".")[0] for known in self.known}
        body = {
            known.removeprefix(self.base).partition(".")[0]
            for known in self.known
            if known.startswith(self.base)
        }

        inside = (
            name.startswith((self.base, *self.other_prefixes)) or name.partition(".")[0] in body
        )
        related = any(_contains(module, known) or _contains(known, module) for known in modules)
        return bool(module) and not inside and not related

    def group_heads(self, names: Iterable[str]) -> list[str]:
        """Return heads by the shortest part of their names that the type lacks: `cls.chain.*`."""
        groups = set()
        for name in names:
            parts = name.split(".")
            starts = [".".join(parts[:count]) for count in range(1, len(parts))]
            new = next(
                start
                for start in starts
                if not any(_contains(start, known) for known in self.known)
            )
            groups.add(f"{new}.*")
        return sorted(groups)

    def _current_name(self, name: str) -> str | None:
        """Return the current name of a tensor; None: the type has no such tensor."""
        for old, new in _TENSORFLOW_ENDINGS.items():
            if name.endswith(old):
                name = name.removesuffix(old) + new

        for other, current in self.other_names.items():
            if name.startswith(other):
                name = current + name.removeprefix(other)

        without = [
            name.removeprefix(prefix) for prefix in (self.base, *self.other_prefixes) if prefix
        ]
        return next(
            (other for other in (name, self.base + name, *without) if other in self.known), None
        )


def _contains(outer: str, inner: str) -> bool:
    return inner == outer or inner.startswith(f"{outer}.")


def _matches(patterns: Iterable[str], name: str) -> bool:
    return any(re.search(pattern, name) for pattern in patterns)
