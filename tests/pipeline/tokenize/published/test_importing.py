"""Imported tokenizers give the ids of their owners, and never a special id for text."""

import base64
import json
import shutil
from pathlib import Path

import pytest
from tokenizers import decoders, models, pre_tokenizers

from clozeline.errors import ClozelineError
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from tests.pipeline.tokenize.published import published_files as files
from tests.pipeline.tokenize.published.published_folders import library
from tests.refusals import refused


def ids(tokenizer, texts):
    return [encoding.ids.tolist() for encoding in tokenizer.encode(texts)]


def sources(folder):
    return {
        "wordpiece": files.wordpiece(folder / "wp"),
        "byte_level": files.byte_level(folder / "bl"),
        "unigram": files.t5_model(folder / "sp"),
        "bpe": files.sentencepiece_model(
            folder / "bpe",
            model_type="bpe",
            byte_fallback=True,
            vocab_size=400,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
        ),
        "json": files.unigram_json(folder / "json"),
    }


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("imported")
    return {
        name: (path, import_tokenizer(path, folder / f"{name} out"))
        for name, path in sources(folder).items()
    }


def test_a_user_defined_piece_with_a_role_is_not_found_in_text(tmp_path):
    path = files.t5_model(tmp_path, user_defined_symbols=["<mask>", "(x)"])
    tokenizer = import_tokenizer(path, tmp_path / "out")
    mask = tokenizer.vocabulary.specials["mask"]
    marks = ids(tokenizer, ["a<mask>b (x) c"])[0]

    assert mask not in marks
    assert tokenizer.piece(mask) == "<mask>"
    assert "(x)" in [tokenizer.piece(token) for token in marks], (
        "other user-defined pieces are the owner's"
    )


def test_roles_sentinels_and_added_pieces(tmp_path):
    path = files.wordpiece(tmp_path)
    tokenizer = import_tokenizer(
        path,
        tmp_path / "a",
        specials={"bos": "[CLS]"},
        sentinels="[unused{}]",
        add=["eos", "modes"],
    )

    size = len(path.read_text().split())

    assert tokenizer.vocabulary.sentinels == (1, 2)
    assert tokenizer.vocabulary.specials["bos"] == 4
    assert tokenizer.vocabulary.specials["eos"] == size
    assert tokenizer.vocabulary.modes == {
        "R": size + 1,
        "S": size + 2,
        "X": size + 3,
    }
    assert json.loads((tmp_path / "a" / "published.json").read_text())["added"] == [
        "</s>",
        "<R>",
        "<S>",
        "<X>",
    ]
    assert (
        len(import_tokenizer(path, tmp_path / "b", add=["sentinels"]).vocabulary.sentinels) == 128
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"specials": {"eos": "</s>"}}, "has no '</s>'"),
        ({"sentinels": "<none{}>"}, "no piece of the vocabulary matches '<none{}>'"),
        ({"sentinels": "[unused0]"}, "a pattern with {}"),
    ],
)
def test_pieces_that_do_not_exist_are_refused(tmp_path, options, said):
    with refused(said):
        import_tokenizer(files.wordpiece(tmp_path), tmp_path / "out", **options)


def test_ids_without_a_piece_get_one_that_no_text_gives(tmp_path):
    path = files.wordpiece(tmp_path / "wp")
    path.write_text(path.read_text() + "the\n")
    lines = path.read_text().split()
    tokenizer = import_tokenizer(path, tmp_path / "a", add=["eos"])

    assert [tokenizer.piece(token) for token in (len(lines) - 1, len(lines))] == ["the", "</s>"]

    (hole,) = [token for token in range(len(lines)) if tokenizer.piece(token) != lines[token]]

    assert tokenizer.vocabulary.special[hole]
    assert ids(tokenizer, ["the", tokenizer.piece(hole)])[0] == [len(lines) - 1], "the last one"

    merged = files.byte_level(tmp_path / "bl")
    pieces = json.loads(merged.read_text())
    merged.write_text(json.dumps({**pieces, "<|endoftext|>": len(pieces) + 3}))
    tokenizer = import_tokenizer(merged, tmp_path / "b", add=["pad"])

    assert tokenizer.vocabulary.specials["eos"] == len(pieces) + 3
    assert tokenizer.vocabulary.specials["pad"] == len(pieces) + 4


