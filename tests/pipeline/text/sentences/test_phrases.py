from hypothesis import example, given
from hypothesis import strategies as st

from clozeline.pipeline.text.sentences.phrases import Phrases


def split_slowly(text, characters):
    """Return the starts by the rule alone: a newline ends a phrase, and so does a blank after a mark,
    or one after enough characters without a number beside it."""
    starts = [0] if text else []
    begin = len(text) - len(text.lstrip())
    end = len(text.rstrip())
    position = begin
    while position < end:
        if text[position].isspace():
            after = position
            while after < end and text[after].isspace():
                after += 1
            marked = text[position - 1] in "?!" and position - begin > 1
            number = text[position - 1].isdecimal() or text[after].isdecimal()
            long = position - begin >= characters and not number
            if "\n" in text[position:after] or marked or long:
                starts.append(after)
                begin = after

            position = after
        else:
            position += 1

    return starts


@example("aaaaa  a", 6)
@example("ab? 5 ab ab", 2)
@given(st.text(alphabet="ab \n?5", max_size=60), st.integers(1, 9))
def test_phrases_are_those_of_the_rule(text, characters):
    assert Phrases(Phrases.Options(characters=characters)).starts(text, "th") == split_slowly(
        text, characters
    )
