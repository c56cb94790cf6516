import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from clozeline.errors import NewerFormatError, StorageError
from clozeline.pipeline.shards import Manifest, ManifestError, base_columns, open_shards
from tests.shard_sets import IDS, TOKENIZER, change_manifest, objective, toy_set

Change = Callable[[dict[str, Any]], None]


def test_what_is_written_is_read(tmp_path):
    shards = toy_set(tmp_path, [10, 3], codec="zstd", parents=[{"name": "toy", "digest": "d", "role": "samples"}])
    manifest = Manifest.load(tmp_path / "manifest.json")
    assert manifest == Manifest.load(tmp_path) == shards.manifest
    assert manifest.totals.model_dump() == {
        "samples": 13,
        "tokens": 104,
        "blocks": 4,
        "shards": 2,
        "bytes": sum(path.stat().st_size for path in tmp_path.glob("shard-*")),
        "tokens_by_language": {},
        "tokens_by_source": {},
        "skipped": {},
    }
    assert manifest.max_length == 8
    assert (manifest.compression.codec, manifest.compression.level) == ("zstd", 3)
    assert shards.columns == (*base_columns(), IDS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(colour="red"), "colour: Extra inputs"),
        (lambda m: m.update(block_rows="4"), "block_rows"),
        (lambda m: m.update(format=0), "format: Input should be greater than or equal to 1"),
        (lambda m: m.pop("format"), "format: Field required"),
        (lambda m: m.update(format=True), "format"),
        (lambda m: m.update(seed=-1), "seed"),
        (lambda m: m.update(seed=2**63), "seed"),
        (lambda m: m.update(seed=1.0), "seed"),
        (lambda m: m.update(kind="pictures"), "kind"),
        (lambda m: m["shards"][0].update(path="../secret"), "relative"),
        (lambda m: m["shards"][0].update(path="/etc/passwd"), "relative"),
        (lambda m: m["shards"][0].update(path="http://example.com/x"), "relative"),
        (lambda m: m["shards"][0].update(path="a\\b"), "relative"),
        (lambda m: m["shards"][0].update(path="a//b"), "relative"),
        (lambda m: m["index"].update(path="../index.arrow"), "relative"),
        (lambda m: m["shards"][0].update(rows=2**63), "rows"),
        (lambda m: m["shards"][0].update(rows=-1), "rows"),
        (lambda m: m["totals"].update(samples=5), "totals say 2 with .*5"),
        (lambda m: m["totals"].update(shards=9), "totals say 9"),
        (lambda m: m.update(max_block_bytes=2**31), "max_block_bytes"),
        (lambda m: m["tokenizer"].pop("vocab_size"), "vocab_size"),
        (lambda m: m["shards"][1].update(path=m["shards"][0]["path"]), "one twice"),
        (lambda m: m["columns"][0].update(arrow_type="string"), "unknown type"),
        (lambda m: m["columns"][0].update(arrow_type=["uint8"]), "columns.0: column uid: expected texts"),
        (lambda m: m["columns"][0].update(color="red"), "columns.0: .*color"),
        (lambda m: m["columns"][0].pop("description"), "columns.0: .*description"),
        (lambda m: m["columns"][-1].pop("role"), "a list has a role"),
        (lambda m: m["columns"][-1].update(role={"use": "ids", "of": "x"}), "there is no list column x"),
        (lambda m: m["columns"][-1].update(role={"use": "dream"}), "expected a use of ids, position"),
        (lambda m: m["columns"][-1].update(role={"use": "start"}), "places with `of`"),
        (lambda m: m["columns"].append(m["columns"][-1]), "columns: a column is listed twice"),
        (lambda m: m["columns"].pop(1), "the first columns of examples are uid, variant"),
        (lambda m: m.update(objective=None), "a set of examples has an objective"),
        (lambda m: m.update(kind="samples"), "a set of samples has no objective"),
        (lambda m: m["tokenizer"].update(special_ids={"pad": 1000}), "special id 1000 is not below"),
        (lambda m: m["tokenizer"].update(sentinels=[-1]), "special id -1 is not below"),
        (lambda m: m["objective"]["frame"].update(decoder_start=1000), "decoder_start 1000 is not below"),
        (lambda m: m["totals"].update(tokens_by_language={"en": -1}), "tokens_by_language"),
        (lambda m: m["totals"].update(skipped={"short": 2**63}), "skipped"),
        (lambda m: m["shards"][0].update(blocks=1.0), "blocks"),
        (lambda m: m["shards"][0].update(rows=True), "rows"),
        (lambda m: m["index"].update(sha256="../../secret"), "index.sha256"),
        (lambda m: m.update(shards=7), "shards"),
        (lambda m: m["totals"].update(blocks=2**62) or m["shards"][0].update(blocks=2**62 - 1), "at least"),
    ],
)
def test_a_wrong_manifest_is_refused(tmp_path, change, message):
    toy_set(tmp_path, [10, 3])
    change_manifest(tmp_path, change)
    with pytest.raises(ManifestError, match=message):
        open_shards(tmp_path)


