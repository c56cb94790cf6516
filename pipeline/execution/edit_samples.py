"""Sample edits for the report: passages of a few documents per type of edit, before and after."""

import bisect
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias, TypedDict

# Samples of each kind.
_SHOWN: Final = 3
# Characters shown of a passage.
_CHARACTERS: Final = 240
# Characters shown before the first change.
_CONTEXT: Final = 80


class EditSample(TypedDict):
    """A passage of a document that a filter changed; both texts are cut around the first change."""

    uid: str
    """uid of the document (hex)"""
    origin: str
    before: str
    after: str
    """the passage after the edit; "" if all of it was removed"""


EditSamples: TypeAlias = dict[str, list[EditSample]]
"""Samples by kind, in the order of their uids."""


def add_edit(samples: EditSamples, kind: str, uid: bytes, origin: str, before: str, after: str) -> None:
    """Keep an edit if its document has one of the three smallest uids of its type, a random sample."""
    kept = samples.setdefault(kind, [])
    if len(kept) == _SHOWN and uid.hex() >= kept[-1]["uid"]:
        return
    shared = zip(before, after, strict=False)
    change = next((at for at, (old, new) in enumerate(shared) if old != new), min(len(before), len(after)))
    start = max(0, change - _CONTEXT)
    sample = EditSample(uid=uid.hex(), origin=origin, before=_cut(before, start), after=_cut(after, start))
    bisect.insort(kept, sample, key=_uid)
    del kept[_SHOWN:]


def merge_edits(units: Iterable[Mapping[str, list[EditSample]]]) -> EditSamples:
    """Merge the samples of all units; the result does not depend on the order or division of units."""
    merged: EditSamples = {}
    for samples in units:
        for kind, kept in samples.items():
            merged[kind] = sorted([*merged.get(kind, []), *kept], key=_uid)[:_SHOWN]
    return dict(sorted(merged.items()))


def _uid(sample: EditSample) -> str:
    return sample["uid"]


def _cut(text: str, start: int) -> str:
    end = start + _CHARACTERS
    return f"{'… ' * (start > 0)}{text[start:end]}{' …' * (len(text) > end)}"
