"""A set in a store is the set on the disk, and appears with its manifest."""

from __future__ import annotations

import fsspec

from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.publish_set import main
from tests.shard_sets import toy_set


def test_a_set_is_copied_with_its_manifest_last(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "set"
    toy_set(folder, [5, 3])
    system = fsspec.filesystem("memory")
    order = []
    put = type(system).put_file

    def note(self, source, target, **options):
        order.append(target.rpartition("/")[2])
        put(self, source, target, **options)

    monkeypatch.setattr(type(system), "put_file", note)
    try:
        assert main([str(folder), "output=memory://published/set"]) == 0
        assert "files," in capsys.readouterr().out
        assert order[-1] == "manifest.json"
        assert sorted(order) == sorted(file.name for file in folder.iterdir())
        for file in folder.iterdir():
            assert system.cat(f"/published/set/{file.name}") == file.read_bytes()
        assert open_shards("memory://published/set").manifest == open_shards(folder).manifest
        assert main([str(folder), "output=memory://published/set"]) == 64
    finally:
        system.rm("/published", recursive=True)
