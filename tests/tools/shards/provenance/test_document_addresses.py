"""Where a document is: in shards, variants, and the batches of a run."""

import json
import shutil

import numpy as np
import pytest

from clozeline.pipeline.ingest.documents.files import Rejection, write_rejects
from clozeline.pipeline.rows import Ragged
from clozeline.pipeline.shards import open_shards
from clozeline.tools.runs.data.feed import Feed
from clozeline.tools.shards.explain_batch import explain
from clozeline.tools.shards.provenance.document_table import rejections_at
from clozeline.tools.shards.where_is import document_rows, row_reads
from clozeline.tools.shards.where_is import main as where_is
from clozeline.train.data.stream.phases import as_phases
from tests.shard_sets import IDS, list_column, rows, toy_set, write_set
from tests.tools.shards.provenance.read_runs import run_directory
from tests.tools.small_run import documents, example_sets


def test_each_variant_is_found_in_its_shard(shard_sets, capsys):
    manifest = example_sets(shard_sets)["masked_lm"][0]
    shards = open_shards(manifest)
    uid = int(shards.read_block(5).fixed["uid"][3])

    assert where_is([str(manifest), "--uid", f"{uid:016x}", "--json"]) == 0

    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert sorted(one["variant"] for one in found) == [0, 1]

    for one in found:
        again = explain(Feed(as_phases(shards), 0, 64, 64), one["samples"])[one["place"]]
        assert again["sample"] == f"{uid:016x}"
        assert [again[name] for name in ("variant", "shard", "block", "row", "lane")] == [
            one[name] for name in ("variant", "shard", "block", "row", "lane")
        ]

    assert (
        where_is(
            [str(manifest), "--uid", f"{uid:x}", "--variant", "1", "--epoch", "7", "--epochs", "2"]
        )
        == 0
    )

    out = capsys.readouterr().out

    assert [line.split(":")[0] for line in out.splitlines()] == ["epoch 7", "epoch 8"]
    assert out.count("variant 1; masked_lm/train, shard-0000") == 2


def test_samples_that_the_stream_corrupts_have_a_variant_an_epoch(shard_sets, tmp_path, capsys):
    samples = example_sets(shard_sets)["masked_lm"][1]
    run = run_directory(tmp_path, samples, 0, data__corrupt={"name": "masked_lm", "max_length": 48})
    uid = f"{int(open_shards(samples).read_block(1).fixed['uid'][2]):x}"

    assert (
        where_is(
            [
                "--run",
                str(run),
                "--uid",
                uid,
                "--epoch",
                "65534",
                "--epochs",
                "4",
                "--json",
            ]
        )
        == 0
    )

    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert [(one["epoch"], one["variant"]) for one in found] == [
        (65534, 65534),
        (65535, 65535),
        (65536, 0),
        (65537, 1),
    ]


@pytest.mark.parametrize("label", ["masked_lm", "causal_lm", "document_rotation"])
def test_all_readings_of_a_document_are_named(shard_sets, label):
    """A document is in the batches that `explain` shows it in, wherever in a row it begins, and in
    no others."""
    feed = Feed(as_phases(open_shards(example_sets(shard_sets)[label][0])), 3, 4, 8)
    shown = {}

    for samples in range(0, feed.reading.orders[0].lane_rows * 4, 8):
        for facts in explain(feed, samples):
            for document in (
                [facts, *facts["others"]] if "sample" in facts and facts["epoch"] == 0 else ()
            ):
                shown.setdefault(document["document"], set()).add((samples, facts["place"]))

    assert len(shown) > 20

    inside = 0

    for uid, places in shown.items():
        rows, untold = document_rows(feed, [bytes.fromhex(uid)])
        found = {(one["samples"], one["place"]) for one in row_reads(feed, rows, [range(1)])}
        # a row may begin with the separator after a document, and no more of it
        assert found <= places
        assert len(places - found) <= feed.sets[0].manifest.variants
        assert not untold

        own = feed.sets[0].read_block
        inside += sum(
            own(row.block).fixed["document_uid"][row.row].tobytes().hex() != uid for _, row in rows
        )

    assert (inside > 20) == (label != "document_rotation")


