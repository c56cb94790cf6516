"""`clozeline new` for pages, short texts, source code and sequences."""

import ast
import io
import json
import math
import os
import random
from pathlib import Path
from pydoc_data.topics import topics

import pytest

from clozeline.configuration.config import validate
from clozeline.configuration.overrides import parse_yaml
from clozeline.errors import ConfigurationError
from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.pipeline.execution.stages import check_recipe
from clozeline.pipeline.ingest.documents.files import read_all_documents, read_documents
from clozeline.pipeline.recipe import InputEntry, Recipe
from clozeline.pipeline.vocabulary import SPECIALS
from clozeline.tools.start.new import main as new
from clozeline.tools.start.project.kinds import ANY, KINDS, choose_kind
from clozeline.tools.start.project.sample import Sample, sample_texts
from clozeline.tools.start.project.templates import MODELS, pipeline_yaml

SHORT = [
    "A letter arrived at noon from the harbor office.",
    "Nobody in the village remembered when the mill had closed.",
    "- Yes, of course.",
    "Well...",
    "…and then she laughed.",
    "Row, row, row your boat!",
    "No, no, no, no.",
    "ok :)",
    "#sunset #beach",
    "Fig. 3 (left): two dogs in the snow",
    "Gone with the Wind",
    "Supercalifragilisticexpialidocious!",
    "What a day – 12 km on foot, 900 m up",
    "Conceptionalist, n. A conceptualist. [Webster]",
    "I I I don't know what to say",
]
"""A sentence, a line of subtitles, chat, a caption, titles: none is rejected."""


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO())


def write_rows(path, texts, key="text"):
    path.write_text("".join(json.dumps({key: text}) + "\n" for text in texts), encoding="utf-8")
    return path


def inputs(*paths, **options):
    return [InputEntry(path=str(path), options=options) for path in paths]


def made(folder, *words, stages="pipeline"):
    """Write a project, run its recipe, and return its texts after `clean`, or of the folder of a
    stage."""
    assert new([str(folder), *words]) == 0
    first = [] if stages == "pipeline" else [stages]
    assert run_pipeline([*first, "--config", str(folder / "pipeline.yaml")]) == 0
    files = sorted((folder / "data" / "clean" / "documents").glob("*.arrow"))
    return [document.text for file in files for document in read_documents(file)]


def read_recipe(folder):
    return validate(
        Recipe, parse_yaml((folder / "pipeline.yaml").read_text(encoding="utf-8")), "test"
    )


def test_short_texts_are_measured_and_none_is_rejected(tmp_path, capsys):
    """Old lists kept few of them: a minimum of 10 words, and thresholds of phrases that were chosen
    for pages."""
    source = write_rows(tmp_path / "short.jsonl", SHORT)
    assert made(tmp_path / "mine", f"input={source}", "language=en", stages="clean") == SHORT
    assert "kind=texts" in (out := capsys.readouterr().out)
    assert "half of 15 sampled texts have" in out
    assert "rules for pages need 50; for pages: kind=pages" in out


def test_long_texts_keep_the_rules_of_pages(tmp_path, capsys):
    source = write_rows(
        tmp_path / "pages.jsonl", [text for text in topics.values() if len(text.split()) > 60]
    )

    assert new([str(tmp_path / "mine"), f"input={source}", "language=en"]) == 0
    assert "kind=pages" in (out := capsys.readouterr().out)
    assert "for short texts: kind=texts" in out

    names = [chosen.name for chosen in read_recipe(tmp_path / "mine").clean.filters]

    assert names == ["gopher_quality", "gopher_repetition"]


TOLD = (
    'He was asked which of the people is the best. He said: "He whose life is long and whose deeds '
    'are good." He was asked which of the people is the worst. He said: "He whose life is long and '
    'whose deeds are bad." Nobody who sat by the well that evening asked him for a third answer.'
)


def test_own_texts_may_be_long_and_repeat_headings_and_formulas(tmp_path):
    """A manual, a saying, a book and a table are kept; a menu, which is little else, is not."""
    draw = random.Random(1)
    vocabulary = [f"{draw.choice('bdfgklmn')}{draw.choice('aeiou')}{n}the" for n in range(5000)]
    *parts, book = (
        " ".join(draw.choices([*vocabulary, "the", "and", "of"], k=count)) + "."
        for count in [30] * 9 + [110_000]
    )
    manual = "".join(f"{part}\n\nSyntax\n\nExample\n\n" for part in parts).strip()
    menu = "\n\n".join(f"Choose Format, Page, Borders, Shadow {n}" for n in range(20))
    table = " ".join(f"{draw.choice(vocabulary)} of the {n}" for n in range(60))
    kept = [manual, TOLD, book, table]
    source = write_rows(tmp_path / "own.jsonl", [*kept, menu])
    words = [f"input={source}", "kind=pages"]
    assert set(made(tmp_path / "mine", *words, stages="clean")) == set(kept)


