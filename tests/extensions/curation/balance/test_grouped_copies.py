"""Balance and the stages after it: which copies are grouped and corrupted."""

from collections import Counter, defaultdict
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from clozeline.errors import IntegrityError
from clozeline.files import file_hash
from clozeline.pipeline.execution.unit_inputs import SomeShards
from clozeline.pipeline.group.documents import copy_documents, document_order_key, train_documents
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.shards.layout import is_heldout
from tests.extensions.curation.balance.balanced import (
    MLM,
    NAMES,
    SOURCES,
    read_factors,
    run_balanced,
    write_languages,
)
from tests.pipeline.token_sets import all_rows, files_of

HALF = {"alpha": 0.3, "max_copies": 9, "sources": {"books": 0.5}}
DOCUMENTS = "group/document-64-none"


def groups_of(rows):
    """Language and source of the documents for training, by uid."""
    found = {}
    for row, uid in enumerate(uid.tobytes() for uid in rows.fixed["document_uid"]):
        other = rows.columns["target_language"][row].tolist()
        language = "-".join(NAMES[code] for code in (rows.fixed["language"][row], *other))
        if not is_heldout(uid, 0.1, 1):
            found[uid] = f"{language} {SOURCES[rows.fixed['source_group'][row]]}"
    return found


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("balanced")
    write_languages(folder)
    run_balanced(folder, HALF, "balance", "group", "corrupt")
    return folder


def test_every_document_is_grouped_as_often_as_its_factor_says(out):
    tokens = all_rows(out / "encode")
    grouped = all_rows(out / DOCUMENTS / "train")
    factors = read_factors(out)["factors"]
    groups = groups_of(tokens)
    copies = defaultdict(list)

    for uid, copy in zip(
        grouped.fixed["document_uid"], grouped.fixed["copy"].tolist(), strict=True
    ):
        copies[uid.tobytes()].append(copy)

    for uid, group in groups.items():
        least = int(Fraction(factors[group]))
        assert len(copies[uid]) in (least, least + 1)
        assert sorted(copies[uid]) == list(range(len(copies[uid])))

    places = {uid.tobytes(): row for row, uid in enumerate(tokens.fixed["document_uid"])}

    assert len(set(grouped.fixed["uid"].tolist())) == len(grouped), (
        "each copy is corrupted on its own"
    )
    assert set(all_rows(out / DOCUMENTS / "heldout").fixed["copy"].tolist()) == {0}

    for row, uid in enumerate(grouped.fixed["document_uid"]):
        one = places[uid.tobytes()]
        assert grouped.columns["ids"][row].tolist() == tokens.columns["token_ids"][one].tolist()
        assert grouped.fixed["language"][row] == tokens.fixed["language"][one]


def test_copies_are_dealt_like_documents(out):
    """In the order in which documents are packed, copies of one document are beside each other by
    chance alone."""
    tokens = train_documents(SomeShards(open_shards(out / "encode"), (0,)), 0.1, 1)
    rows = copy_documents(tokens, np.full(len(tokens), 3), 1)
    uids = [uid.tobytes() for uid in rows.fixed["document_uid"]]
    copies = rows.fixed["copy"].tolist()

    assert len(rows) == 3 * len(tokens) == len(set(zip(uids, copies, strict=True)))
    assert [
        document_order_key(uid, copy, 1) for uid, copy in zip(uids, copies, strict=True)
    ] == sorted(document_order_key(uid, copy, 1) for uid in set(uids) for copy in range(3))
    assert sum(one == other for one, other in pairwise(uids)) < 10


def test_natural_proportions_give_the_bytes_of_a_run_without_balance(tmp_path):
    """All but the manifests of samples, which name the factors."""
    made = []

    for name, balance in (("with", {"alpha": 1}), ("without", None)):
        write_languages(tmp_path / name)
        run_balanced(
            tmp_path / name, balance, *(["balance"] if balance else []), "group", "corrupt"
        )
        files = files_of(tmp_path / name).items()
        made.append({path: data for path, data in files if path.startswith(("group/", "corrupt/"))})

    found, plain = made

    assert found.keys() == plain.keys()
    assert {name for name in found if found[name] != plain[name]} == {
        f"{DOCUMENTS}/{split}/manifest.json" for split in ("train", "heldout")
    }


def test_units_in_any_order_give_the_same_bytes(out, tmp_path):
    write_languages(tmp_path)
    run_balanced(tmp_path, HALF, "balance", "group", "corrupt", backwards=True)
    for stage in ("balance", "group", "corrupt"):
        assert files_of(tmp_path / stage) == files_of(out / stage)
    _, factors = open_shards(out / DOCUMENTS / "train").manifest.parents
    path = tmp_path / "balance/factors.json"

    assert (factors.name, factors.role, factors.digest) == ("balance", "factors", file_hash(path))

    path.write_text(path.read_text().replace('"en books"', '"en book"'))
    with pytest.raises(IntegrityError, match=r"factors.json.*has changed since 'balance' wrote it"):
        run_balanced(tmp_path, HALF, "group")


def test_copies_are_counted(tmp_path):
    tokens = write_languages(tmp_path, pairs=True)
    pairs = [*MLM, {"name": "translation_lm", "label": "tlm", "max_length": 80}]
    counts = run_balanced(
        tmp_path, {"alpha": 0.3, "max_copies": 2}, "balance", "group", corrupt=pairs
    )
    group = counts["group"]
    train = group["sets"]["document-64-none"]["train"]
    assert train["documents_in"] == counts["balance"]["documents"]

    rows = all_rows(tmp_path / DOCUMENTS / "train")
    copied = {uid.tobytes() for uid in rows.fixed["document_uid"]}
    assert train["left_out"] == len(groups_of(tokens).keys() - copied) > 0

    numbers = Counter(uid.tobytes() for uid in rows.fixed["document_uid"])
    sides = sum(tokens.columns[name].lengths for name in ("token_ids", "target_ids"))
    copies = [numbers[uid.tobytes()] for uid in tokens.fixed["document_uid"]]
    label = "parallel-77-none-cut=longer"
    both = group["sets"][label]["train"]["tokens_in"]
    assert both == copies @ sides == sum(group["sources"][label].values())
