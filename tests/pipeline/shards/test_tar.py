import tarfile

import pytest

from clozeline.errors import IntegrityError
from tests.shard_sets import toy_set


@pytest.mark.parametrize(
    ("limit", "value", "message"),
    [
        ("clozeline.pipeline.shards.writer._MEMBER_LIMIT", 1000, "tar member 0 of .* bytes: write smaller blocks"),
        ("clozeline.pipeline.shards.writer._BLOCKS_LIMIT", 2, "tar member 2 "),
        ("clozeline.pipeline.shards.columns._LIST_LIMIT", 31, "input_ids: 32 values in one block; use smaller blocks"),
        ("clozeline.pipeline.shards.index._LENGTH_LIMIT", 300, "write smaller blocks"),
    ],
)
def test_what_a_format_cannot_count_is_refused(tmp_path, monkeypatch, limit, value, message):
    monkeypatch.setattr(limit, value)
    with pytest.raises(IntegrityError, match=message):
        toy_set(tmp_path, [10], container="tar")
    assert not (tmp_path / "manifest.json").exists()


def test_bytes_of_a_tar_shard(tmp_path):
    """No time, no owner, no header beside the members' own; the index points into the members."""
    shards = toy_set(tmp_path, [10], container="tar")
    path = shards.shard_path(0)
    with tarfile.open(path) as archive:
        entries = archive.getmembers()
    assert [entry.name for entry in entries] == ["00000000.arrow", "00000001.arrow", "00000002.arrow"]
    for entry, start, length in zip(entries, shards.index.offset, shards.index.length, strict=True):
        facts = (entry.mode, entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname, entry.pax_headers)
        assert facts == (0o644, 0, 0, 0, "", "", {})
        assert entry.offset_data == entry.offset + 512
        assert entry.offset_data < start < start + length < entry.offset_data + entry.size
    raw = path.read_bytes()
    assert {raw[entry.offset + 257 : entry.offset + 265] for entry in entries} == {b"ustar\x0000"}
    assert len(raw) % 10240 == 0
    assert not any(raw[entries[-1].offset_data + -(-entries[-1].size // 512) * 512 :])
