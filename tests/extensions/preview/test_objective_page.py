"""The page computes what the pipeline makes and what the model reads, for the same choice."""

import json
import random
import shutil
import subprocess
from dataclasses import asdict
from html import unescape
from pathlib import Path

import numpy as np
import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.extensions.preview import corrupt_text, objective_page
from clozeline.extensions.preview.attention_picture import attention_grids, example_tensors
from clozeline.extensions.preview.commands.show import main as show_main
from clozeline.extensions.preview.objective_page.page import OPTIONS, choice_of
from clozeline.extensions.preview.objective_page.page import objective_page as page_of
from tests.pages import checked

KERNELS = Path(objective_page.__file__).with_name("kernels.js").read_text()
NODE = shutil.which("node")
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium")
SENTENCES = 500
RATES = {
    **dict.fromkeys(
        ("masked_lm", "denoising_autoencoding", "next_sentence_prediction"), "mask_rate"
    ),
    **dict.fromkeys(("span_corruption", "text_infilling", "token_deletion"), "noise_density"),
    "permuted_lm": "prediction_rate",
    "mass": "mask_rate",
}
WORDS = [
    *"the kitten is chasing Kätzchen naïve ３ 42 x_1 न हिन्दी 人 😀 <script> </script>".split(),
    *'&amp; "quoted" it\'s constructor 1 toString … e.g. semi- $ é e\u0301 ﬁ ½'.split(),
    "a\u00a0b",
    "\u200b",
]

MAKE = """
const made = cases.map(({ name, setup, text, partner, choice, abbreviations }) => {
  const read = (each) => readText(each, abbreviations);
  return KERNELS[name](setup, read(text), choice, read(partner));
});
"""


def random_text(draw, sentences):
    made = []
    for _ in range(sentences):
        words = draw.choices(WORDS, k=draw.randint(2, 9))
        made.append(" ".join(["The", *words]) + draw.choice([".", "!", "?", "?!", '."', "..."]))
    return draw.choice([" ", "  ", "\n"]).join(made)


def corrupted(draw, name):
    """An example of random options and of a random text that the objective can corrupt."""
    options = dict(OPTIONS[name])
    if name in RATES:
        options[RATES[name]] = draw.choice([0.2, 0.4, 0.6])
    if name == "replaced_token_detection":
        options["replacement"] = "uniform"
    text = random_text(draw, draw.randint(2, 4))
    variant = draw.randrange(1000)
    others = (random_text(draw, 3), random_text(draw, 2))
    return text, corrupt_text({"name": name, **options}, text, others=others, variant=variant)


def expected(shown):
    """Rows and grids of an example by the tensors that a model reads."""
    tensors = example_tensors(shown)
    words = shown.codec.words
    encoder_decoder = "decoder_input_ids" in tensors

    def row(prefix, title):
        ids = tensors[f"{prefix}input_ids"]
        in_order = torch.arange(ids.shape[1])[None]
        positions = tensors.get(f"{prefix}position_ids", in_order)
        return {"title": title, "input": words(ids[0].tolist()), "positions": positions[0].tolist()}

    rows = [row("", "encoder" if encoder_decoder else "row")]
    if encoder_decoder:
        rows.append(row("decoder_", "decoder"))
    for each in rows:
        each["labels"] = [None] * len(each["input"])
        each["segments"] = None
    if "rank" in tensors:
        rows[0]["labels"] = [str(rank) if rank else None for rank in tensors["rank"][0].tolist()]
    else:
        ids = words(tensors["label_ids"].tolist())
        for index, label in zip(tensors["label_index"].tolist(), ids, strict=True):
            rows[-1]["labels"][index] = label
    if shown.objective.architecture == "encoder":
        segments = tensors["type_ids"][0].tolist() if "type_ids" in tensors else None
        rows[0]["segments"] = segments or [0] * len(rows[0]["input"])
    grids = [
        {
            "title": grid.title,
            "rows": list(grid.rows),
            "columns": list(grid.columns),
            "reads": grid.reads.tolist(),
        }
        for grid in attention_grids(shown)
    ]
    return {"rows": rows, "grids": grids}


@pytest.fixture(scope="module")
def drawn():
    """Texts with what was drawn, and what the page must make of them."""
    draw = random.Random(5)
    names = list(OPTIONS)
    cases = []
    answers = []
    pages = {}
    while len(cases) < SENTENCES:
        name = names[len(cases) % len(names)]
        try:
            text, shown = corrupted(draw, name)
        except ConfigurationError:
            continue  # two texts are one sentence
        if name not in pages:
            pages[name] = json.loads(data_of(page_of(shown, text)))
        partner = shown.codec.words(shown.sample.columns.get("partner_ids", np.zeros(0, int)))
        choice = asdict(choice_of(shown))
        cases.append(
            {
                "name": name,
                "setup": pages[name]["objectives"][name],
                "abbreviations": pages[name]["abbreviations"],
                "text": text,
                "partner": " ".join(partner),
                "choice": choice,
            }
        )
        answers.append(expected(shown))
    return cases, answers


