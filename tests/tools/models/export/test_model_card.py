import yaml

from clozeline.tools.models.export.model_card import model_card


def test_a_card_guesses_nothing() -> None:
    text = model_card("small", "AutoModel", 1234, {"steps": "7"})
    front = yaml.safe_load(text.split("---")[1])
    assert front == {"library_name": "transformers", "license": "unknown", "language": []}
    assert "| licence | unknown |" in text
    assert "| languages | unknown |" in text
    assert "1,234 parameters" in text
    assert "Tokenizer" not in text
    assert "split_special_tokens" not in text


def test_given_facts_stay_in_their_places() -> None:
    more = {"languages": ["en", "de"], "mark": "[MASK]", "options": {"pooling": False}}
    text = model_card("a|b\nc", "AutoModel", 1, {"k": "x|y"}, licence='"mit": 1', **more)
    front = yaml.safe_load(text.split("---")[1])
    assert front["license"] == '"mit": 1'
    assert front["language"] == ["en", "de"]
    assert "# a\\|b c\n" in text
    assert "| k | x\\|y |" in text
    assert 'AutoTokenizer.from_pretrained("path/to/this/folder")' in text
    assert 'AutoModel.from_pretrained("path/to/this/folder", pooling=False)' in text
    assert "`[MASK]`, are ordinary letters" in text
    assert "tokenizer(text, split_special_tokens=True)" in text