FAR = 4_000_000_000


def with_far_id(folder, name):
    """Give one piece of a published tokenizer an id far above all others, in a file of this
    name."""
    facts = json.loads((folder / "tokenizer.json").read_text())
    entry = {"id": FAR, "content": "<far>", "special": True, "normalized": False}
    entry |= dict.fromkeys(("single_word", "lstrip", "rstrip"), False)

    if name == "tokenizer.json":
        facts["added_tokens"].append(entry)
    elif name == "tokenizer.json model":
        facts["model"]["vocab"]["far"] = FAR
    elif name == "vocab.json":
        (folder / name).write_text(json.dumps({**facts["model"]["vocab"], "far": FAR}))
    elif name == "added_tokens.json":
        (folder / name).write_text(json.dumps({"<far>": FAR}))
    else:
        (folder / name).write_text(json.dumps({"added_tokens_decoder": {str(FAR): entry}}))

    (folder / "tokenizer.json").write_text(json.dumps(facts))


@pytest.mark.parametrize(
    "name",
    [
        "tokenizer.json",
        "tokenizer.json model",
        "vocab.json",
        "added_tokens.json",
        "tokenizer_config.json",
    ],
)
def test_an_id_far_above_the_number_of_pieces_is_refused_before_a_library_makes_room(
    tmp_path, name
):
    """A file of 8 kB would take 4 GB: a list with a place for each id below the largest."""
    pieces = {
        piece: token for token, piece in enumerate(["<unk>", "<pad>", "</s>", "t", "h", "th"])
    }
    library(tmp_path / "source", models.BPE(vocab=pieces, merges=[("t", "h")], unk_token="<unk>"))
    with_far_id(tmp_path / "source", name)

    with refused("the id 4,000,000,000 is far above the number of pieces"):
        import_tokenizer(tmp_path / "source", tmp_path / "out")


def test_ranks_far_above_their_number_are_refused(tmp_path):
    lines = [f"{base64.b64encode(bytes([byte])).decode()} {byte}" for byte in range(256)]
    (tmp_path / "far.tiktoken").write_text("\n".join([*lines, f"YWI= {FAR}", ""]))

    with refused("the id 4,000,000,000 is far above"):
        import_tokenizer(
            tmp_path / "far.tiktoken", tmp_path / "out", tokenizer_class="PreTrainedTokenizerFast"
        )


def test_an_added_token_whose_id_is_taken_is_refused(tmp_path):
    added = {"added_tokens_decoder": {"130": {"content": "<x>"}}}
    folder = files.directory(files.wordpiece(tmp_path / "wp").parent, "Bert", added)
    with refused(r"such as '<x>': 130 in the files"):
        import_tokenizer(folder, tmp_path / "out")


DAMAGE = {
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "twice": lambda data: data + data,
    "nonsense": lambda data: b"\xff\xfe nonsense",
    "an empty object": lambda data: b"{}",
}


def message(action):
    try:
        action()
    except ClozelineError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", ["wordpiece", "byte_level", "unigram", "bpe", "json", "ours"])
def test_errors_name_the_file_that_was_given(imported, tmp_path, name, damage):
    """Not the copy of it, which is in a folder that is gone when the message is read."""
    source, tokenizer = imported["bpe" if name == "ours" else name]
    source = tokenizer.vocabulary.folder if name == "ours" else source
    given = Path(shutil.copytree(source if name == "ours" else source.parent, tmp_path / "given"))
    for file in sorted(filter(Path.is_file, given.rglob("*"))):
        whole = file.read_bytes()
        file.write_bytes(DAMAGE[damage](whole))
        said = message(
            lambda: import_tokenizer(
                given if name == "ours" else given / source.name, tmp_path / "copy"
            )
        )

        assert not said or (str(given) in said and str(tmp_path / "copy") not in said)

        file.write_bytes(whole)


