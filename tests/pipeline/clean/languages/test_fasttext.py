"""Languages by a model of fastText: its labels, as the library gives them, under the codes of a
recipe."""

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.clean.language_step import LanguageStep
from clozeline.pipeline.clean.languages import find_labels
from clozeline.pipeline.clean.unit_counts import UnitCounts
from clozeline.pipeline.execution.stages import check_recipe
from clozeline.pipeline.registries import LANGUAGES
from tests.pipeline.clean.cleaning import recipe_for, run_clean
from tests.pipeline.fasttext_languages import ENGLISH, FRENCH, MODEL
from tests.refusals import refused

GERMAN = "Alle Menschen sind frei und gleich an Würde und Rechten geboren."


def options_in(folder):
    return {"path": str(MODEL)}


def identifier(**options):
    return LANGUAGES.resolve({"name": "fasttext", **options_in(None), **options})


def test_language_and_score_are_those_of_the_library():
    import fasttext

    library = fasttext.load_model(str(MODEL))
    labels, scores = library.predict(FRENCH, k=1)
    noisy = FRENCH.replace(" en ", "\nen\t") + " 1789 https://example.org/egalite"

    assert identifier().build().identify(FRENCH) == ("fr", pytest.approx(min(1.0, scores[0])))
    assert labels == ("__label__fr",)
    assert identifier().build().identify(noisy)[0] == "fr"
    assert len(identifier().build().languages()) == 176
    assert identifier().build().identify("naissent 1789")[0] == "und"

    # sr .30, hr .27
    serbian_or_croatian = "Sva ljudska bića rađaju se slobodna i jednaka u dostojanstvu i pravima."
    assert identifier().build().identify(serbian_or_croatian)[0] == "und"


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        (["de"], [GERMAN]),
        (["deu_Latn", "eng_Latn"], [ENGLISH, GERMAN]),
        (["fre"], [FRENCH]),
        (["sq"], []),
        ([], [ENGLISH, FRENCH, GERMAN]),
    ],
)
def test_keep_names_labels_by_any_code_of_their_language(keep, kept):
    rule = LanguageStep(identifier(keep=keep), UnitCounts(0, 0.0))
    assert [text for text in (ENGLISH, FRENCH, GERMAN) if not rule.judge(text)[2]] == kept


def test_labels_get_codes():
    named = identifier(codes={"de": "deu_Latn", "als": "gsw"}, keep=["de"]).build()

    assert named.identify(GERMAN)[0] == "deu_Latn"
    assert {"deu_Latn", "gsw"} < named.languages()
    assert not {"de", "als"} & named.languages()

    with refused(r"has no label __label__de"):
        identifier(codes={"__label__de": "de"}).build()


def test_codes_with_scripts_are_labels_of_some_models(tmp_path):
    """The same model with labels as NLLB's has them."""
    content = MODEL.read_bytes()
    labels = {"de": "deu_Latn", "en": "eng_Latn", "zh": "zho_Hans", "no": "nob_Latn"}
    for old, new in labels.items():
        content = content.replace(f"__label__{old}\0".encode(), f"__label__{new}\0".encode())
    path = tmp_path / "model.ftz"
    path.write_bytes(content)

    chosen = identifier(path=str(path), keep=["de", "eng_Latn", "no", "zh"])
    rule = LanguageStep(chosen, UnitCounts(0, 0.0))
    assert rule.judge(GERMAN)[::2] == ("deu_Latn", "")
    assert rule.judge(ENGLISH)[::2] == ("eng_Latn", "")
    assert rule.judge(FRENCH)[2] == "language"
    known = identifier(path=str(path)).build().languages()
    assert find_labels("zho_Hant", known) == []
    assert find_labels("cmn", known) == ["zho_Hans"]
    assert find_labels("nb", known) == ["nob_Latn"]
    assert find_labels("sq", known) == ["sq"], "a label of this name, so `als` is another language"
    assert find_labels("sq", known - {"sq"}) == ["als"]


def test_an_unknown_code_is_answered_by_labels(tmp_path):
    (tmp_path / "a.txt").write_text(ENGLISH)
    clean = {
        "language": {
            "name": "fasttext",
            "path": str(MODEL),
            "keep": ["zho_Hant", "srp_Latn", "xyz"],
        }
    }

    with pytest.raises(ConfigurationError) as caught:
        check_recipe(recipe_for([str(tmp_path / "a.txt")], tmp_path / "out", clean))

    assert "does not know the language 'zho_Hant'; did you mean 'zh'?" in str(caught.value)
    assert "'xyz'" in str(caught.value)
    assert "srp_Latn" not in str(caught.value)  # the model's `sh`


def test_another_model_cleans_again(tmp_path):
    """The content of the file decides, not its name."""
    (tmp_path / "a.txt").write_text(ENGLISH)
    model = tmp_path / "model.ftz"
    model.write_bytes(MODEL.read_bytes())
    clean = {"language": {"name": "fasttext", "path": str(model)}, "filters": []}

    first = run_clean([str(tmp_path / "a.txt")], tmp_path / "out", clean)
    again = run_clean([str(tmp_path / "a.txt")], tmp_path / "out", clean)
    model.write_bytes(MODEL.read_bytes() + b"\0")
    changed = run_clean([str(tmp_path / "a.txt")], tmp_path / "out", clean)

    made = [each.records[0].made for each in (first, again, changed)]
    assert made[0] == made[1] != made[2]
    assert first.documents[0].language == "en"


@pytest.mark.parametrize("content", [b"", b"not a model " * 99])
def test_a_damaged_model_is_refused_before_the_work(tmp_path, content):
    (tmp_path / "a.txt").write_text(ENGLISH)
    (tmp_path / "model.bin").write_bytes(content)
    clean = {"language": {"name": "fasttext", "path": str(tmp_path / "model.bin")}}
    with refused(r"model\.bin: expected a fastText classifier"):
        check_recipe(recipe_for([str(tmp_path / "a.txt")], tmp_path / "out", clean))