def test_code_is_read_whatever_its_names_and_still_runs(tmp_path):
    source = tmp_path / "code"
    source.mkdir()
    texts = {
        "a.py": "def f(x):\n    return x + 1\n",
        "b.py": "def f(x):\n    return x - 1\n",
        "c.patch": "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n",
        "notes.md": "# Notes\n\nTwo functions.\n",
    }
    for name, text in texts.items():
        (source / name).write_text(text, encoding="utf-8")
    found = made(tmp_path / "mine", f"input={source}", "kind=code", "model=gpt", stages="clean")

    assert sorted(text.strip() for text in found) == sorted(text.strip() for text in texts.values())
    assert [ast.dump(ast.parse(text)) for text in found if text.startswith("def")]

    recipe = read_recipe(tmp_path / "mine")

    assert recipe.clean.language is None
    assert recipe.input[0].reader == "text"


def test_rows_of_code_keep_their_reader(tmp_path):
    source = write_rows(tmp_path / "code.jsonl", ["x = 1", "y = 2"])
    assert made(tmp_path / "mine", f"input={source}", "kind=code", stages="clean") == [
        "x = 1",
        "y = 2",
    ]


def test_a_letter_of_a_sequence_is_a_token(tmp_path):
    draw = random.Random(1)
    sequences = ["".join(draw.choices("ACGT", k=300)) for _ in range(40)]
    source = tmp_path / "dna.fasta"
    lines = [
        f">s{number}\n{text[:150].lower()}\n{text[150:]}\n"
        for number, text in enumerate([*sequences, sequences[0]])
    ]
    source.write_text("".join(lines), encoding="utf-8")
    found = made(tmp_path / "mine", f"input={source}", "kind=sequences", "model=bert")

    assert sorted(found) == sorted([*sequences, sequences[0]])

    encode, training = (
        json.loads((tmp_path / "mine" / "data" / stage / "report.json").read_text())["counts"]
        for stage in ("encode", "train_tokenizer")
    )

    assert (encode["documents_out"], encode["tokens"]) == (40, 40 * 300)
    assert training["vocabulary"]["size"] == len(SPECIALS) + 1 + len("ACGT")


LONG = {
    "ta": "மனிதப் பிறிவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்; அவர்கள் மதிப்பிலும் உரிமைகளிலும் "
    "சமமானவர்கள். "
    "அவர்கள் நியாயத்தையும் மனச்சாட்சியையும் இயற்பண்பாகப் பெற்றவர்கள். ",
    "ml": "മനുഷ്യരെല്ലാവരും തുല്യാവകാശങ്ങളോടും അന്തസ്സോടും സ്വാതന്ത്ര്യത്തോടുംകൂടി "
    "ജനിച്ചിട്ടുള്ളവരാണ്‌. "
    "അന്യോന്യം ഭ്രാതൃഭാവത്തോടെ പെരുമാറുവാനാണ്‌ മനുഷ്യന്നു വിവേകബുദ്ധിയും മനസ്സാക്ഷിയും "
    "സിദ്ധമായിരിക്കുന്നത്‌. ",
    "am": "የሰው፡ልጅ፡ሁሉ፡ሲወለድ፡ነጻና፡በክብርና፡በመብትም፡እኩልነት፡ያለው፡ነው። "
    "የተፈጥሮ፡ማስተዋልና፡ሕሊና፡ስላለው፡አንዱ፡ሌላውን፡በወንድማማችነት፡መንፈስ፡መመልከት፡ይገባዋል። ",
}


@pytest.mark.parametrize("language", LONG)
def test_pages_of_long_words_are_kept(tmp_path, language):
    """The published mean length of words, 3 to 10 letters, is that of English: no document was
    left."""
    page = LONG[language] + "".join(
        LONG[language].replace(".", f" {number}.") for number in range(9)
    )
    source = write_rows(tmp_path / "page.jsonl", [page])
    words = [f"input={source}", f"language={language}", "kind=pages"]

    assert new([str(tmp_path / "mine"), *words]) == 0

    recipe = ["--config", str(tmp_path / "mine" / "pipeline.yaml")]

    assert run_pipeline(["clean", *recipe, "clean.filters.1.min_words=1000"]) == 0


