from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clozeline.pipeline.dedup.parts import CLUSTER, write_clusters
from clozeline.pipeline.dedup.rows import pack_rows, uid_column
from clozeline.pipeline.execution.report_samples import (
    Parts,
    cluster_sizes,
    lengths,
    sample_kept_texts,
    sample_rejects,
    tally_documents,
)
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.documents.files import Rejection, write_documents, write_rejects


def document(number: int, text: str, **more: str) -> Document:
    return Document(uid=uid(number), text=text, source="a.jsonl", offset=number, n_chars=len(text), **more)


def uid(number: int) -> bytes:
    return number.to_bytes(16, "big")


def rejection(number: int, reason: str, text: str | None) -> Rejection:
    return Rejection(uid(number), "a.jsonl", number, 1, "clean", reason, "detail", 1234, text)


def test_files_are_spread_over_a_large_folder(tmp_path: Path):
    for number in range(40):
        (tmp_path / f"{number:06d}.arrow").touch()
    parts = Parts.of(tmp_path)
    numbers = [int(file.path.stem) for file in parts.files]
    assert len(numbers) == 16
    assert set(np.diff(numbers)) == {2, 3}
    assert parts.share == " (16 of 40 parts)"
    assert Parts.of(tmp_path / "none") == Parts((), 0)
    assert Parts((), 0).share == ""


def test_lengths_are_counted_in_doubling_ranges(tmp_path: Path):
    sizes = [0, 1, 5, 7, 8, 300]
    write_documents(tmp_path / "000000.arrow", [document(n, "x" * size) for n, size in enumerate(sizes)])
    found = lengths(Parts.of(tmp_path))
    assert found[0] == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    assert found[1] == [1, 1, 0, 2, 1, 0, 0, 0, 0, 1]
    assert lengths(Parts((), 0))[1] == [0]


def test_documents_are_counted_by_host_and_by_language(tmp_path: Path):
    hosts = {
        "https://a.org/x?y=http://b.org": "a.org", "http://a.org:8080/": "a.org", "http://b.org": "b.org", "": "",
        "a file, page 3": "a file, page 3", "HTTP://c.org#d": "c.org",
    }  # fmt: skip
    rows = [document(n, "x" * (n + 1), url=url, language="de" if n % 2 else "en") for n, url in enumerate(hosts)]
    for part in range(2):
        write_documents(tmp_path / f"{part:06d}.arrow", rows[3 * part : 3 * part + 3])
    parts = Parts.of(tmp_path)
    expected: dict[str, tuple[int, int]] = {}
    for row, host in zip(rows, hosts.values(), strict=True):
        count, characters = expected.get(host, (0, 0))
        expected[host] = (count + 1, characters + row.n_chars)
    assert tally_documents(parts, "url") == expected
    assert tally_documents(parts, "language") == {"en": (3, 1 + 3 + 5), "de": (3, 2 + 4 + 6)}
    assert tally_documents(Parts((), 0), "url") == {}


def test_clusters_are_counted_by_their_size(tmp_path: Path):
    members = [2, 2, 3, 9]
    for part, own in enumerate((members[:2], members[2:])):
        names = [uid(100 * part + number) for number, size in enumerate(own) for _ in range(size)]
        uids = uid_column([uid(n) for n in range(len(names))])
        kept, ones = np.zeros(len(names), bool), np.ones(len(names), np.float32)
        columns = {"cluster": uid_column(names), "uid": uids, "kept": kept, "similarity": ones}
        write_clusters(tmp_path / f"{part:06d}.arrow", pack_rows(CLUSTER, columns))
    found = cluster_sizes(Parts.of(tmp_path))
    assert found == ([2, 3, 4, 5, 6, 7, 8, 16], [2, 1, 0, 0, 0, 0, 1])


def test_kept_texts_are_cut_and_chosen_by_uid(tmp_path: Path):
    texts = ["nine", "x " * 1000, "with address", "five"]
    documents = [
        document(9, texts[0]),
        document(2, texts[1]),
        document(3, texts[2], url="http://a/b"),
        document(5, texts[3]),
    ]
    write_documents(tmp_path / "000000.arrow", documents[:2])
    write_documents(tmp_path / "000001.arrow", documents[2:])
    found = sample_kept_texts(Parts.of(tmp_path))
    assert [one.text for one in found] == [("x " * 200).rstrip() + " …", "with address", "five"]
    assert [one.origin for one in found] == ["a.jsonl at 2", "http://a/b", "a.jsonl at 5"]


def test_dropped_texts_prefer_those_that_can_be_shown(tmp_path: Path):
    rows = [
        rejection(1, "short", None),
        rejection(2, "short", None),
        rejection(3, "short", "C"),
        rejection(4, "short", "D"),
    ]
    write_rejects(tmp_path / "000000.arrow", [*rows, rejection(5, "long", None)])
    found = sample_rejects(Parts.of(tmp_path), None)
    assert {reason: [one.text for one in texts] for reason, texts in found.items()} == {
        "short": ["C", "D", ""],
        "long": [""],
    }
    assert found["long"][0].origin == "a.jsonl at 5 · 1,234 characters · detail"


@pytest.mark.parametrize("missing", [False, True])
def test_texts_that_rejections_leave_out_are_those_of_the_stage_before(tmp_path: Path, missing: bool):
    folder = tmp_path / "documents"
    folder.mkdir()
    if not missing:
        write_documents(folder / "000000.arrow", [document(n, f"text {n}") for n in range(600)])
    (tmp_path / "rejects").mkdir()
    write_rejects(tmp_path / "rejects" / "000000.arrow", [rejection(n, "copy", None) for n in (7, 599, 1000)])
    found = sample_rejects(Parts.of(tmp_path / "rejects"), folder)
    assert [one.text for one in found["copy"]] == (["", "", ""] if missing else ["text 7", "text 599", ""])
