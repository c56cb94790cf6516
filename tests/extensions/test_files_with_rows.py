"""Every command reads the same texts from the same odd files, in the form in which training saw
them."""

import pytest

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.extensions.curation.decontaminate.evaluation_items import EvaluationFile, read_items
from clozeline.extensions.evaluation.minimal_pairs import read_pairs
from clozeline.extensions.evaluation.prompting.template import Template, read_rows
from clozeline.extensions.tasks.readers import Rejected
from clozeline.extensions.tasks.unlabeled_rows import InputColumns, read_unlabeled
from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.ingest.readers import RawRecord, detect_reader
from clozeline.pipeline.registries import READERS
from clozeline.pipeline.tables import read_list, read_named_texts
from clozeline.pipeline.text.normal_form import normalize
from clozeline.tools.runs.inference.generated_text import read_allowed
from tests.extensions.tasks.readers.reading import reader_of, rows_for
from tests.pipeline.tables.odd_files import BOM, CAFE, HELLO, NFD, NO_ROWS, ROWS, TEXTS, write


def ingest(path):
    name, _ = detect_reader(path)
    reader = READERS.resolve({"name": name}).build(InputLimits())
    for item in reader.read(path, 0, path.stat().st_size):
        if isinstance(item, RawRecord):
            yield normalize(item.text)
        elif item.group == "malformed":
            yield f"!{item.reason}"


def tasks(path):
    reader = reader_of("labeled", label="label", classes=["a", "b"])
    for item in reader.read(reader.open(path)):
        yield f"!{item.reason}" if isinstance(item, Rejected) else item.texts[0]


def predict(path):
    reader = reader_of("labeled", label="label", classes=["a", "b"])
    for item, _ in read_unlabeled(path, rows_for(reader.metadata), reader, InputColumns()):
        yield f"!{item.reason}" if isinstance(item, Rejected) else item.texts[0]


def prompt(path):
    template = Template(example="{text} is{label}", labels={"a": (" x",), "b": (" y",)})
    found = read_rows(path, template, labeled=False)
    yield from (row.fields["text"] for row in found.rows)
    yield from (f"!{reason}" for reason, count in found.refused.items() for _ in range(count))


def decontaminate(path):
    for item in read_items(EvaluationFile("suite", path.name, path, None), InputLimits()):
        yield f"!{item.reason}" if isinstance(item, Rejected) else normalize(item.texts[0])


def texts(path):
    """Those of perplexity, baselines, extract-features and extend-tokenizer."""
    return [text for _, text in read_named_texts(path)]


def pairs(path):
    return [pair.good for pair in read_pairs(path)]


COUNT = (ingest, tasks, predict, prompt)
"""Commands that count a row that cannot be read, and go on."""
STOP = (texts, pairs, decontaminate)
"""Commands whose scores mean nothing without a row: they stop at it, and say which."""


@pytest.mark.parametrize("command", [*COUNT, *STOP], ids=lambda command: command.__name__)
@pytest.mark.parametrize("name", ROWS)
def test_rows(tmp_path, name, command):
    content, right = ROWS[name]
    path = write(tmp_path, name, content)
    bad = [answer for answer in right if answer.startswith("!")]
    if command in STOP and bad:
        with pytest.raises((ConfigurationError, IntegrityError)) as raised:
            list(command(path))
        assert name in str(raised.value)
        return

    found = [answer for answer in command(path) if answer != "!blank_line"]

    assert sorted(found) == sorted(right)
    assert [answer for answer in found if answer not in bad] == [
        answer for answer in right if answer not in bad
    ]


@pytest.mark.parametrize("command", [*COUNT, *STOP], ids=lambda command: command.__name__)
@pytest.mark.parametrize("name", NO_ROWS)
def test_files_without_a_row_give_no_text(tmp_path, name, command):
    path = write(tmp_path, name, NO_ROWS[name])
    if command is pairs and name.startswith(("number", "null")):
        pytest.skip("other columns than `text` are read")
    found = []
    error = ""

    try:
        found = list(command(path))
    except (ConfigurationError, IntegrityError) as raised:
        error = str(raised)

    assert not [text for text in found if text and not text.startswith("!")]
    assert name in (error or name)


@pytest.mark.parametrize("name", TEXTS)
def test_files_of_text(tmp_path, name):
    content, whole, lines = TEXTS[name]
    path = write(tmp_path, name, content)

    assert list(ingest(path)) == [whole]
    assert texts(path) == [whole]

    bad = [line for line in lines if line.startswith("!")]

    predicted = [line for line in predict(path) if line != "!blank_line"]
    # tables guess the encoding
    assert not lines or predicted == (whole.splitlines() if bad else lines)

    for command in (decontaminate, read_allowed, read_list):
        if bad or (not lines and command is read_allowed):
            with pytest.raises((ConfigurationError, IntegrityError)) as raised:
                list(command(path))
            assert name in str(raised.value)
        else:
            assert list(command(path)) == lines


def test_names_of_columns_and_templates_are_texts_too(tmp_path):
    path = write(tmp_path, "rows.csv", f"{BOM}{NFD},label\nHello there.,a\n")
    reader = reader_of("labeled", text=CAFE, label="label", classes=["a", "b"])
    assert [item.texts for item in reader.read(reader.open(path))] == [(HELLO,)]