CLOSE = {
    "id": "Semua orang dilahirkan merdeka dan mempunyai martabat dan hak-hak yang sama. Mereka "
    "dikaruniai akal dan "
    "hati nurani dan hendaknya bergaul satu sama lain dalam semangat persaudaraan. ",
    "hr": "Sva ljudska bića rađaju se slobodna i jednaka u dostojanstvu i pravima. Ona su obdarena "
    "razumom i "
    "sviješću i trebaju jedna prema drugima postupati u duhu bratstva. ",
    "nn": "Alle menneske er fødde til fridom og med same menneskeverd og menneskerettar. Dei har fått "
    "fornuft og "
    "samvit og skal leve med kvarandre som brør. ",
}


@pytest.mark.parametrize("language", CLOSE)
def test_languages_with_close_relatives_are_kept(tmp_path, language):
    """Right answers have low scores, and a sentence of one is taken for one of another."""
    sentences = [sentence.strip() for sentence in CLOSE[language].split(". ") if sentence.strip()]
    texts = write_rows(tmp_path / "texts.jsonl", sentences)

    assert (
        made(
            tmp_path / "texts",
            f"input={texts}",
            f"language={language}",
            "kind=texts",
            stages="clean",
        )
        == sentences
    )

    pages = write_rows(tmp_path / "pages.jsonl", [CLOSE[language] * 3])
    text = pipeline_yaml(tmp_path, inputs(pages), language, "bert", "pages")
    options = validate(Recipe, parse_yaml(text), "test").clean.language.options

    assert options.minimum_score(language, 5000) == (0.4, f"thresholds.{language}")
    assert options.keep == [language]


@pytest.mark.parametrize("model", ["bert", "gpt", "t5", "bart", "albert", "xlnet"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_makes_a_recipe_of_every_model(tmp_path, kind, model):
    (tmp_path / "a.txt").write_text("x")

    for language in (ANY, "en", "zh"):
        text = pipeline_yaml(tmp_path, inputs(tmp_path / "a.txt"), language, model, kind)
        recipe = validate(Recipe, parse_yaml(text), "test")
        check_recipe(recipe)
        keep = [] if recipe.clean.language is None else recipe.clean.language.options.keep
        assert (language in keep) == (language != ANY and KINDS[kind].language is not None)

    assert model in MODELS


@pytest.mark.parametrize(
    ("words", "kind", "said"),
    [
        ((49,), "texts", "half of 1 sampled texts have 49 words or more"),
        ((50,), "pages", "50 words or more"),
        ((1, 2, math.inf), "texts", "2 words or more"),
        ((1, math.inf, math.inf), "pages", "more than 50 words or more"),
        ((), "pages", "is the default"),
    ],
)
def test_the_median_decides(words, kind, said):
    found, why = choose_kind(Sample(words))
    assert (found, said in why) == (kind, True), why


def test_the_sample_is_bounded_and_tells_what_it_lacks(tmp_path, monkeypatch):
    rows = write_rows(tmp_path / "rows.jsonl", ["one two three"] * 5000)

    assert len(sample_texts(inputs(rows)).words) == 1024

    second = write_rows(tmp_path / "second.jsonl", ["one two three"] * 5000)

    assert len(sample_texts(inputs(rows, second)).words) == 1024

    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(100):
        (folder / f"{number:03}.txt").write_text("a b " * (1 if number % 2 else 100))
    opened = []
    plain_open = Path.open

    def counted(self, *words, **keys):
        opened.append(self)
        return plain_open(self, *words, **keys)

    monkeypatch.setattr(Path, "open", counted)

    assert 20 <= len(sample_texts(inputs(folder)).words) <= 32
    assert len({path for path in opened if path.suffix == ".txt"}) <= 32

    body = write_rows(tmp_path / "body.jsonl", SHORT, "body")

    with pytest.raises(ConfigurationError, match=r"among the keys: body; .*input\.text_key=body"):
        sample_texts(inputs(body))
    assert len(sample_texts(inputs(body, text_key="body")).words) == len(SHORT)
    assert sample_texts([InputEntry(path="https://x.example/a.jsonl")]) == Sample(is_remote=True)

    long = tmp_path / "long.txt"
    long.write_bytes(b"word " * (1 << 20))

    assert sample_texts(inputs(long)).words == (math.inf,)


UNSPACED = {
    "zh": "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。",
    "ja": "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。",
    "th": "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ ต่างมีเหตุผลและมโนธรรม",
}


@pytest.mark.parametrize("language", UNSPACED)
def test_paragraphs_without_blanks_are_not_judged_as_pages(tmp_path, language):
    """The words of the sample are those of the filters: half of the texts cannot be too short for
    the kind chosen."""
    texts = [f"{UNSPACED[language] * 2}{number}" for number in range(20)]
    source = write_rows(tmp_path / "rows.jsonl", texts)
    assert (
        made(tmp_path / "mine", f"input={source}", f"language={language}", stages="clean") == texts
    )


def test_pages_count_by_their_text(tmp_path):
    page = tmp_path / "page.html"
    page.write_text(
        f"<html><script>{'x = 1; ' * 900}</script><body><p>It rained all day in the "
        "valley.</p></body></html>"
    )

    assert sample_texts(inputs(page)).median_words == 7


def test_markup_in_texts_is_told_with_the_key_that_extracts_it(tmp_path, capsys):
    path = write_rows(tmp_path / "rows.jsonl", ["A line.<br/>And another.", "5 < 6 & 7"])

    assert new([str(tmp_path / "project"), f"input={path}"]) == 0
    assert "50 % of the sampled texts hold HTML tags" in capsys.readouterr().out

    entry = {"path": str(path), "html": True}
    recipe = {"corpus": "c", "input": entry, "clean": {"language": None, "filters": []}}
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))

    assert (
        run_pipeline(["clean", "--config", str(tmp_path / "recipe.yaml"), f"output={tmp_path}"])
        == 0
    )
    found = [document.text for document in read_all_documents(tmp_path / "clean" / "documents")]
    assert found == ["A line.\nAnd another.", "5 < 6 & 7"]


