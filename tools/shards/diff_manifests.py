"""Compare two shard sets: `clozeline diff-manifests MANIFEST MANIFEST`.

Schema, tokenizer, objective with its options, counts, settings and the hash of every shard are compared. Exit code 0:
equal, apart from parents and configurations; 1: different; 64, 65 and 74 as for every command.
"""

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from clozeline.pipeline.corrupt.preview.view import Sheet, View, print_view
from clozeline.pipeline.shards import Manifest
from clozeline.terminal import Terminal
from clozeline.tools.command import Arguments, natural, plural, run_tool, some_path
from clozeline.tools.shards.rewriting.shard_folder import local_folder

_ABSENT: Final = "absent"
_ORDER: Final = "order of "
_NOT_COMPARED: Final = {"checksum", "code"}
_NAMED: Final = {"columns": "name", "shards": "path", "parents": "name"}
"""lists whose items are matched by one of their keys, not by their order"""
_PROVENANCE: Final = {"parents", "config"}
"""fields that are shown but do not make sets different"""
_SHOWN: Final = 120
_DIGITS: Final = 16


class Difference(NamedTuple):
    """A dotted field with its value in each set."""

    field: str
    left: str
    right: str

    @property
    def root(self) -> str:
        """The top-level field of the manifest."""
        return self.field.removeprefix(_ORDER).split(".")[0]


def differences(left: Manifest, right: Manifest) -> list[Difference]:
    """Return the fields that differ, in manifest order."""
    plain = [_index_lists_by_key(manifest.model_dump(mode="json")) for manifest in (left, right)]
    return [
        difference
        for field in plain[0]
        if field not in _NOT_COMPARED
        for difference in _compare(field, plain[0][field], plain[1][field])
    ]


def _index_lists_by_key(plain: dict[str, Any]) -> dict[str, Any]:
    for field, key in _NAMED.items():
        items: dict[str, Any] = {}
        for item in plain[field]:
            name = item.pop(key)  # several parents may have the same name
            items[name if name not in items else f"{name} ({len(items)})"] = item
        plain[field] = items
    return plain


def _compare(field: str, left: Any, right: Any) -> Iterator[Difference]:
    if left == right:
        if isinstance(left, Mapping) and list(left) != list(right):
            yield Difference(f"{_ORDER}{field}", _short(list(left)), _short(list(right)))
    elif isinstance(left, Mapping) and isinstance(right, Mapping):
        for key in dict.fromkeys([*left, *right]):
            yield from _compare(f"{field}.{key}", left.get(key, _ABSENT), right.get(key, _ABSENT))
    else:
        yield Difference(field, _short(left), _short(right))


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        text = ", ".join(f"{name} {_short(item)}" for name, item in value.items())
    elif re.fullmatch(r"[0-9a-f]{64}", str(value)):
        text = f"{value[:_DIGITS]}…"
    elif isinstance(value, list):
        text = ", ".join(map(_short, value)) or "none"
    elif isinstance(value, int) and not isinstance(value, bool):
        text = f"{value:,}"
    else:
        text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _verdict(left: Manifest, right: Manifest) -> str:
    """Say what the difference means for a run."""
    if left.digest == right.digest:
        return "same digest: a run can continue with either"
    if _is_repacked(left, right) or _is_repacked(right, left):
        order = "the same" if left.block_rows == right.block_rows else "different, because blocks have another size"
        return f"another digest, but one is the other repacked: the same rows; the order of the stream is {order}"
    shapes = [(manifest.name, manifest.totals.samples, manifest.block_rows) for manifest in (left, right)]
    if shapes[0] == shapes[1]:
        return "another digest, but same name, rows and block size: a stream reads the rows in the same order"
    return "another digest and another order of the stream: another data set"


def _is_repacked(new: Manifest, old: Manifest) -> bool:
    return any(parent.role == "repacked" and parent.digest == old.digest for parent in new.parents)


def _view(left: Manifest, right: Manifest, differences_found: Sequence[Difference], limit: int) -> View:
    rows = [difference for difference in differences_found if difference.root not in _NAMED]
    for root in _NAMED:
        in_list = [difference for difference in differences_found if difference.root == root]
        rows += in_list[:limit]
        if len(in_list) > limit:
            rows.append(Difference(f"{root}: {len(in_list) - limit:,} more", "", ""))
    title = f"{left.name} · {right.name}: {plural(len(differences_found), 'difference')}"
    return View(title, (Sheet("differences", ("field", "first", "second"), tuple(tuple(row) for row in rows)),))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Arguments(__doc__)
    parser.add_argument("first", type=some_path, help="manifest.json of a shard set, or its folder")
    parser.add_argument("second", type=some_path, help="the set to compare it with")
    parser.add_argument("--most", type=natural, default=20, metavar="N", help="shards and columns listed (%(default)s)")

    def action(options: argparse.Namespace) -> int:
        left, right = Manifest.load(local_folder(options.first)), Manifest.load(local_folder(options.second))
        differences_found = differences(left, right)
        different = any(difference.root not in _PROVENANCE for difference in differences_found)
        if differences_found:
            print_view(_view(left, right, differences_found, options.most), Terminal())
        if not different:
            rows, shards = plural(left.totals.samples, "row"), plural(left.totals.shards, "shard")
            print(f"equal: {left.name}, {rows} in {shards}")
        print(_verdict(left, right))
        return int(different)

    return run_tool(parser, arguments, action, prints=True)


if __name__ == "__main__":
    raise SystemExit(main())
