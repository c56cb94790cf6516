import gzip
import json
from types import SimpleNamespace

from clozeline import plugins
from clozeline.pipeline.execution import shuffle
from clozeline.pipeline.execution.executors import _executor
from clozeline.pipeline.execution.executors.local import Local
from clozeline.pipeline.execution.recipe_command import main as run_recipe
from clozeline.pipeline.execution.runner import describe_memory
from clozeline.pipeline.execution.shuffle import PieceFile
from clozeline.pipeline.recipe import ExecutorConfig
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tokenize.encode import sorted_runs as runs
from clozeline.pipeline.tokenize.encode import stage as encode_stage
from clozeline.pipeline.tokenize.tokenizers import find_tokenizer, load_tokenizer
from clozeline.seeding import order_key
from tests.pipeline.token_sets import files_of
from tests.pipeline.tokenize.encode import encode_passes as passes
from tests.refusals import refused


def test_every_document_is_there_and_decodes_to_its_text(encoded, tokenizer):
    model = load_tokenizer(tokenizer)
    found = passes.token_rows(encoded)
    wanted = passes.documents(passes.COUNT)

    assert len(found) == passes.COUNT == len(open_shards(encoded))

    for document in wanted:
        shard, ids, _, language, group = found[document.uid]
        assert model.decode(ids) == document.text
        assert (language, group) == (document.language, document.source_group)
        assert shard == order_key(document.uid, "order", passes.SEED) * passes.SHARDS >> 64


def test_bytes_do_not_depend_on_order_parts_or_flushes(
    source, tokenizer, encoded, tmp_path, monkeypatch
):
    expected = files_of(encoded)
    options = {"shards": passes.SHARDS}
    passes.encode(source, tmp_path / "reverse", tokenizer, **options, order=reversed)

    assert files_of(tmp_path / "reverse") == expected

    two = passes.write_parts(tmp_path / "clean", passes.documents(passes.COUNT), 2)
    passes.encode(two, tmp_path / "parts", tokenizer, shards=passes.SHARDS)

    assert files_of(tmp_path / "parts") == expected

    monkeypatch.setattr(runs, "_FLUSH_BYTES", 2000)
    passes.encode(source, tmp_path / "small", tokenizer, **options)

    assert files_of(tmp_path / "small") == expected

    with PieceFile(tmp_path / "small", "tmp/runs/000000.pieces") as run:
        assert len(run) > 3 * passes.SHARDS
    monkeypatch.undo()
    monkeypatch.setattr(runs, "_TABLE_BYTES", 1000)
    passes.encode(source, tmp_path / "tables", tokenizer, **options)

    assert files_of(tmp_path / "tables") == expected
    monkeypatch.undo()
    monkeypatch.setattr(shuffle, "_BUNDLE_FILES", 2)
    monkeypatch.setattr(shuffle, "_BUNDLED_OPENS", 4)
    passes.encode(source, tmp_path / "bundles", tokenizer, **options)

    assert len(list((tmp_path / "bundles" / "tmp" / "runs-bundles").iterdir())) == -(
        -passes.PARTS // 2
    )
    assert files_of(tmp_path / "bundles") == expected


def test_a_shard_holds_a_bounded_text_however_its_input_is_stored(tmp_path, monkeypatch, capsys):
    """60,000 bytes of text in a file of a few hundred, and 5,000 in a shard: 12 shards, so 16."""
    texts = [f"{number} " + "one more word " * 143 for number in range(30)]
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    monkeypatch.setattr(encode_stage, "_SHARD_TEXT_BYTES", 5_000)
    keys = [
        "corpus: c",
        "clean: {language: null, filters: []}",
        "encode: {}",
        "executor: {workers: 1}",
    ]
    keys += ["train_tokenizer: {name: byte_bpe, size: 420}", "heldout: {fraction: 0}"]
    (tmp_path / "r.yaml").write_text("\n".join(keys))
    words = ["--config", f"{tmp_path}/r.yaml", f"input={tmp_path}/in.jsonl.gz"]
    text = sum(len(text.strip()) for text in texts)

    assert 12 < text / 5_000 < 16
    for more, shards in (([], 16), (["plan.shard_bytes=4096"], 1)):
        output = tmp_path / str(shards)
        assert run_recipe([*words, f"output={output}", *more]) == 0, capsys.readouterr().err
        assert len(open_shards(output / "encode").manifest.shards) == shards


def test_documents_without_tokens_are_counted(tokenizer, tmp_path):
    found = passes.documents(10)
    found[4] = found[4].replace(text="")
    source = passes.write_parts(tmp_path / "clean", found, 2)
    counts = passes.encode(source, tmp_path / "encode", tokenizer, shards=2)

    assert (counts["documents_in"], counts["documents_out"], counts["rejected"]) == (
        10,
        9,
        {"no_tokens": 1},
    )