@pytest.mark.parametrize(
    ("name", "size", "said"),
    [("essay.docx", 4, "pandoc"), ("essay.txt", 2**26 + 1, "limits.record_bytes=67108865 limits")],
)
def test_a_folder_that_the_pipeline_refuses_is_refused(tmp_path, capsys, name, size, said):
    (tmp_path / "in").mkdir()
    write_rows(tmp_path / "in" / "rows.jsonl", SHORT)
    (tmp_path / "in" / name).write_bytes(b"text")
    os.truncate(tmp_path / "in" / name, size)

    assert new([str(tmp_path / "project"), f"input={tmp_path / 'in'}"]) == 64
    assert said in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "project").exists()


def test_files_of_sequences_are_sequences(tmp_path, capsys):
    """Nobody has to name the kind; next to files of prose it is not certain."""
    (tmp_path / "a.fasta").write_text(">a\nACGT\n>b\nGGCC\n")
    (tmp_path / "b.faa").write_text(">c\nMKVLA*\n")

    assert new([str(tmp_path / "mine"), f"input={tmp_path / '*.fa*'}"]) == 0
    assert "kind=sequences (DNA, proteins and other sequences" in (out := capsys.readouterr().out)
    assert "the files are FASTA" in out
    assert read_recipe(tmp_path / "mine").clean.normalize == "sequence"

    (tmp_path / "notes.txt").write_text("It rained all day in the valley.")

    assert (
        choose_kind(sample_texts(inputs(tmp_path / "*.fa*", tmp_path / "notes.txt")))[0] == "texts"
    )


@pytest.mark.parametrize(
    ("given", "is_private"),
    [
        ("https://h.example/f.jsonl", False),
        ("https://me:SEKRET@h.example/f.jsonl", True),
        ("{path: s3://b/f.jsonl, store: {fsspec: {headers: {Cookie: SEKRET}}}}", True),
    ],
)
def test_a_recipe_with_secrets_is_for_its_owner_alone(tmp_path, capsys, given, is_private):
    assert new([str(tmp_path / "mine"), f"input={given}", "language=any"]) == 0
    recipe = tmp_path / "mine" / "pipeline.yaml"
    said = capsys.readouterr().out
    assert (recipe.stat().st_mode & 0o777 == 0o600) == is_private
    assert ("mode 600" in said, "SEKRET" in recipe.read_text()) == (is_private, is_private)
    assert "SEKRET" not in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["kind=prose"], "kind: expected one of pages, texts, code, sequences, got 'prose'"),
        (["kind=code", "language=en"], "language=en: kind=code has no language; leave it out"),
    ],
)
def test_mistakes_are_named(tmp_path, capsys, words, said):
    (tmp_path / "a.txt").write_text("x")
    assert new([str(tmp_path / "mine"), f"input={tmp_path / 'a.txt'}", *words]) == 64
    assert said in capsys.readouterr().err
    assert not (tmp_path / "mine").exists()
