"""Read the tensors of a directory: safetensors or torch files, single or sharded.

Code in a file never runs.
"""

import io
import json
import pickletools
import re
import warnings
import zipfile
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from clozeline.errors import WeightsError, join_names
from clozeline.model.layers.quantization import holds_integers

INDEX_LIMIT: Final = 64 << 20
"""Largest JSON file that is parsed, in bytes."""
PICKLE_LIMIT: Final = 4 << 20
"""Bytes of a torch file beside its tensors: their names and shapes, some 200 bytes each."""
_LEGACY_PARTS: Final = 4
"""Pickles before the tensors of a torch file that is no archive: two marks, facts of the machine,
and the names."""
_WHOLE: Final = ("model.safetensors", "pytorch_model.bin")
_WRAPPERS: Final = ("state_dict", "model_state_dict")
_FLOATS: Final = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def read_tensors(folder: Path) -> tuple[dict[str, Tensor], list[Path]]:
    """Return the tensors of a directory and their files; safetensors take precedence over torch files.

    Raises:
        WeightsError: there are none, or a file is missing, truncated or holds anything but tensors.
    """
    for name in _WHOLE:
        if (single := folder / name).is_file():
            return read_tensor_file(single), [single]
        if (index := folder / f"{name}.index.json").is_file():
            return _read_parts(index)
    others = ", ".join(sorted(path.name for path in folder.iterdir())[:8]) or "nothing"
    why = f"it holds {others}: take another copy of the folder, or import the model again"
    raise WeightsError(
        f"{folder}: expected {', '.join(_WHOLE)} or one of them with .index.json; {why}"
    )


def read_checkpoint_json(path: Path) -> dict[str, Any]:
    """Return the keys of a JSON file; refuse one that is too large, not JSON, or no mapping."""
    if path.exists() and not path.is_file():
        raise WeightsError(
            f"{path}: expected a file, got a folder, pipe, socket or device; take another copy"
        )
    if (size := path.stat().st_size) > INDEX_LIMIT:
        raise WeightsError(
            f"{path}: {size} bytes, expected at most {INDEX_LIMIT}; take another copy"
        )
    try:
        plain = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise WeightsError(f"{path}: cannot be read as JSON: {error}; take another copy") from error
    if not isinstance(plain, dict):
        raise WeightsError(
            f"{path}: expected keys and values, got {type(plain).__name__}; take another copy"
        )
    return plain


def refuse_invalid_values(tensors: Mapping[str, Tensor], where: str) -> None:
    """Raise a WeightsError if a tensor is not of floating point, or has values that are not finite."""
    for name, tensor in tensors.items():
        if tensor.dtype not in _FLOATS:
            raise WeightsError(
                f"{where}: {name}: expected floating-point values, got {tensor.dtype}; is it "
                "quantized?"
            )
        tensor = tensor.scale if holds_integers(tensor) else tensor  # type: ignore[attr-defined]
        # the extremes need no memory; entries are compared only if one of them is not finite
        if tensor.numel() and not all(bound.isfinite() for bound in tensor.aminmax()):
            wrong = int((~torch.isfinite(tensor)).sum())
            values = f"{wrong} of {tensor.numel()} values"
            raise WeightsError(f"{where}: {name}: {values} are nan or infinite; take another copy")


def read_metadata(files: Iterable[Path]) -> dict[str, str]:
    """Return the metadata of safetensors files, in one mapping."""
    metadata: dict[str, str] = {}
    for path in (path for path in files if path.suffix == ".safetensors"):
        with safe_open(path, framework="pt") as file:
            metadata |= file.metadata() or {}
    return metadata


def _read_parts(index: Path) -> tuple[dict[str, Tensor], list[Path]]:
    """Return the tensors that an index lists, from the files it names."""
    listed = read_checkpoint_json(index).get("weight_map")
    if not isinstance(listed, dict) or not all(isinstance(name, str) for name in listed.values()):
        raise WeightsError(
            f"{index}: expected weight_map with the file of each tensor, got "
            f"{type(listed).__name__}"
        )
    tensors: dict[str, Tensor] = {}
    paths = []
    for name in sorted(set(listed.values())):
        if Path(name).name != name or name.startswith("."):
            raise WeightsError(f"{index}: {name!r}: expected the name of a file next to the index")
        path = index.with_name(name)
        if not path.is_file():
            raise WeightsError(
                f"{path}: missing; the index lists it among {len(set(listed.values()))} parts"
            )
        part = read_tensor_file(path)
        expected = {tensor for tensor, file in listed.items() if file == name}
        if differing := sorted(expected ^ part.keys()):
            how = "lacks" if differing[0] in expected else "holds"
            raise WeightsError(f"{path}: {how} {differing[0]}, contrary to {index.name}")
        tensors |= part
        paths.append(path)
    return tensors, paths


def read_tensor_file(path: Path) -> dict[str, Tensor]:
    """Return the tensors of one file; raise a WeightsError if it is damaged, or holds anything but tensors."""
    if path.suffix != ".safetensors":
        return _read_torch(path)
    try:
        return load_file(path)
    except (OSError, ValueError, SafetensorError) as error:
        why = f"cannot be read as safetensors, it is torn or no such file: {error}"
        raise WeightsError(f"{path}: {why}; take another copy") from error


