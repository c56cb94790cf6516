"""The manifest: what is written is read, and nothing else; the digest is that of the content."""

import json
import tracemalloc

import pytest

from clozeline.errors import NewerFormatError
from clozeline.pipeline.shards import (
    Manifest,
    ManifestError,
    base_columns,
    open_shards,
)
from clozeline.pipeline.shards.manifest import check_entries, read_regular
from tests.shard_sets import IDS, TOKENIZER, change_manifest, objective, toy_set


def test_what_is_written_is_read(tmp_path):
    shards = toy_set(
        tmp_path,
        [10, 3],
        codec="zstd",
        parents=[
            {
                "name": "toy",
                "digest": "d",
                "role": "samples",
            }
        ],
    )
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


def at(*path, drop=False, **changes):
    """Return a change of the part of a manifest at a path: keys set, or the last step dropped."""

    def change(manifest):
        *steps, last = path if drop else (*path, None)
        for step in steps:
            manifest = manifest[step]
        if drop:
            manifest.pop(last)
        else:
            manifest.update(changes)

    return change


PATHS = ("../secret", "/etc/passwd", "http://example.com/x", "a\\b", "a//b")
COLUMN = ("columns", -1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (at(colour="red"), "colour: Extra inputs"),
        (at("format", drop=True), "format: Field required"),
        *((at(format=value), "format") for value in (0, True)),
        *((at(seed=value), "seed") for value in (-1, 2**63, 1.0)),
        (at(kind="pictures"), "kind"),
        *((at("shards", 0, path=path), "relative") for path in PATHS),
        (at("index", path="../index.arrow"), "relative"),
        *((at("shards", 0, rows=value), "rows") for value in (2**63, -1, True)),
        (at("totals", samples=5), "the totals are 2 shards with .*5"),
        (at("totals", shards=9), "the totals are 9"),
        (at(max_block_bytes=2**31), "max_block_bytes"),
        (at("tokenizer", "vocab_size", drop=True), "vocab_size"),
        (at("shards", 1, path="shard-00000-of-00002.arrow"), "is listed twice"),
        (at("columns", 0, arrow_type="string"), "unknown type"),
        (at("columns", 0, arrow_type=["uint8"]), "columns.0: column uid: expected strings"),
        (at("columns", 0, color="red"), "columns.0: .*color"),
        (at("columns", 0, "description", drop=True), "columns.0: .*description"),
        (at(*COLUMN, "role", drop=True), "a list needs a role"),
        (at(*COLUMN, role={"use": "ids", "of": "x"}), "there is no list column x"),
        (at(*COLUMN, role={"use": "dream"}), "expected a use of ids, position"),
        (at(*COLUMN, role={"use": "start"}), "starts with `of`"),
        (lambda m: m["columns"].append(m["columns"][-1]), "columns: a column is listed twice"),
        (at("columns", 1, drop=True), "the first columns of examples must be uid, variant"),
        (at(objective=None), "a set of examples must have an objective"),
        (at(kind="samples"), "a set of samples must have no objective"),
        (at("tokenizer", special_ids={"pad": 1000}), "special id 1000 is not below"),
        (at("tokenizer", sentinels=[-1]), "special id -1 is not below"),
        (at("objective", "frame", decoder_start=1000), "decoder_start 1000 is not below"),
        (at("totals", tokens_by_language={"en": -1}), "tokens_by_language"),
        (at(parents=[{"name": "a", "digest": "b", "role": "c"}] * 1001), "parents: .*at most 1000"),
        (at("index", sha256="../../secret"), "index.sha256"),
        (
            lambda m: m["totals"].update(blocks=2**62) or m["shards"][0].update(blocks=2**62 - 1),
            "at least",
        ),
        (at("index", sha256="0" * 64), "expected SHA-256 000"),
        (at("index", bytes=1), "the limit is 1"),
        (at(block_rows=5), "5 rows in block 0, got 4"),
        (lambda m: m["shards"].reverse(), "in order"),
        (
            lambda m: (
                m["shards"][0].update(bytes=700),
                m["totals"].update(bytes=700 + m["shards"][1]["bytes"]),
            ),
            "lies outside",
        ),
    ],
)
def test_a_wrong_manifest_is_refused(tmp_path, change, message):
    toy_set(tmp_path, [10, 3])
    change_manifest(tmp_path, change)
    with pytest.raises(ManifestError, match=message):
        open_shards(tmp_path)