@pytest.mark.parametrize(
    ("pad_id", "pad"),
    [
        ("own", "<|pad|>"),
        (0, None),
        (-1, None),
        (10**6, None),
        (None, None),
        ([3], None),
    ],
)
def test_the_pad_is_that_of_the_model_where_it_stands_for_no_text(tmp_path, pad_id, pad):
    """And the tokenizer names none itself."""
    size = len(json.loads(files.byte_level(tmp_path).read_text())) + 1
    files.directory(tmp_path, "GPT2", {"additional_special_tokens": ["<|pad|>"]})
    (tmp_path / "config.json").write_text(
        json.dumps({"pad_token_id": size - 1 if pad_id == "own" else pad_id})
    )
    tokenizer = import_tokenizer(tmp_path, tmp_path / "out")

    assert tokenizer.vocabulary.specials.get("pad") == (None if pad is None else size - 1)

    files.wordpiece(tmp_path / "wp")
    (tmp_path / "wp" / "config.json").write_text(json.dumps({"pad_token_id": 4}))

    assert import_tokenizer(tmp_path / "wp", tmp_path / "wp out").vocabulary.specials["pad"] == 0


def _word_level(folder, unknown, **roles):
    """A published model of words that writes `unknown` for the others, and names the roles of its
    pieces."""
    pieces = ["<pad>", "<eos>", "<mask>", "<unk>", "the", "cat"]
    kind = models.WordLevel(
        {piece: number for number, piece in enumerate(pieces)}, unk_token=unknown
    )
    named = {f"{role}_token": piece for role, piece in roles.items()}
    return library(
        folder, kind, specials=pieces[:4], config=named, pre_tokenizer=pre_tokenizers.Whitespace()
    )


@pytest.mark.parametrize("role", ["eos", "pad", "mask", "bos"])
@pytest.mark.parametrize("is_named", [True, False])
def test_an_unknown_token_with_another_role_is_refused(tmp_path, role, is_named):
    """Unknown words would end documents, or be masks, in the middle of a row."""
    piece = "<eos>" if role == "bos" else f"<{role}>"
    roles = {role: piece, **({"unk": piece} if is_named else {})}
    with refused(f"'{piece}', which is .*{role}"):
        import_tokenizer(_word_level(tmp_path / "in", piece, **roles), tmp_path / "out")
    own = _word_level(tmp_path / "own", "<unk>", eos="<eos>", unk="<unk>")

    assert ids(import_tokenizer(own, tmp_path / "own out"), ["the dog"]) == [[4, 3]]


@pytest.mark.parametrize("lost", ["", "Ã"])
def test_a_byte_level_tokenizer_may_share_its_unknown_token_if_it_has_every_byte(tmp_path, lost):
    """GPT-2 names <|endoftext|> for everything.

    Without the piece of one byte it would write it inside texts.
    """
    end = "<|endoftext|>"
    letters = sorted({*pre_tokenizers.ByteLevel.alphabet()} - {lost})
    kind = models.BPE(
        {piece: number for number, piece in enumerate([*letters, end])}, [], unk_token=end
    )
    config = {f"{role}_token": end for role in ("unk", "bos", "eos")}
    parts = {
        "pre_tokenizer": pre_tokenizers.ByteLevel(add_prefix_space=False),
        "decoder": decoders.ByteLevel(),
    }
    folder = library(tmp_path / "in", kind, specials=[end], config=config, **parts)

    if lost:
        with refused("endoftext"):
            import_tokenizer(folder, tmp_path / "out")
    else:
        tokenizer = import_tokenizer(folder, tmp_path / "out")
        assert len(letters) not in ids(tokenizer, ["".join(map(chr, range(1, 0xD800)))])[0]