def test_the_manifest_leads_to_the_tokenizer(encoded, tokenizer):
    manifest = open_shards(encoded).manifest

    assert (
        find_tokenizer(encoded / "manifest.json", manifest.tokenizer.fingerprint)
        == tokenizer.resolve()
    )
    assert manifest.totals.tokens == sum(manifest.totals.tokens_by_language.values())
    assert manifest.totals.tokens == sum(manifest.totals.tokens_by_source.values())

    with refused("no tokenizer has the fingerprint 00ff"):
        find_tokenizer(encoded / "manifest.json", "00ff")


class Cluster(Local):
    def memory_of_worker(self, units):
        return 1e9 * units, "add a node"


def told(executor, units=8, needed=15.3e9):
    stage = SimpleNamespace(
        name="encode",
        memory=(needed, "plan.shard_bytes"),
        recipe=SimpleNamespace(executor=executor),
    )
    return describe_memory([stage], units).partition("takes up to ")[2]


def test_a_worker_has_the_memory_of_its_cores(monkeypatch):
    """Local workers share the memory of the machine, or of the group that limits it."""
    for name, more in (("slurm", {"partition": "cpu"}), ("ray", {})):
        options = [{"mem_per_cpu_gb": 4, "cpus_per_task": cores, **more} for cores in (1, 4)]
        one, four = (told(ExecutorConfig(name=name, options=each)) for each in options)

        assert four == "15.3 GB (in encode), and has 17.2 GB"
        assert one == (
            "15.3 GB (in encode), and has 4.3 GB: raise executor.options.mem_per_cpu_gb, or lower "
            "plan.shard_bytes"
        )

    monkeypatch.setattr(_executor, "find_memory", lambda: 32 * 10**9)

    assert told(ExecutorConfig(workers=2)).endswith("has 16.0 GB")
    assert told(ExecutorConfig(workers=4), 2).endswith("has 16.0 GB"), "no more workers than units"
    assert "has 8.0 GB: lower executor.workers" in told(ExecutorConfig(workers=4))

    plugins.allow(f"{__name__}:Cluster")
    own = ExecutorConfig(name=f"{__name__}:Cluster")

    assert "15.3 GB (in encode), and has 8.0 GB: add a node, or lower" in told(own)
    assert told(own, 16).endswith("16.0 GB")


def long_words(folder, known, unknown):
    """Documents of words that a WordPiece spells, and of words of 300 letters, which it does not
    read."""
    texts = [("en", "the quick brown fox " * 15)] * known + [("und", "abc" * 100)] * unknown
    found = passes.documents(len(texts))
    for number, (language, text) in enumerate(texts):
        found[number] = found[number].replace(text=text, language=language)
    source = passes.write_parts(folder / "clean", found, 2)
    passes.train(source, folder / "train_tokenizer", name="wordpiece", size=250)
    return source, folder / "train_tokenizer" / "tokenizer"


def test_unknown_characters_are_counted_by_language_and_told(tmp_path, caplog):
    source, tokenizer = long_words(tmp_path, 18, 2)
    counts = passes.encode(source, tmp_path / "encode", tokenizer, shards=2)

    assert counts["unknown_text"] == {
        "en": {
            "characters": 18 * 300,
            "tokens": counts["tokens_by_language"]["en"],
            "unknown_characters": 0,
            "unknown_tokens": 0,
        },
        "und": {"characters": 600, "tokens": 2, "unknown_characters": 600, "unknown_tokens": 2},
    }
    assert counts["unknown_reasons"] == {"words too long for the tokenizer": 600}

    (record,) = [record for record in caplog.records if record.message.startswith("encode: ")]
    said = record.message

    assert "unknown: 2 tokens for 600 characters (10.0 %): und 100.0 %" in said
    assert "(300 characters, at most 200)" in said
    assert "train byte_bpe" in said


def test_both_sides_of_pairs_are_counted(tmp_path):
    source, tokenizer = long_words(tmp_path, 10, 0)
    found = passes.documents(2)
    found[0] = found[0].replace(
        text="the fox", language="en", target_text="ж" * 9, target_language="ru"
    )
    found[1] = found[1].replace(
        text="ж fox", language="en", target_text="the", target_language=None
    )
    source = passes.write_parts(tmp_path / "pairs", found, 1)
    counts = passes.encode(source, tmp_path / "encode", tokenizer, shards=1)
    unknown = {name: text["unknown_characters"] for name, text in counts["unknown_text"].items()}

    assert unknown == {"en": 1, "ru": 9, "und": 0}


def test_more_than_half_unknown_is_an_error_unless_a_key_allows_it(tmp_path):
    source, tokenizer = long_words(tmp_path, 9, 11)

    with refused(r"55\.0 % of .* limit is 50\.0 %(.|\n)*raise encode\.max_unknown"):
        passes.encode(source, tmp_path / "encode", tokenizer, shards=2, max_unknown=0.5)

    passes.encode(source, tmp_path / "allowed", tokenizer, shards=2, max_unknown=0.55)
    one = [passes.documents(1)[0].replace(text=f"{'the fox ' * 99}ж", language="en")]
    source = passes.write_parts(tmp_path / "one", one, 1)
    with refused(r"0\.1 % of .* limit is 0\.0 %"):
        passes.encode(source, tmp_path / "none", tokenizer, shards=1, max_unknown=0.0)