def test_dropped_documents_are_found_by_their_address(tmp_path):
    for folder in ("encode", "clean/rejects"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "encode" / "documents-0.arrow").touch()
    urls = ("http://a/1", "http://a/?q=[1]", None)
    rejected = [
        Rejection(bytes(16), "texts.jsonl", 0, 1, "clean", "language", url=url, id=f"n{number}")
        for number, url in enumerate(urls)
    ]
    write_rejects(tmp_path / "clean" / "rejects" / "000000.arrow", rejected)
    manifest = tmp_path / "corrupt" / "manifest.json"

    assert rejections_at(manifest, "url", "http://a/?q=[1]") == rejected[1:2]
    assert rejections_at(manifest, "url", "http://a/*") == rejected[:2]
    assert rejections_at(manifest, "id", "n2") == rejected[2:]
    assert rejections_at(manifest, "id", "n*") == rejected


def test_documents_are_found_by_their_address(shard_sets, tmp_path, capsys):
    manifest = example_sets(shard_sets)["masked_lm"][0]
    known = {document.url: document.uid.hex() for document in documents()}
    url = "http://site.example/3?a=1&b=2"

    assert where_is([str(manifest), "--url", url, "--json"]) == 0

    by_url = capsys.readouterr().out

    assert where_is([str(manifest), "--uid", known[url], "--json"]) == 0
    assert capsys.readouterr().out == by_url
    assert where_is([str(manifest), "--url", url]) == 0

    lines = capsys.readouterr().out.splitlines()

    assert (
        lines[0] == f"document {known[url]}: crawl/page.warc.gz, record at 3,000, 900 long, {url}"
    )
    assert lines[1].endswith(f" samples, {len(by_url.splitlines())} readings")
    assert where_is([str(manifest), "--url", "http://site.example/2*"]) == 0

    out = capsys.readouterr().out

    assert out.count("document ") == sum(one.startswith("http://site.example/2") for one in known)

    copy = shutil.copytree(manifest.parent, tmp_path / "alone")

    assert where_is([str(copy), "--uid", known[url]]) == 0

    note = (
        "not among them: rows in which it starts after another document (no group/ and encode/ "
        "above the set)"
    )

    assert note in capsys.readouterr().out


def test_a_document_is_found_as_the_partner_of_another(tmp_path):
    """Examples of pairs do not say which document the second half is from.

    Their samples do, and labels if it is.
    """
    partner = list_column("partner_document_uid", "uint8")
    sample = rows([1, 2, 3])
    uids = np.stack([np.full(16, value, np.uint8) for value in (7, 8, 7)])
    sample.columns["partner_document_uid"] = Ragged.from_matrix(uids)
    grouping = {"name": "sentence_pair", "options": {"length": 8, "partner": True}}
    samples = write_set(
        tmp_path / "run/group/pairs/train",
        [sample],
        columns=(IDS, partner),
        kind="samples",
        grouping=grouping,
        objective=None,
    )

    parents = [{"name": "pairs/train", "digest": samples.digest, "role": "samples"}]
    pairs = rows([3, 1, 2])
    pairs.columns["sentence_label"] = Ragged.from_lists([[0], [1], [1]], np.uint8)
    label = list_column("sentence_label", "uint8")

    for folder, expected, partners in (
        ("run/corrupt/nsp/train", ([1], ""), [None, "07" * 16, "08" * 16]),
        (
            "alone",
            ([], "pairs of which it is the second segment (no group/ above the set)"),
            [None] * 3,
        ),
    ):
        shards = write_set(
            tmp_path / folder, [pairs], columns=(IDS, label), grouping=grouping, parents=parents
        )
        feed = Feed(as_phases(shards), 0, 1, 3)
        found, untold = document_rows(feed, [bytes([7] * 16)])

        assert (sorted(row.uid for _, row in found), untold) == expected

        shown = sorted(explain(feed, 0), key=lambda one: one["row"])

        assert [one.get("partner", {}).get("document") for one in shown] == partners
        assert [one["sentence_label"] for one in shown] == [0, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--uid", "xyz"],
            "expected up to 16 hexadecimal digits of a sample, or the 32 of a document, got 'xyz'",
        ),
        (["--uid", "ffff"], "uid=000000000000ffff: no such sample in"),
        (["--uid", "1", "--variant", "3"], "no variant 3 of it is read in epochs 0 to 0 of"),
        (["--url", "http://x"], "no document with this url in encode/documents-*.arrow above"),
        (["--uid", "f" * 32], "no row of"),
        (["--id", "a-7", "--url", "http://x"], "expected one of uid=UID, url=URL and id=ID"),
    ],
)
def test_wrong_use_of_where_is_ends_in_one_message(tmp_path, capsys, arguments, message):
    assert where_is([str(toy_set(tmp_path, [9]).path), *arguments]) == 64
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
