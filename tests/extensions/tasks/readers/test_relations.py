"""Relations: marks around two entities, found again by splitting the marked sentence."""

import hypothesis
from hypothesis import strategies as st

from clozeline.extensions.tasks.readers import Rejected
from tests.extensions.tasks.readers.reading import (
    items_of,
    json_lines,
    read,
    reader_of,
    reasons,
    written,
)

TACRED = {
    "token": ["Ada", "Lovelace", "met", "Charles", "Babbage", "."],
    "subj_start": 0,
    "subj_end": 1,
    "obj_start": 3,
    "obj_end": 4,
    "relation": "per:met",
}
CLASSES = {"classes": ["no_relation", "per:met"]}
COLUMNS = {"text": "text", "first": ["a", "b"], "second": ["c", "d"], "last_included": False}


def test_entities_of_two_forms_are_marked(tmp_path):
    (item,) = read(tmp_path, json_lines(TACRED), "relations", **CLASSES)
    assert item.texts == ("$ Ada Lovelace $ met # Charles Babbage # .",)
    assert item.label == 1

    turned = {"text": "It was Bob whom Ada met .".split(), "a": 4, "b": 5, "c": 2, "d": 3}
    rows = json_lines({**turned, "relation": "no_relation"})
    reader = reader_of("relations", **COLUMNS, **CLASSES)
    (item,) = items_of(reader, written(tmp_path, rows))
    assert item.texts == ("It was # Bob # whom $ Ada $ met .",)
    assert item.label == 0

    reader = reader_of("relations", **CLASSES)
    unlabeled = {key: value for key, value in TACRED.items() if key != "relation"}
    ((item, _),) = reader.read_unlabeled(written(tmp_path, json_lines(unlabeled)))
    assert item.texts == ("$ Ada Lovelace $ met # Charles Babbage # .",)


@hypothesis.given(st.data())
def test_the_entities_stand_between_their_marks(tmp_path_factory, data):
    words = data.draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=2, max_size=8))
    split = data.draw(st.integers(1, len(words) - 1))
    spans = []
    for low, high in ((0, split), (split, len(words))):
        start = data.draw(st.integers(low, high - 1))
        spans.append((start, data.draw(st.integers(start, high - 1))))
    is_turned = data.draw(st.booleans())
    subject, other = reversed(spans) if is_turned else spans
    row = TACRED | {"token": words}
    row |= {"subj_start": subject[0], "subj_end": subject[1]}
    row |= {"obj_start": other[0], "obj_end": other[1]}
    (item,) = read(tmp_path_factory.mktemp("rows"), json_lines(row), "relations", **CLASSES)
    marked = item.texts[0].split(" ")
    for mark, (first, last) in zip("$#", (subject, other), strict=True):
        start, end = (place for place, word in enumerate(marked) if word == mark)
        assert [word for word in marked[start + 1 : end] if word not in "$#"] == words[
            first : last + 1
        ]
    assert [word for word in marked if word not in "$#"] == words


def test_a_place_outside_the_sentence_is_rejected(tmp_path):
    bad = [
        TACRED | {"obj_end": 6},
        TACRED | {"subj_start": -1},
        TACRED | {"subj_start": 2},
        TACRED | {"subj_start": "0"},
        TACRED | {"token": 7},
        TACRED | {"token": "Ada Lovelace met"},
        TACRED | {"token": None},
    ]
    reader = reader_of("relations", **CLASSES)
    items = items_of(reader, written(tmp_path, json_lines(*bad, TACRED)))
    assert reasons(items) == {"fields": len(bad)}
    assert not isinstance(items[-1], Rejected)
    unknown = read(tmp_path, json_lines(TACRED | {"relation": "per:ate"}), "relations", **CLASSES)
    assert reasons(unknown) == {"bad_label": 1}
