"""Objects by fsspec: facts, patterns and stores whose listings differ from their objects."""

import fsspec
import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.shards.fsspec_ranges import FsspecRanges


@pytest.fixture
def ranges():
    system = fsspec.filesystem("memory")
    system.pipe({"/ranges/a.txt": b"abcdef", "/ranges/deep/b.txt": b"xyz"})
    yield FsspecRanges("memory://ranges", {})
    system.rm("/ranges", recursive=True)


def test_ranges_and_facts(ranges):
    assert ranges("memory://ranges/a.txt", (1, 3), 2, 9.0) == b"bc"
    before = ranges.facts("memory://ranges/a.txt", 9.0)
    assert before.size == 6
    fsspec.filesystem("memory").pipe_file("/ranges/a.txt", b"ABCDEF")
    assert ranges.facts("memory://ranges/a.txt", 9.0) != before
    for name in ("none.txt", "deep"):
        with pytest.raises(FileNotFoundError):
            ranges.facts(f"memory://ranges/{name}", 9.0)


def test_a_version_is_that_of_the_object_where_the_listing_has_another(ranges):
    found = ranges.matches("memory://ranges", "**/*.txt")
    assert found == {name: ranges.facts(f"memory://ranges/{name}", 9.0) for name in ("a.txt", "deep/b.txt")}


def test_a_missing_package_is_named(monkeypatch):
    def fail(*_, **__):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec.core, "url_to_fs", fail)
    with pytest.raises(ConfigurationError, match=r"s3://b/c: no reader .* Install s3fs to access S3: pip install s3fs"):
        FsspecRanges("s3://b/c", {})
