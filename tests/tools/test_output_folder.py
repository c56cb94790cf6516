"""Sets in another form and exports: the same rows in the same order, all files or none."""

import os
import shutil

import pytest

from clozeline.errors import StorageError
from clozeline.files import publish_json, temporary_path
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.shards import open_shards
from clozeline.tools.output_folder import new_folder
from clozeline.tools.shards.provenance.row_search import blocks_of
from clozeline.tools.shards.repack_shards import main as repack_shards
from clozeline.tools.shards.repack_shards import repack
from clozeline.tools.shards.validate_shards import main as validate_shards
from tests.refusals import refused
from tests.shard_sets import damage, toy_set
from tests.tools.small_run import example_sets


def break_off_after(monkeypatch, files, error):
    """Let the `files`-th file that is published, and all after it, fail."""
    published = Output.file
    done = []

    def file(self, relative):
        done.append(relative)
        if len(done) >= files:
            raise error
        return published(self, relative)

    monkeypatch.setattr(Output, "file", file)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(28, "No space left on device"), 74),
        (KeyboardInterrupt(), 130),
    ],
)
def test_nothing_half_written_is_left(tmp_path, monkeypatch, capsys, error, code):
    source = toy_set(tmp_path / "set", [5, 3])
    break_off_after(monkeypatch, 2, error)
    output = tmp_path / "new" / "folder"
    words = [str(source.path), "--output", str(output)]

    assert repack_shards(words) == code
    assert not output.parent.exists()

    output.mkdir(parents=True)

    assert repack_shards(words) == code
    assert not [*output.iterdir()]
    assert len(capsys.readouterr().err.splitlines()) == 2

    monkeypatch.undo()

    assert repack_shards(words) == 0
    assert {path.name for path in output.iterdir()} >= {"manifest.json", "index.arrow"}