def data_of(page):
    """The data that a page gives to its script."""
    checked(page, scripts=3)
    return page.partition("<script id=data type=application/json>")[2].partition("</script>")[0]


def require_equal(made, drawn):
    cases, answers = drawn
    for case, result, answer in zip(cases, made, answers, strict=True):
        rows = [{key: row[key] for key in answer["rows"][0]} for row in result["rows"]]
        assert rows == answer["rows"], case
        assert result["grids"] == answer["grids"], case


@pytest.mark.skipif(NODE is None, reason="no Node.js")
def test_the_script_makes_what_the_pipeline_makes(drawn, tmp_path):
    script = tmp_path / "check.js"
    written = (
        f"{KERNELS}\nconst cases = {json.dumps(drawn[0])};{MAKE}console.log(JSON.stringify(made))"
    )
    script.write_text(written)
    done = subprocess.run([NODE, script], capture_output=True, text=True, check=True)
    require_equal(json.loads(done.stdout), drawn)


def browse(page, folder, script):
    """What a page holds after a script has run on it."""
    file = folder / "page.html"
    file.write_text(page.replace("</body>", f"<script>{script}</script></body>"))
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/user"]
    done = subprocess.run(
        [BROWSER, *options, "--dump-dom", file.as_uri()], capture_output=True, text=True, check=True
    )
    return json.loads(unescape(done.stdout.rpartition("RESULT")[2].rpartition("END")[0]))


SAY = """
const say = (value) => document.body.append(`RESULT${JSON.stringify(value)}END`);
const hit = (word) => [...document.querySelectorAll("#words button")].find((each) => each.firstChild.data === word).click();
const cells = (row) => [...document.querySelectorAll(".row")].at(-1).rows[row].innerText.split("\\t").slice(1);
const choose = (id, value) => { const field = document.getElementById(id); field.value = value; field.dispatchEvent(new Event("input")); };
"""


@pytest.mark.slow
@needs_browser
def test_a_browser_makes_what_the_pipeline_makes(drawn, tmp_path):
    page = page_of(corrupt_text("masked_lm", "It rains."), "It rains.")
    cases = json.dumps(drawn[0]).replace("<", "\\u003c")
    made = browse(page, tmp_path, f"{SAY}const cases = {cases};{MAKE}say(made);")
    require_equal(made, drawn)


@needs_browser
def test_words_are_typed_and_clicked(tmp_path):
    """As a student does it: masked, replaced, kept; then a prefix, an order and a sentence."""
    file = tmp_path / "shown.html"
    assert show_main(["masked_lm", "It <script>say(1)</script> rains.", f"html={file}"]) == 0
    script = f"""{SAY}
    const found = {{ differs: !document.getElementById("differs").hidden }};
    choose("text", "The kitten is chasing the ball. It rolls <b>away</b>.");
    ["kitten", "kitten", "kitten", "is", "chasing", "chasing", "ball", "ball", "ball"].forEach(hit);
    found.masked = [cells(0), cells(3)];
    choose("objective", "permuted_lm");
    [".", "The", "is", "ball", "The"].forEach(hit);
    found.permuted = cells(3);
    choose("objective", "sentence_reordering");
    found.reordered = cells(3);
    found.source = document.querySelector(".row").rows[0].innerText.split("\\t").slice(1);
    found.grids = [...document.querySelectorAll("#grids b")].map((each) => each.textContent);
    found.axes = [...document.querySelectorAll("#grids small")].map((each) => each.textContent);
    found.markup = document.querySelectorAll("#words b, #rows b").length;
    say(found);
    """
    found = browse(file.read_text(), tmp_path, script)
    first = ["The", "kitten", "is", "chasing", "the", "ball", "."]
    second = ["It", "rolls", "<", "b", ">", "away", "<", "/", "b", ">", "."]
    none = ["__"]

    assert not found["differs"]
    assert found["masked"] == [
        ["[CLS]", "The", "kitten", "[MASK]", "hat", "the", "ball", ".", *second, "[SEP]"],
        [*none * 3, "is", "chasing", *none, "ball", *none * (len(second) + 2)],
    ]
    assert [found["permuted"][at] for at in (1, 2, 3, 6, 7)] == ["5", "__", "3", "4", "2"]
    assert found["source"] == ["<s>", *second, *first, "</s>"]
    assert found["reordered"] == [*first, *second, "</s>"]
    assert found["grids"] == ["encoder", "decoder", "cross-attention"]
    assert found["axes"][-2:] == ["row: decoder", "column: encoder"]
    assert found["markup"] == 0


@needs_browser
@pytest.mark.parametrize(
    "words",
    [
        ["masked_lm", "Dr. Smith rains.", "attention=left_to_right"],
        ["corrective_lm", "It is raining here."],
        ["prefix_lm", "It is raining.", "architecture=encoder_decoder"],
    ],
)
def test_a_page_says_where_its_example_is_another(words, tmp_path):
    file = tmp_path / "shown.html"
    assert show_main([*words, f"html={file}"]) == 0
    script = f"{SAY}say(document.getElementById('differs').hidden);"
    assert browse(file.read_text(), tmp_path, script) is False
