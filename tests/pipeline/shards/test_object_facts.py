"""Facts of objects as file systems describe them."""

from datetime import UTC, datetime

from clozeline.pipeline.shards.object_facts import facts_of

TIME = datetime(2026, 11, 23, tzinfo=UTC)


def test_a_version_is_the_etag_or_else_the_time():
    assert facts_of({"size": 3, "ETag": '"ab"', "LastModified": TIME}) == (3, '"ab"')
    assert facts_of({"size": 3, "ETag": None, "LastModified": TIME}) == (3, TIME.isoformat())
    assert facts_of({"size": None, "mtime": 1.5}) == (0, "1.5")
    assert facts_of({"size": 3, "name": "x"}) == (3, "")
