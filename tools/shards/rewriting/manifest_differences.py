"""Find the fields in which two manifests differ."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from clozeline.pipeline.shards import Manifest

_NOT_COMPARED: Final = {"checksum", "code"}
_ABSENT: Final = "absent"


class Difference(NamedTuple):
    """A dotted field with its value in each manifest."""

    field: str
    left: Any
    right: Any

    @property
    def root(self) -> str:
        """The top-level field of the manifest."""
        return self.field.split(".")[0]


def differences(left: Manifest, right: Manifest) -> list[Difference]:
    """Return the fields that differ, in manifest order."""
    plain = [manifest.model_dump(mode="json") for manifest in (left, right)]
    fields = (field for field in plain[0] if field not in _NOT_COMPARED)
    return [found for field in fields for found in _compare(field, plain[0][field], plain[1][field])]


def _compare(field: str, left: Any, right: Any) -> Iterator[Difference]:
    if field == "columns":
        left, right = ({column["name"]: column for column in side} for side in (left, right))
        if [*left] != [*right]:
            yield Difference(field, [*left], [*right])
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        for key in dict.fromkeys([*left, *right]):
            yield from _compare(f"{field}.{key}", left.get(key, _ABSENT), right.get(key, _ABSENT))
    elif left != right:
        yield Difference(field, left, right)
