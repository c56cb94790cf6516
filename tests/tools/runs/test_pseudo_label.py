"""Labels of a run for texts without one: those that the model itself gives, as a file that the stage reads again."""

import doctest
import json

import pytest

from clozeline.files import file_hash
from clozeline.tools.runs import pseudo_label
from clozeline.train.startup.open_run import open_run
from tests.pipeline.task_files import sentences
from tests.tools.small_run import compute_row_scores


@pytest.fixture(scope="module")
def run(runs):
    return runs("classes") / "run"


def probabilities(run, texts):
    """Each text by itself, without padding."""
    trained, found = open_run(run), []
    special = trained.tokenizer.vocabulary.specials
    for encoding in trained.tokenizer.encode(texts):
        ids = [special["cls"], *encoding.ids.tolist(), special["sep"]]
        found.append(compute_row_scores(trained, ids, "classification").softmax(-1).tolist())
    return found


def test_sure_labels_are_those_of_the_model(run, tmp_path, capsys):
    """The threshold splits the texts; what is written and what is not are all lines."""
    texts = [text for text, _ in sentences(40, first=100)]
    given = probabilities(run, texts)
    threshold = sorted(max(row) for row in given)[20] - 1e-4
    sure = [(text, row.index(max(row))) for text, row in zip(texts, given, strict=True) if max(row) >= threshold]
    source, output = tmp_path / "texts.txt", tmp_path / "pseudo.jsonl"
    source.write_text("\n".join([*texts, "", "a\tb"]) + "\n", encoding="utf-8")
    assert pseudo_label.main([str(run), f"input={source}", f"output={output}", f"threshold={threshold}"]) == 0
    lines = output.read_text(encoding="utf-8").splitlines()
    assert [*map(json.loads, lines)] == [{"sentence": text, "label": str(label)} for text, label in sure]
    assert 0 < sum(label for _, label in sure) < len(sure)
    facts = json.loads((tmp_path / "pseudo.jsonl.json").read_text(encoding="utf-8"))
    assert facts["rows_in"] == 42 == sum(facts["labelled"].values()) + sum(facts["skipped"].values())
    assert facts["skipped"] == {"blank_line": 1, "fields": 1, "below_threshold": 40 - len(sure)}
    assert facts["labelled"] == {str(label): [one for _, one in sure].count(label) for label in (0, 1)}
    assert facts["output"] == {"pseudo.jsonl": file_hash(output)}
    assert f"{len(sure)} rows of 42 labeled" in capsys.readouterr().out


def test_a_class_has_at_most_so_many_of_the_surest(run, tmp_path):
    texts = [text for text, _ in sentences(40, first=100)]
    source, output = tmp_path / "texts.txt", tmp_path / "pseudo.jsonl"
    source.write_text("\n".join(texts) + "\n", encoding="utf-8")
    words = [str(run), f"input={source}", f"output={output}", "threshold=0", "per_class=3"]
    assert pseudo_label.main(words) == 0
    given = probabilities(run, texts)
    surest = []
    for label in (0, 1):
        of_class = [place for place, row in enumerate(given) if row.index(max(row)) == label]
        surest += sorted(of_class, key=lambda place: -max(given[place]))[:3]
    expected = [texts[place] for place in sorted(surest)]
    assert [json.loads(line)["sentence"] for line in output.read_text(encoding="utf-8").splitlines()] == expected
    assert doctest.testmod(pseudo_label).failed == 0


def test_a_threshold_that_no_label_reaches_is_refused(run, tmp_path, capsys):
    source = tmp_path / "texts.txt"
    source.write_text("a film\n", encoding="utf-8")
    assert pseudo_label.main([str(run), f"input={source}", f"output={tmp_path / 'new.tsv'}", "threshold=1"]) == 64
    assert "lower the threshold" in capsys.readouterr().err
    assert not (tmp_path / "new.tsv").exists()