@pytest.mark.parametrize("changes", [{}, {"kind": "dreams", "more": 1}])
def test_a_manifest_of_a_newer_version_is_told_from_a_wrong_one(tmp_path, changes):
    toy_set(tmp_path, [10, 3])
    change_manifest(tmp_path, at(format=2, **changes))

    with pytest.raises(
        NewerFormatError,
        match=r"manifest\.json: a newer version wrote this file \(format 2, this version reads for",
    ):
        open_shards(tmp_path)

    path = tmp_path / "manifest.json"
    path.write_text(path.read_text().replace('"format": 2', '"format": 3'))
    with pytest.raises(ManifestError, match="format: Input should be less than or equal to 1"):
        open_shards(tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("hash of first", "Hash of first"),
        ('"seed": 1,', '"seed": 7,\n "seed": 1,'),
        (r"caf\u00e9", "caf\N{LATIN SMALL LETTER E WITH ACUTE}"),
        ("\n}\n", "\n}\n\n"),
    ],
)
def test_another_spelling_of_the_same_is_refused(tmp_path, old, new):
    """A reader that takes the first of two keys, or a flipped bit that changes case alone, cannot
    pass unseen."""
    toy_set(
        tmp_path,
        [10],
        objective=objective("decoder", rate=1e-7, text="caf\N{LATIN SMALL LETTER E WITH ACUTE}"),
    )

    path = tmp_path / "manifest.json"
    text = path.read_text()

    assert old in text

    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ManifestError, match="changed since it was written"):
        open_shards(tmp_path)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_no_number_is_not_one(tmp_path, value):
    with pytest.raises(ManifestError, match="the manifest would"):
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

    for depth in (300, 980, 100_000):
        for text in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth):
            (tmp_path / "manifest.json").write_text(text)
            with pytest.raises(
                ManifestError, match=r"not the manifest.*(recursion|nested too deeply)"
            ):
                open_shards(tmp_path)


@pytest.mark.parametrize(
    "raw", [b"", b"{}", b"[]", b"\xff\xfe", b'{"format": 1', b"\xef\xbb\xbf{}", b"9" * 5000]
)
def test_what_is_no_manifest(tmp_path, raw):
    (tmp_path / "manifest.json").write_bytes(raw)
    with pytest.raises(ManifestError, match="not the manifest"):
        open_shards(tmp_path)


def test_a_huge_manifest_is_not_parsed_and_none_written(tmp_path, monkeypatch):
    with (tmp_path / "manifest.json").open("wb") as file:
        file.truncate((64 << 20) + 1)
    tracemalloc.start()
    with pytest.raises(ManifestError, match="the limit is 67108864"):
        open_shards(tmp_path)

    assert tracemalloc.get_traced_memory()[1] < 1 << 20

    tracemalloc.stop()
    (tmp_path / "ten").write_bytes(bytes(10))

    assert read_regular(tmp_path / "ten", 10) == bytes(10)

    with pytest.raises(ManifestError, match="10 bytes, the limit is 9"):
        read_regular(tmp_path / "ten", 9)
    raw = json.dumps(list(range(101))).encode()
    check_entries("here", raw, 100)
    with pytest.raises(ManifestError, match="here: about 100 entries, the limit is 99"):
        check_entries("here", raw, 99)
    monkeypatch.setattr("clozeline.pipeline.shards.writer.SIZE_LIMIT", 3000)
    toy_set(tmp_path / "small", [3])

    for changes, said in (
        ({"config": {"notes": "x" * 1500}}, "bytes, the limit is 3000"),
        ({"colour": "red"}, "colour"),
    ):
        with pytest.raises(ManifestError, match=said):
            toy_set(tmp_path / "other", [3], **changes)
        assert not (tmp_path / "other/manifest.json").exists()


# The digest
# --------------------------------------------------------------------------------------------------


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


PREDICTED = {
    name: {**objective("decoder")["frame"], "predict_from": name} for name in ("same", "previous")
}


@pytest.mark.parametrize(
    ("options", "moves"),
    [
        ({"codec": "zstd"}, True),
        ({"container": "tar"}, True),
        ({"block_rows": 5}, True),
        ({"tokenizer": {**TOKENIZER, "fingerprint": "0"}}, True),
        ({"row_length": 9}, True),
        ({"objective": {**objective("decoder"), "frame": PREDICTED["previous"]}}, True),
        # labels predicted at their own place are not written down
        ({"objective": {**objective("decoder"), "frame": PREDICTED["same"]}}, False),
    ],
)
def test_content_moves_the_digest(tmp_path, options, moves):
    first = toy_set(tmp_path / "a", [10, 3])
    other = toy_set(tmp_path / "b", [10, 3], **options)

    assert (first.digest != other.digest) == moves

    texts = [(tmp_path / name / "manifest.json").read_text() for name in "ab"]

    assert (texts[0] != texts[1]) == moves

    frame = options.get("objective", {}).get("frame", {})

    assert other.manifest.objective.frame.predict_from == frame.get("predict_from", "same")
