"""Opening a set: files that contradict the manifest, are missing, damaged, endless,
or no set at all."""

import os

import pytest

from clozeline.errors import StorageError
from clozeline.pipeline.shards import DamagedBlock, Manifest, ManifestError, open_shards
from tests.shard_sets import toy_set, uids


@pytest.mark.parametrize("container", ["arrow", "tar"])
def test_bytes_outside_the_blocks_are_checked_with_the_whole_file(tmp_path, container):
    shards = toy_set(tmp_path, [9], container=container)
    path = shards.shard_path(0)
    whole = path.read_bytes()
    for byte in (0, 9, 100, len(whole) - 1):
        broken = bytearray(whole)
        broken[byte] ^= 4
        path.write_bytes(broken)
        uids(open_shards(tmp_path))  # the stream never reads these bytes
        with pytest.raises(ManifestError, match="SHA-256"):
            open_shards(tmp_path, verify="shard")

    path.write_bytes(whole)
    open_shards(tmp_path, verify="shard")


def test_missing_files(tmp_path):
    shards = toy_set(tmp_path, [4, 4])
    shards.shard_path(1).unlink()
    with pytest.raises(ManifestError, match=r"shard-00001-of-00002\.arrow.*the file is missing"):
        open_shards(tmp_path)
    with pytest.raises(DamagedBlock, match="No such file"):
        open_shards(tmp_path, check_files=False).read_block(1)
    (tmp_path / "index.arrow").unlink()
    with pytest.raises(ManifestError, match=r"index\.arrow"):
        open_shards(tmp_path)


def test_where_no_manifest_is_the_message_says_what_is_there(tmp_path):
    for name in ("train", "heldout"):
        toy_set(tmp_path / "corrupt" / "masked_lm" / name, [1])
    for folder in (tmp_path / "corrupt" / "masked_lm", tmp_path / "corrupt"):
        with pytest.raises(
            StorageError, match=r"; there are sets in \S+/masked_lm/heldout, \S+/masked_lm/train$"
        ):
            Manifest.load(folder)

    (tmp_path / "corrupt" / "masked_lm" / "train" / "manifest.json").unlink()
    with pytest.raises(StorageError, match=r"it is written last: wait until this set is finished$"):
        Manifest.load(tmp_path / "corrupt" / "masked_lm" / "train")
    for missing in (tmp_path, tmp_path / "nowhere", tmp_path / "nowhere" / "manifest.json"):
        with pytest.raises(StorageError, match=r"cannot be read \(No such file or directory\)$"):
            Manifest.load(missing)


@pytest.mark.parametrize("name", ["posts.parquet", "posts.jsonl", "texts"])
def test_texts_in_place_of_a_set_are_answered_with_the_command_that_makes_one(tmp_path, name):
    path = tmp_path / name
    if path.suffix:
        path.write_text('{"text": "one"}\n')
    else:
        path.mkdir()
        (path / "a.txt").write_text("one")

    with pytest.raises(ManifestError if path.suffix else StorageError) as caught:
        open_shards(path)
    said = str(caught.value)

    assert said.startswith(
        f"{path}: not the manifest" if path.suffix else f"{path}/manifest.json: not a shard set"
    )
    assert f"`clozeline pipeline --config recipe:demo input={path} output=shards`" in said
    assert "shards/corrupt/masked_lm/train" in said


@pytest.mark.parametrize("is_there", [True, False])
def test_a_set_that_no_pipeline_has_made_is_answered_with_that_pipeline(tmp_path, is_there):
    project = tmp_path / "my project"
    project.mkdir()
    recipe = project / "pipeline.yaml"
    if is_there:
        recipe.write_text("")
    with pytest.raises(StorageError) as caught:
        open_shards(project / "data/group/packed/train/manifest.json")
    assert (f"`clozeline pipeline --config '{recipe}'`" in str(caught.value)) == is_there


# Pipes, devices, and lists without end
# --------------------------------------------------------------------------------

KINDS = {
    "got a pipe": os.mkfifo,
    "Is a directory": os.mkdir,
    "got a device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["manifest.json", "index.arrow"])
def test_what_is_not_a_regular_file_is_refused(tmp_path, name, kind):
    """A pipe without a writer would be waited for, and a device read until memory is full."""
    toy_set(tmp_path, [9, 4])
    (tmp_path / name).unlink(missing_ok=True)
    KINDS[kind](tmp_path / name)

    with pytest.raises((ManifestError, StorageError), match=rf"{name}: .*{kind}"):
        open_shards(tmp_path)
