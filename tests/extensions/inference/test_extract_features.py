"""Vectors of texts: framed as in training, whatever the batches; files that are damaged.

Nearest ones by hand.
"""

import json

import numpy as np
import pytest
import torch

from clozeline.errors import IntegrityError
from clozeline.extensions.inference.commands.extract_features import main as extract_features
from clozeline.extensions.inference.commands.neighbors import NeighborOptions, find_neighbors
from clozeline.extensions.inference.commands.neighbors import main as neighbors
from clozeline.extensions.inference.feature_files import (
    FeatureChoice,
    Features,
    open_features,
    write_features,
)
from clozeline.extensions.published.commands.export_model import main as export_model
from clozeline.extensions.published.commands.import_model import main as import_model
from clozeline.files import file_hash
from clozeline.model.scoring.features import token_vectors
from clozeline.tools.runs.inference.text_likelihoods import word_spans
from clozeline.train.checkpoint.trained_model import TrainedModel
from tests.refusals import refused
from tests.train.written_runs import write_run


def lines(path, texts):
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def test_the_manifest_says_where_vectors_come_from(tuned, tmp_path, capsys):
    texts = lines(tmp_path / "texts.jsonl", ["a good film", "a bad plot with no heart"])
    words = [
        str(tuned),
        f"input={texts}",
        f"output={tmp_path}/out",
        "layer=last",
        "pool=token",
        "max_length=7",
    ]

    assert extract_features(words) == 0

    found = open_features(tmp_path / "out")
    facts = found.facts

    assert (facts["layer"], facts["pool"], facts["step"], facts["rows"]) == (
        "last",
        "token",
        6,
        3 + 5,
    )
    assert facts["truncated"] == 1
    assert facts["tokenizer"] == TrainedModel.open(tuned).tokenizer.vocabulary.fingerprint
    assert facts["checkpoint"] == file_hash(tuned / "checkpoints/step-00000006/checkpoint.json")
    assert facts["input"] == {"texts.jsonl": file_hash(texts)}
    assert found.uids == ["texts.jsonl:1"] * 3 + ["texts.jsonl:2"] * 5
    assert extract_features(words) == 64
    assert "holds files already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("layer", "said"), [("12", "expected table, last"), ("scalar_mix", "has learned a mix")]
)
def test_mistakes(tuned, tmp_path, layer, said, capsys):
    texts = lines(tmp_path / "texts.jsonl", ["a good film"])
    out = tmp_path / "out"
    assert extract_features([str(tuned), f"input={texts}", f"output={out}", f"layer={layer}"]) == 64
    assert said in capsys.readouterr().err
    assert not out.exists()


TEXTS = [
    ("a:1", "the page of the book is long é."),
    ("a:2", "a"),
    ("b.txt", "another page, of another book " * 3),
    ("a:4", "book"),
    ("a:5", "Мама мыла раму 我们 喜欢"),
]


def written(run, folder, **changes):
    chosen = FeatureChoice(
        **{"layer": "last", "pool": "mean", "precision": "f32", "max_length": 40} | changes
    )
    write_features(folder, run[1], run[1].objectives[0], TEXTS, chosen, {"step": 3})
    return open_features(folder)


def row_of(trained, text, room):
    """States of a row alone: [CLS], the text, [SEP]."""
    vocabulary = trained.tokenizer.vocabulary
    ids = trained.tokenizer.encode([text])[0].ids[:room].tolist()
    row = torch.tensor([[vocabulary.specials["cls"], *ids, vocabulary.specials["sep"]]])
    places = torch.arange(row.shape[1])[None]

    with torch.no_grad():
        states = trained.model.family(
            {"input_ids": row, "position_ids": places, "lengths": torch.tensor(row.shape[1])}
        )

    return states[0]


@pytest.mark.parametrize("pool", ["cls", "mean", "max", "last"])
def test_texts_in_their_order(encoder, tmp_path, pool):
    found = written(encoder, tmp_path, pool=pool, max_length=12)

    assert found.uids == [name for name, _ in TEXTS]
    assert found.texts == [text for _, text in TEXTS]

    for (_, text), vector in zip(TEXTS, found.vectors, strict=True):
        states = row_of(encoder[1], text, 10)
        plain = {
            "cls": states[0],
            "last": states[-1],
            "mean": states.mean(0),
            "max": states.max(0).values,
        }

        assert np.abs(vector - plain[pool].numpy()).max() < 1e-5

    encoded = encoder[1].tokenizer.encode([text for _, text in TEXTS])

    assert found.facts["truncated"] == sum(len(one.ids) > 10 for one in encoded) > 0


def test_tokens_and_words(encoder, tmp_path):
    trained = encoder[1]
    tokens, words = (
        written(encoder, tmp_path / pool, pool=pool) for pool in ("token", "first_subword")
    )

    for name, text in TEXTS:
        encoded = trained.tokenizer.encode([text])[0]
        states = row_of(trained, text, 38)
        rows = [row for row, uid in enumerate(tokens.uids) if uid == name]

        assert [tokens.positions[row] for row in rows] == list(range(min(38, len(encoded.ids))))
        assert [tokens.texts[row] for row in rows] == [
            trained.tokenizer.piece(int(one)) for one in encoded.ids[:38]
        ]
        assert np.abs(tokens.vectors[rows] - states[1:-1].numpy()).max() < 1e-5
        # a character for each byte
        pieces = [trained.tokenizer.piece(int(one)) for one in encoded.ids]
        holder = [number for number, piece in enumerate(pieces) for _ in piece]
        spans = word_spans(text)
        of_words = [row for row, uid in enumerate(words.uids) if uid == name]
        for row in of_words:
            start, end = spans[words.positions[row]]
            assert words.texts[row] == text[start:end]
            place = holder[len(text[:start].encode())]
            assert np.abs(words.vectors[row] - states[1 + place].numpy()).max() < 1e-5

        assert len(of_words) == len({*(words.positions[row] for row in of_words)}) <= len(spans)

    assert words.texts[:8] == ["the", "page", "of", "the", "book", "is", "long", "é"]