def _refuse_large_pickle(path: Path) -> None:
    """Refuse a torch file whose list of tensors is too large: it may hold anything, and fill the memory for minutes."""
    why = (
        f"{path}: its list of tensors takes more than {PICKLE_LIMIT} bytes; ask its owner for "
        "safetensors"
    )
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if any(
                entry.filename.endswith(".pkl") and entry.file_size > PICKLE_LIMIT
                for entry in archive.infolist()
            ):
                raise WeightsError(why)
        return
    with path.open("rb") as file:
        head = io.BytesIO(file.read(PICKLE_LIMIT + 1))
    try:
        for _ in range(_LEGACY_PARTS):
            for _opcode in pickletools.genops(head):
                pass
    except ValueError as error:  # it ends too early, or is no pickle
        if len(head.getbuffer()) > PICKLE_LIMIT:
            raise WeightsError(why) from error


def _read_torch(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a torch file; the loader accepts tensors and containers, and no classes."""
    _refuse_large_pickle(path)
    if zipfile.is_zipfile(
        path
    ):  # a file that expands when it is read: torch itself stores without compression
        with zipfile.ZipFile(path) as archive:
            grown = sum(entry.file_size for entry in archive.infolist())
        if grown > (size := path.stat().st_size):
            raise WeightsError(
                f"{path}: {size} bytes would grow to {grown}; expected an uncompressed file"
            )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plain = torch.load(path, map_location="cpu", weights_only=True)
    except (
        Exception
    ) as error:  # torch has no error of its own for what its loader refuses, and advises to load it
        why = (
            "a torn file, or one that holds classes, which are never loaded: ask its owner for "
            "safetensors"
        )
        raise WeightsError(f"{path}: cannot be read as tensors alone: {why}") from error
    for wrapper in _WRAPPERS:
        if isinstance(plain, dict) and isinstance(plain.get(wrapper), dict):
            plain = plain[wrapper]
    if not isinstance(plain, dict):
        raise WeightsError(f"{path}: expected tensors by name, got {type(plain).__name__}")
    for name, tensor in plain.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise WeightsError(f"{path}: {name}: expected a tensor, got {type(tensor).__name__}")
        if tensor.untyped_storage().nbytes() < tensor.numel() * tensor.element_size():
            raise WeightsError(
                f"{path}: {name}: its shape {list(tensor.shape)} is larger than its stored values"
            )
    return plain


def divide_tensors(tensors: Mapping[str, Tensor], max_bytes: int) -> list[dict[str, Tensor]]:
    """Return the tensors in order, in parts of at most `max_bytes`; a larger tensor is a part of its own."""
    parts: list[dict[str, Tensor]] = [{}]
    for name, tensor in tensors.items():
        if (
            parts[-1]
            and sum(part.nbytes for part in parts[-1].values()) + tensor.nbytes > max_bytes
        ):
            parts.append({})
        parts[-1][name] = tensor
    return parts


def weight_files(tensors: Mapping[str, Tensor], max_bytes: int) -> list[str]:
    """Return the files of weights that an export writes: one, or numbered parts and their index."""
    count = len(divide_tensors(tensors, max_bytes))
    if count == 1:
        return ["model.safetensors"]
    parts = [f"model-{number:05}-of-{count:05}.safetensors" for number in range(1, count + 1)]
    return [*parts, "model.safetensors.index.json"]


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
            WeightsError: names are unknown (up to twelve are listed), or two of them mean the same
                tensor.
        """
        renamed = Renamed({}, {}, [])
        sources: dict[str, str] = {}
        unknown: list[str] = []
        if tensors and all(
            name.startswith("module.") for name in tensors
        ):  # written by a data-parallel wrapper
            tensors = {name.removeprefix("module."): tensor for name, tensor in tensors.items()}
        for name, tensor in tensors.items():
            if (present := self._present(name)) is not None:
                if present in sources:
                    raise WeightsError(
                        f"{where}: {sources[present]} and {name} are both {present}; expected one"
                    )
                sources[present] = name
                renamed.tensors[present] = tensor
            elif _matches(self.left_out, name):
                renamed.left_out[name] = tensor
            elif not _matches(self.buffers, name):
                unknown.append(name)
        # without the prefix of the body, a file is that of the class without heads: all of it is
        # body
        if (
            self.base
            and not strict
            and any(name.startswith(self.base) for name in sources.values())
        ):
            renamed.further.extend(name for name in unknown if self._is_further_head(name))
        if unknown := [name for name in unknown if name not in renamed.further]:
            why = (
                f"{join_names(unknown)}; is it another type's, or a fine-tuned model with a head "
                "of its own?"
            )
            raise WeightsError(
                f"{where}: {len(unknown)} tensors that a model of its type does not have: {why}"
            )
        return renamed

    def _is_further_head(self, name: str) -> bool:
        """Return whether a tensor is neither of the body nor next to, above or below a module that the type has."""
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

    def group_further(self, names: Iterable[str]) -> list[str]:
        """Return heads by the shortest part of their names that the type does not have: `cls.chain.*`."""
        found = set()
        for name in names:
            parts = name.split(".")
            starts = [".".join(parts[:count]) for count in range(1, len(parts))]
            new = next(
                start
                for start in starts
                if not any(_contains(start, known) for known in self.known)
            )
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
