import operator
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.tokenize.tokenizers._pieces import special_pieces
from clozeline.pipeline.tokenize.tokenizers.bpe import Bpe
from tests.pipeline.tokenize.tokenizers.slow_learner import slow_learner, slow_letters, slow_merge


@given(
    texts=st.lists(st.text(st.sampled_from("aaabbc_é <>s\n"), max_size=30), max_size=6),
    room=st.integers(2, 14),
    fewest=st.integers(1, 3),
)
def test_pieces_and_ids_are_those_of_the_slow_learner(texts, room, fewest):
    first = len(special_pieces(0))
    reserved = special_pieces(0)
    words = [[*word, "_"] for text in texts for word in text.split() if "_" not in word]
    letters = slow_letters(words, room)
    words = [word for word in words if set(word) <= set(letters)]
    merges = slow_learner(words, room - len(letters), fewest, operator.add, reserved)

    with tempfile.TemporaryDirectory() as folder:
        model = Bpe.train(
            texts, Bpe.Options(size=first + room, reserved=0, min_frequency=fewest), Path(folder)
        )

    wanted = list(dict.fromkeys([*letters, *map("".join, merges)]))

    assert [model.piece(token) for token in range(first, model.vocabulary.size)] == wanted

    for text, encoding in zip(texts, model.encode(texts), strict=True):
        cut = []

        for word in text.split():
            symbols = [*word.replace("_", "\1"), "_"]
            for pair in merges:
                symbols = slow_merge(symbols, pair, operator.add)
            cut += [symbol if symbol in wanted else "<unk>" for symbol in symbols]

        assert [model.piece(token) for token in encoding.ids.tolist()] == cut
