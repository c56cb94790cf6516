import inspect

import pytest

from pipeline.formats.limits import Limits
from pipeline.readers import Counted
from pipeline.registry import find, names

READERS = names("pipeline.readers")


@pytest.mark.parametrize("name", READERS)
def test_a_reader_keeps_the_contract(name):
    kind = find("pipeline.readers", name)
    assert isinstance(kind.VERSION, int)
    assert kind.reasons
    assert len(set(kind.reasons)) == len(kind.reasons)
    assert inspect.getdoc(kind)
    assert kind.splittable(b"") in (True, False)


@pytest.mark.parametrize("name", READERS)
def test_random_bytes_are_counted_not_raised(name, tmp_path):
    kind = find("pipeline.readers", name)
    heads = (
        b"",
        b"\x1f\x8b\x08",
        b"\x28\xb5\x2f\xfd",
        b"\x04\x22\x4d\x18",
        b"BZh9",
        b"\xfd7zXZ\x00",
        b"PAR1",
        b"WARC/1.0\r\n",
    )
    for head in heads:
        path = tmp_path / "file"
        path.write_bytes(head + bytes(range(256)) * 20)
        other_side = {"target_path": str(path)} if name == "moses" else {}
        items = list(kind(kind.Options(**other_side), Limits()).read(path, 0, path.stat().st_size))
        assert items
        reasons = {item.reason for item in items if isinstance(item, Counted) and item.group == "malformed"}
        assert reasons <= set(kind.reasons)
