"""Rows of prompts: of tables and of lines of JSON; demonstrations that no order of files changes."""

import gzip
import json
from collections import Counter

import pytest

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError
from clozeline.tools.runs.prompting.rows import Demonstrations, PromptRow, read_rows
from clozeline.tools.runs.prompting.template import Template

TEMPLATE = validate(
    Template,
    {
        "example": "{text}{label}", "labels": {"yes": [" yes"], "no": [" no"]}, "fields": {"text": "sentence"},
        "values": {"1": "yes", "0": "no"},
    },
    "test",
)  # fmt: skip


def test_a_table_has_a_header_and_quotes_without_meaning(tmp_path):
    path = tmp_path / "dev.tsv"
    path.write_text(
        '\ufeffsentence\tlabel\r\na "film\t1\r\nb\t0\r\nc\r\n\r\nd\t7\r\n \t1\r\n', encoding="utf-8", newline=""
    )
    found = read_rows(path, TEMPLATE, labeled=True)
    assert [(row.fields["text"], row.label) for row in found.rows] == [('a "film', "yes"), ("b", "no")]
    assert found.refused == {"columns": 1, "bad_label": 1, "no_text": 1}


def test_lines_of_json_plain_or_compressed(tmp_path):
    lines = [
        {"sentence": "a", "label": 1},
        {"sentence": "b"},
        {"text": "c", "label": 0},
        {"sentence": "d", "label": "no"},
    ]
    content = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "dev.jsonl").write_text(content)
    (tmp_path / "dev.jsonl.gz").write_bytes(gzip.compress(content.encode()))
    for name in ("dev.jsonl", "dev.jsonl.gz"):
        found = read_rows(tmp_path / name, TEMPLATE, labeled=False)
        assert [row.label for row in found.rows] == ["yes", None, "no"]
        assert found.refused == {"no_text": 1}
        assert read_rows(tmp_path / name, TEMPLATE, labeled=True).refused == {"no_text": 1, "no_label": 1}


def test_a_file_without_rows_is_refused(tmp_path):
    (tmp_path / "dev.tsv").write_text("text\tlabel\na\t1\n")
    with pytest.raises(ConfigurationError, match="expected rows with sentence, got none that can be read: 1 x no_text"):
        read_rows(tmp_path / "dev.tsv", TEMPLATE, labeled=True)
    with pytest.raises(ConfigurationError, match="no such file"):
        read_rows(tmp_path / "none.tsv", TEMPLATE, labeled=True)


def rows(count, first=0):
    """Rows with three labels, of which one is rare."""
    names = ["a", "b", "a", "b", "a", "c"]
    return [
        PromptRow(1000 + number, {"text": str(number)}, names[number % 6]) for number in range(first, first + count)
    ]


@pytest.mark.parametrize("selection", ["random", "balanced", "fixed"])
def test_they_do_not_depend_on_the_order_and_never_hold_the_row(selection):
    pool = rows(24)
    one, other = (Demonstrations(part, 5, selection, 3) for part in (pool, pool[::-1]))
    seen = set()
    for row in rows(30):
        found = one.of(row)
        assert found == other.of(row)
        assert len({shown.uid for shown in found}) == 5
        assert row.uid not in {shown.uid for shown in found}
        seen.add(tuple(shown.uid for shown in found))
    own = {shown.uid for shown in one.of(PromptRow(1, {}, None))}
    assert len(seen) == (1 + sum(row.uid in own for row in pool) if selection == "fixed" else 30)
    assert [Demonstrations(pool, 5, selection, 4).of(row) for row in pool] != [one.of(row) for row in pool]


@pytest.mark.parametrize("selection", ["balanced", "fixed"])
@pytest.mark.parametrize("shots", [3, 4, 6, 12])
def test_each_label_has_as_many_or_one_more(selection, shots):
    """As long as the rarest has so many."""
    found = Demonstrations(rows(60), shots, selection, 0)
    firsts = Counter[str]()
    for row in rows(40, first=100):
        counts = Counter(str(shown.label) for shown in found.of(row))
        assert max(counts.values()) - min(counts[label] for label in "abc") <= 1
        firsts[str(found.of(row)[0].label)] += 1
    if selection == "balanced":
        assert len(firsts) == 3, "the order in the prompt is drawn, too"


def test_equal_rows_are_one_and_too_few_are_refused():
    twice = [PromptRow(7, {"text": "x"}, "b"), PromptRow(7, {"text": "x"}, "a"), *rows(2)]
    assert {shown.label for shown in Demonstrations(twice, 2, "random", 0).of(rows(1)[0])} == {"a", "b"}
    with pytest.raises(ConfigurationError, match="shots=3: expected a file train=FILE with more labeled rows"):
        Demonstrations(twice, 3, "random", 0)
    assert Demonstrations([], 0, "random", 0).of(rows(1)[0]) == []