@pytest.mark.parametrize("change", [lambda m: m.update(format=2), lambda m: m.update(format=2, kind="dreams", more=1)])
def test_a_manifest_of_a_newer_version_is_told_from_a_wrong_one(tmp_path, change):
    toy_set(tmp_path, [10, 3])
    change_manifest(tmp_path, change)
    with pytest.raises(NewerFormatError, match=r"manifest\.json: format 2 of a newer version, this version reads for"):
        open_shards(tmp_path)
    path = tmp_path / "manifest.json"
    path.write_text(path.read_text().replace('"format": 2', '"format": 3'))
    with pytest.raises(ManifestError, match="format: Input should be less than or equal to 1"):
        open_shards(tmp_path)


def test_a_manifest_edited_by_hand_is_refused(tmp_path):
    toy_set(tmp_path, [10])
    path = tmp_path / "manifest.json"
    path.write_text(path.read_text().replace("hash of first", "Hash of first"))
    with pytest.raises(ManifestError, match="changed after it was written"):
        open_shards(tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"seed": 1,', '"seed": 7,\n "seed": 1,'),
        ('"rows": 10', '"rows": 99, "rows": 10'),
        ("1e-07", "1E-07"),
        (r"caf\u00e9", r"caf\u00E9"),
        (r"caf\u00e9", "caf\N{LATIN SMALL LETTER E WITH ACUTE}"),
        ("\n}\n", "\n}\n\n"),
    ],
)
def test_another_spelling_of_the_same_is_refused(tmp_path, old, new):
    """A reader that takes the first of two keys, or a flipped bit that changes case alone, cannot pass unseen."""
    toy_set(tmp_path, [10], objective=objective("decoder", rate=1e-7, text="caf\N{LATIN SMALL LETTER E WITH ACUTE}"))
    path = tmp_path / "manifest.json"
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(ManifestError, match="changed after it was written"):
        open_shards(tmp_path)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_no_number_is_not_one(tmp_path, value):
    with pytest.raises(ManifestError, match="refusing to write"):
        toy_set(tmp_path, [3], config={"rate": value})
    toy_set(tmp_path, [3], config={"rate": 0.5})
    path = tmp_path / "manifest.json"
    path.write_text(path.read_text().replace("0.5", json.dumps(value)))
    with pytest.raises(ManifestError, match="not JSON compliant"):
        open_shards(tmp_path)


def test_what_is_nested_deep_is_refused_without_a_crash(tmp_path):
    value = 1
    for _ in range(190):
        value = [value]
    assert toy_set(tmp_path, [3], config={"deep": value}).manifest.config == {"deep": value}
    path = tmp_path / "manifest.json"
    for depth in (300, 700, 980, 100_000):
        for text in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth):
            path.write_text(text)
            with pytest.raises(ManifestError, match=r"not a manifest.*(recursion|nested too deeply)"):
                open_shards(tmp_path)


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b"\xff\xfe", b'{"format": 1', b"\xef\xbb\xbf{}", b"9" * 5000])
def test_what_is_no_manifest(tmp_path, raw):
    (tmp_path / "manifest.json").write_bytes(raw)
    with pytest.raises(ManifestError, match="not a manifest"):
        open_shards(tmp_path)


def test_a_huge_manifest_is_not_parsed(tmp_path):
    with (tmp_path / "manifest.json").open("wb") as file:
        file.truncate((64 << 20) + 1)
    tracemalloc.start()
    with pytest.raises(ManifestError, match="at most 67108864"):
        open_shards(tmp_path)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_code_config_and_paths_do_not_move_the_digest(tmp_path):
    digest = toy_set(tmp_path, [10, 3]).digest

    def move(manifest):
        manifest.update(config={"executor": {"tasks": 9}}, code={"package_version": "9"})
        for shard in manifest["shards"]:
            old = tmp_path / shard["path"]
            shard["path"] = "moved-" + shard["path"]
            old.rename(tmp_path / shard["path"])

    change_manifest(tmp_path, move)
    assert open_shards(tmp_path).digest == digest


@pytest.mark.parametrize(
    "options",
    [
        {"codec": "zstd"},
        {"container": "tar"},
        {"block_rows": 5},
        {"tokenizer": {**TOKENIZER, "fingerprint": "0"}},
        {"row_length": 9},
    ],
)
def test_content_moves_the_digest(tmp_path, options):
    assert toy_set(tmp_path / "a", [10, 3]).digest != toy_set(tmp_path / "b", [10, 3], **options).digest


def test_where_no_manifest_is_the_message_says_what_is_there(tmp_path):
    for name in ("train", "heldout"):
        toy_set(tmp_path / "corrupt" / "masked_lm" / name, [1])
    for folder in (tmp_path / "corrupt" / "masked_lm", tmp_path / "corrupt"):
        with pytest.raises(StorageError, match=r"; there are sets in \S+/masked_lm/heldout, \S+/masked_lm/train$"):
            Manifest.load(folder)
    (tmp_path / "corrupt" / "masked_lm" / "train" / "manifest.json").unlink()
    with pytest.raises(StorageError, match=r"it is written last: wait until this set is finished$"):
        Manifest.load(tmp_path / "corrupt" / "masked_lm" / "train")
    for missing in (tmp_path, tmp_path / "nowhere", tmp_path / "nowhere" / "manifest.json"):
        with pytest.raises(StorageError, match=r"cannot be read \(No such file or directory\)$"):
            Manifest.load(missing)
