from collections import Counter

import pyarrow as pa
import pytest

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.shards.layout import is_heldout
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.seeding import order_key
from tests.pipeline.tokenize.encode import encode_passes as passes


def test_documents_table_says_where_each_row_came_from(encoded):
    by_uid = {document.uid: document for document in passes.documents(passes.COUNT)}
    found = passes.token_rows(encoded)
    uids = []

    for shard in range(passes.SHARDS):
        path = encoded / f"documents-{shard:05d}-of-{passes.SHARDS:05d}.arrow"
        for row in pa.ipc.open_file(path).read_all().to_pylist():
            for name in ("source", "offset", "length", "url", "language"):
                assert row[name] == getattr(by_uid[row["uid"]], name)
            assert row["tokens"] == len(found[row["uid"]][1])
            uids.append(row["uid"])

    assert (
        uids
        == list(found)
        == sorted(uids, key=lambda uid: (order_key(uid, "order", passes.SEED), uid))
    )


TWICE = [*passes.documents(6), passes.documents(6)[2]]
LANGUAGES = [
    document.replace(language=f"x{number:03d}")
    for number, document in enumerate(passes.documents(256))
]


@pytest.mark.parametrize(
    ("found", "error", "said"),
    [
        (TWICE, IntegrityError, TWICE[2].uid.hex()),
        ([], ConfigurationError, "there are no documents to encode"),
        (LANGUAGES, ConfigurationError, "256 languages"),
    ],
    ids=["one uid twice", "none", "languages"],
)
def test_documents_that_make_no_set(tokenizer, tmp_path, found, error, said):
    source = passes.write_parts(tmp_path / "clean", found, 2)
    with pytest.raises(error, match=said):
        passes.encode(source, tmp_path / "encode", tokenizer, shards=1)


def test_held_out_copies_of_training_texts_are_counted_over_all_shards(tokenizer, tmp_path):
    found = [
        document.replace(text=passes.text(n // 3, 2))
        for n, document in enumerate(passes.documents(60))
    ]
    counts = passes.encode(
        passes.write_parts(tmp_path / "clean", found, 2), tmp_path / "encode", tokenizer, shards=3
    )
    sides = {True: [], False: []}
    for document in found:
        sides[is_heldout(document.uid, passes.HELDOUT, passes.SEED)].append(document.text)
    copies = sum(text in sides[False] for text in sides[True])

    assert 0 < copies < len(sides[True])
    assert counts["held_out"]["documents"] == len(sides[True])
    assert counts["held_out"]["copies"] == copies


def test_codes_are_places_in_the_sorted_names_and_other_sides_are_counted(tokenizer, tmp_path):
    found = [
        document.replace(
            target_text=passes.text(500 + number, 2), target_language="fr" if number % 3 else None
        )
        for number, document in enumerate(passes.documents(12))
    ]

    found[5] = found[5].replace(target_text=None)
    source = passes.write_parts(tmp_path / "clean", found, 2)
    passes.encode(source, tmp_path / "encode", tokenizer, shards=1)
    tokens = open_shards(tmp_path / "encode")

    assert tokens.manifest.languages == ("de", "en", "fr", "und", "zh")
    assert tokens.manifest.source_groups == ("books", "crawl")

    model = load_tokenizer(tokenizer)
    by_uid = {document.uid: document for document in found}
    counted = Counter()

    for row in tokens.read_block(0):
        uid = row.fixed["document_uid"].tobytes()
        document = by_uid[uid]

        assert model.decode(row["target_ids"]) == (document.target_text or "")

        names = [tokens.manifest.languages[code] for code in row["target_language"]]

        assert names == (
            [] if document.target_text is None else [document.target_language or "und"]
        )

        if not is_heldout(uid, passes.HELDOUT, passes.SEED):
            counted.update(
                [
                    *row["token_ids"].tolist(),
                    *row["target_ids"].tolist(),
                ]
            )

    table = pa.ipc.open_file(tmp_path / "encode" / "token_counts.arrow").read_all().to_pydict()

    assert Counter(dict(zip(table["id"], table["count"], strict=True))) == counted