def test_a_folder_gets_its_name_once_it_is_complete(tmp_path):
    target = tmp_path / "new" / "out"

    def break_off(error):
        with new_folder(target) as folder:
            (folder / "a").touch()
            raise error

    for error, raised in (
        (OSError(28, "full"), StorageError),
        (OSError(2, "gone", "a file that was read"), FileNotFoundError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ):
        with pytest.raises(raised):
            break_off(error)
        assert not target.parent.exists()

    with new_folder(target) as folder:
        (folder / "deep").mkdir()
        (folder / "deep" / "a").write_text("mine")
        assert not target.exists()

    assert (target / "deep" / "a").read_text() == "mine"
    assert [path.name for path in target.parent.iterdir()] == ["out"]


def files_below(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def write(target, name="a"):
    with new_folder(target) as folder:
        (folder / name).touch()


@pytest.mark.parametrize("exists", [False, True])
def test_another_process_and_files_of_others(tmp_path, exists):
    """A process that runs is waited for, one that was killed leaves remains, others own files."""
    target = tmp_path / "out"
    if exists:
        target.mkdir()
    unfinished = temporary_path((target if exists else tmp_path) / ".out")

    def of_process(pid):
        path = unfinished.with_name(unfinished.name.replace(f"-{os.getpid()}-", f"-{pid}-"))
        path.mkdir()
        (path / "a").touch()
        publish_json(path / ".moved.json", {"a": None, "b": None})
        return path

    running = of_process(os.getppid())
    with refused(f"process {os.getppid()} .*{running.name}"):
        write(target)
    assert (running / "a").exists()
    shutil.rmtree(running)

    of_process(2**22 + 1)  # killed while files were moved
    if exists:
        (target / "b").touch()
    mine = tmp_path / ".out.partial" / "a"
    mine.parent.mkdir()
    mine.touch()
    (tmp_path / ".out.tmp").touch()
    write(target)

    assert files_below(tmp_path) == {"out/a", ".out.partial/a", ".out.tmp"}
    with refused("holds files already: a"):
        write(target, "b")


@pytest.mark.parametrize("exists", [False, True])
def test_the_first_of_two_is_published(tmp_path, exists):
    target, link = tmp_path / "out", tmp_path / "link"
    link.symlink_to(target)
    if exists:
        target.mkdir()

    with refused("holds files already: b"), new_folder(link) as folder:
        (folder / "a").touch()
        target.mkdir(exist_ok=True)
        (target / "b").touch()

    assert files_below(target) == {"b"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "out"]


def test_sets_in_stores_and_empty_paths_are_refused(tmp_path, capsys):
    source = str(toy_set(tmp_path / "set", [5]).path)

    assert repack_shards([source, "--output", ""]) == 64
    assert "expected a value" in capsys.readouterr().err
    assert repack_shards(["s3://bucket/set", "--output", str(tmp_path / "out")]) == 64
    assert "s3://bucket/set: expected a local folder" in capsys.readouterr().err
    assert repack_shards([source, "--output", str(tmp_path / "set")]) == 64
    assert "index.arrow, manifest.json" in capsys.readouterr().err


def test_damaged_blocks_are_left_out_on_request(shard_sets, tmp_path, capsys):
    """A wrong byte in one shard, and a shard that is missing; the rest is a valid set."""
    manifest, samples = example_sets(shard_sets)["masked_lm"]
    shards = open_shards(shutil.copytree(manifest.parent, tmp_path / "set"))
    last = len(shards.manifest.shards) - 1
    lost = [1, *blocks_of(shards, last)]
    kept = [block for block in range(len(shards.index)) if block not in lost]
    uids = [row.fixed["uid"] for block in kept for row in shards.read_block(block)]
    damage(shards, 1)
    shards.shard_path(last).unlink()
    words = [str(shards.path), f"output={tmp_path / 'new'}"]

    assert repack_shards(words) == 65
    assert repack_shards([*words, "damaged=skip"]) == 0

    out = capsys.readouterr().out
    new = open_shards(tmp_path / "new", verify="shard")
    gone = len(shards) - len(uids)

    assert out.count(" left out: expected ") == len(lost)
    assert f"{len(lost)} damaged blocks of {gone} rows left out" in out
    assert [row.fixed["uid"] for row in new] == uids
    assert new.manifest.totals.skipped["damaged_block"] == gone
    assert validate_shards([str(new.path), f"against={samples}"]) == 0


def test_left_out_samples_are_counted_in_tokens(shard_sets, tmp_path):
    """As `group` counts what it drops."""
    _, samples = example_sets(shard_sets)["masked_lm"]
    source = open_shards(shutil.copytree(samples.parent, tmp_path / "set"))
    tokens = int(source.read_block(0).columns["ids"].lengths.sum())
    damage(source, 0)

    assert repack_shards([str(source.path), f"output={tmp_path / 'new'}", "damaged=skip"]) == 0
    assert validate_shards([str(tmp_path / "new")]) == 0
    assert open_shards(tmp_path / "new").manifest.totals.skipped["damaged_block"] == tokens


def test_blocks_that_other_files_number_are_not_left_out(shard_sets, tmp_path, capsys):
    words = [str(shard_sets / "encode"), f"output={tmp_path / 'new'}", "damaged=skip"]

    assert repack_shards(words) == 64
    assert "holds tokens, and other files name their rows by number" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["corrupt/masked_lm/train", "corrupt/span_corruption/train", "encode"]
)
def test_there_and_back_gives_the_same_bytes(shard_sets, tmp_path, name):
    source = open_shards(shard_sets / name)
    block_rows = source.manifest.block_rows
    other = "tar" if source.manifest.container == "arrow" else "arrow"
    repack(source, tmp_path / "there", container=other, codec="none", block_rows=5)
    there = open_shards(tmp_path / "there")
    back = repack(
        there,
        tmp_path / "back",
        container=source.manifest.container,
        codec="zstd",
        level=3,
        block_rows=block_rows,
    )

    assert back.digest == source.digest

    for facts in source.manifest.shards:
        assert (tmp_path / "back" / facts.path).read_bytes() == source.path.with_name(
            facts.path
        ).read_bytes()

    sides = [manifest.model_dump(mode="json") for manifest in (source.manifest, back)]

    assert {name for name in sides[0] if sides[0][name] != sides[1][name]} == {
        "parents",
        "checksum",
    }


def test_a_token_set_keeps_its_tables(shard_sets, tmp_path):
    repack(open_shards(shard_sets / "encode"), tmp_path / "encode", container="tar")
    tables = [
        path
        for name in ("documents-*", "token_*")
        for path in (shard_sets / "encode").glob(f"{name}.arrow")
    ]

    assert len(tables) == 3

    for path in tables:
        assert (tmp_path / "encode" / path.name).read_bytes() == path.read_bytes()


def test_damage_is_not_carried_over(shard_sets, tmp_path, capsys):
    folder = shutil.copytree(example_sets(shard_sets)["masked_lm"][0].parent, tmp_path / "damaged")
    shard = sorted(folder.glob("shard-*"))[2]
    content = bytearray(shard.read_bytes())
    content[20] ^= 1  # in the schema, which no block's hash holds
    shard.write_bytes(content)

    assert repack_shards([str(folder), "--output", str(tmp_path / "out")]) == 65
    assert f"{shard}: expected SHA-256" in capsys.readouterr().err
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert not list((tmp_path / "out").glob("*.tmp"))
