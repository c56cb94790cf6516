"""Lines in wanted languages, beside a slow reading of the rule; counts of the stage."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.pipeline.clean.language_step import keep_lines
from tests.pipeline.clean.cleaning import run_clean
from tests.pipeline.clean.languages.test_fasttext import ENGLISH, FRENCH, GERMAN, MODEL

LINES = st.lists(
    st.sampled_from(["de", "en", "fr", "short", ""]).flatmap(
        lambda language: st.integers(1, 9).map(lambda size: (f"{language} " * size)[: size * 4])
    ),
    min_size=1,
    max_size=12,
)

SHORT_LINES = "All human beings are\nborn free and equal\nin dignity and rights."


def answer(line):
    """The language that a line starts with; none for short lines."""
    language = line[:2]
    return (language, 0.9) if language in ("de", "en", "fr") else None


@given(LINES, st.sets(st.sampled_from(["de", "en", "fr"])))
def test_each_line_follows_its_answer_or_the_nearest_before_it(lines, wanted):
    text = "\n".join(lines)
    lines = text.split("\n")
    found = keep_lines(text, answer, wanted.__contains__)

    # each line looks back, then forward, for a line with an answer
    owners = []
    for number in range(len(lines)):
        others = [*lines[number::-1], *lines[number:]]
        owners.append(next((answer(line)[0] for line in others if answer(line)), None))

    if owners[0] is None:
        assert found is None
        return

    kept = [line for line, owner in zip(lines, owners, strict=True) if owner in wanted]
    gone = [line for line, owner in zip(lines, owners, strict=True) if owner not in wanted]
    expected = "\n".join(kept).strip("\n") if gone else text
    assert found.text == expected
    assert found.lines_dropped == Counter(owner for owner in owners if owner not in wanted)
    assert found.characters_dropped.total() == sum(len(line) + 1 for line in gone)
    assert (found.language in wanted) == bool(kept)
    assert found.score == pytest.approx(0.9)
    assert set(found.languages) <= set(owners)


def test_languages_with_few_characters_do_not_make_a_text_mixed():
    english = "\n".join(["en " * 30] * 10)
    assert keep_lines(f"{english}\nfr fr fr", answer, lambda _: True).languages == ("en",)
    mixed = keep_lines(f"{english}\n{'fr ' * 40}\nde de", answer, lambda _: True)
    assert mixed.languages == ("en", "fr")


@pytest.mark.parametrize("identifier", [{"name": "py3langid"}, {"name": "fasttext"}])
def test_the_stage_keeps_lines_and_counts_the_others(tmp_path, identifier):
    if identifier["name"] == "fasttext":
        identifier["path"] = str(MODEL)
    mixed = f"{FRENCH}\n\n{ENGLISH}\nOK\n{GERMAN}\nJa"
    texts = [mixed, FRENCH, f"{GERMAN}\n\n{GERMAN}", "A\nB\nC", SHORT_LINES]
    rows = [json.dumps({"text": text}) for text in texts]
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    language = {**identifier, "keep": ["eng_Latn", "deu_Latn"], "by": "line"}

    done = run_clean(
        [str(tmp_path / "a.jsonl")], tmp_path / "out", {"language": language, "filters": []}
    )

    kept = {document.text: document for document in done.documents}
    first = f"{ENGLISH}\nOK\n{GERMAN}\nJa"
    assert set(kept) >= {first, f"{GERMAN}\n\n{GERMAN}"}
    assert kept[first].language == "de"
    assert kept[first].extra == {"line_languages": "fr de en"}
    assert kept[f"{GERMAN}\n\n{GERMAN}"].extra == {}
    assert done.counts["lines_dropped"] == {"fr": 2}
    assert done.counts["line_characters_dropped"] == {"fr": len(FRENCH) + 2}
    assert done.nonzero("notes") == {"several_languages": 1}

    # without a line that can be judged, the whole text is
    details = {(reject.reason, reject.detail) for reject in done.rejects}
    assert details == {("language", "1 line: 1 fr"), ("language", "und")}
    assert SHORT_LINES in kept

    counts = done.counts
    assert counts["characters_in"] == sum(map(len, texts))
    assert counts["characters_out"] == sum(map(len, kept))
    assert counts["cut"] == {"language": counts["characters_in"] - counts["characters_out"]}


def test_without_languages_to_keep_every_line_stays(tmp_path):
    (tmp_path / "a.txt").write_text(f"{FRENCH}\n{ENGLISH}")
    language = {"name": "py3langid", "by": "line"}
    done = run_clean(
        [str(tmp_path / "a.txt")], tmp_path / "out", {"language": language, "filters": []}
    )
    assert done.documents[0].text == f"{FRENCH}\n{ENGLISH}"
    assert done.documents[0].extra == {"line_languages": "fr en"}
    assert "lines_dropped" not in done.counts