def test_an_imported_body_without_a_head_has_the_vectors_of_the_run(bert, tmp_path):
    assert export_model([str(bert), f"{tmp_path}/body", "parts=encoder", "pooling=mean"]) == 0
    assert import_model([f"{tmp_path}/body", f"{tmp_path}/imported"]) == 0

    path = lines(tmp_path / "texts.jsonl", ["the page of the book", "to the people"])
    vectors = []

    for number, folder in enumerate((bert, tmp_path / "imported")):
        out = tmp_path / f"out{number}"

        assert (
            extract_features(
                [str(folder), f"input={path}", f"output={out}", "pool=mean", "max_length=32"]
            )
            == 0
        )

        vectors.append(open_features(out).vectors)

    assert np.abs(np.subtract(*vectors)).max() < 1e-5


def test_a_decoder_has_no_first_special_token_to_read(decoder, tmp_path):
    """Packed rows follow </s>; a text without a token is counted."""
    trained = decoder[1]
    facts = trained.objectives[0]
    chosen = FeatureChoice("last", "last", "f32", 40)
    said = write_features(tmp_path / "out", trained, facts, [*TEXTS, ("empty", "")], chosen, {})

    assert (said["rows"], said["empty"]) == (6, 1)

    with refused("expected a text, got none"):
        write_features(tmp_path / "none", trained, facts, [], chosen, {})

    assert not list((tmp_path / "none").glob("*"))


@pytest.mark.parametrize(("label", "head"), [("span_corruption", []), ("text_infilling", ["bos"])])
def test_a_source_is_framed_as_in_training(shard_sets, tmp_path, label, head):
    write_run(
        tmp_path,
        shard_sets,
        [3],
        1,
        label,
        model__family="encoder_decoder",
        model__heads={"lm": 1.0},
    )

    trained = TrainedModel.open(tmp_path)
    found = written((tmp_path, trained), tmp_path / "out")
    known = trained.tokenizer.vocabulary.specials

    for encoding, vector in zip(
        trained.tokenizer.encode([text for _, text in TEXTS]), found.vectors, strict=True
    ):
        row = [
            *(known[name] for name in head),
            *encoding.ids[: 39 - len(head)].tolist(),
            known["eos"],
        ]

        (states,) = token_vectors(trained.model, [row], "last")

        assert np.abs(vector - states.mean(0).numpy()).max() < 1e-5


def test_damaged_files(encoder, tmp_path):

    written(encoder, tmp_path)
    manifest = tmp_path / "features.json"
    file = tmp_path / "features.arrow"
    text = manifest.read_text()
    manifest.write_text(text.replace('"mean"', '"last"'))
    with pytest.raises(IntegrityError, match="is damaged: checksum"):
        open_features(tmp_path)
    manifest.write_text(text)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(IntegrityError, match="is missing or not what"):
        open_features(tmp_path)


def features():
    vectors = np.array([[1, 0], [2, 0.1], [0, 1], [3, 0], [1, 1], [0, 0], [-1, 0]], np.float32)
    words = ["play", "play", "see", "play", "see", "play", "play"]
    return Features(
        ["a", "b", "c", "a", "d", "e", "f"],
        [0, 1, 2, 3, 4, 5, 6],
        words,
        vectors,
        {},
    )


def test_neighbors_are_those_of_other_texts_by_cosine():
    found = find_neighbors(features(), NeighborOptions(query=0))

    assert [one["row"] for one in found] == [1, 4, 2, 5, 6]

    cosines = [
        2 / np.hypot(2, 0.1),
        1 / np.sqrt(2),
        0,
        0,
        -1,
    ]

    assert [one["cosine"] for one in found] == pytest.approx(cosines)
    assert found[0] == {
        "row": 1,
        "uid": "b",
        "position": 1,
        "text": "play",
        "cosine": pytest.approx(cosines[0]),
    }
    assert [
        one["row"] for one in find_neighbors(features(), NeighborOptions(query=0, same=True))
    ] == [1, 5, 6]
    assert [one["row"] for one in find_neighbors(features(), NeighborOptions(query=0, top=2))] == [
        1,
        4,
    ]

    with refused("query: expected a row index below 7, got 7"):
        find_neighbors(features(), NeighborOptions(query=7))


def test_the_command_prints_the_nearest_rows(tmp_path, encoder, capsys):
    trained = encoder[1]
    chosen = FeatureChoice("table", "first_subword", "f32", 40)
    texts = [
        (f"texts.jsonl:{line}", "the page of the book" + line // 2 * f" {'a' * 70}")
        for line in range(3)
    ]
    write_features(tmp_path / "features", trained, trained.objectives[0], texts, chosen, {})

    assert neighbors([f"{tmp_path}/features", "query=1", "same=true", "--json"]) == 0

    found = json.loads(capsys.readouterr().out)

    assert found["query"] == {"row": 1, "uid": "texts.jsonl:0", "position": 1, "text": "page"}
    assert [(one["row"], round(one["cosine"], 5)) for one in found["neighbors"]] == [
        (6, 1),
        (11, 1),
    ]
