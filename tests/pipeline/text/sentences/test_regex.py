from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.text.sentences.regex import Regex

# A bar marks where a sentence begins; it is not a part of the text. Cases a rule cannot know are among them on purpose.
CASES = {
    "en": [
        "It rained. |We stayed.",
        "Dr. Smith met Mrs. Jones. |They talked.",
        "J. R. R. Tolkien wrote it. |Nobody else could.",
        "The U.S. Senate met. |It voted at 5 p.m. on Monday.",
        "He lives in the U.S. |The weather is mild.",
        "Pi is 3.14159 and e is 2.718. |Both are irrational.",
        "See Fig. 3 and pp. 12-14. |The rest is clear.",
        "“Stop!” he said. |“Why?” she asked.",
        "He said “Go.” |Then he left.",
        "She asked, “Are you sure?” |Nobody answered.",
        "What?! |No way... |Really.",
        "Well... maybe not. |Perhaps later.",
        "I like apples, pears, etc. |The end.",
        "I like apples, etc., and pears. |The end.",
        "Acme Inc. sells e.g. anvils. |Its owner is Mr. Coyote.",
        "(This is inside.) |This is not.",
        "[See the notes.] |Next.",
        "A title\n\n|A paragraph without a full stop\n\n|Another one.",
        "A line that\ngoes on here. |Then ends.",
        "Visit www.example.com or mail a@b.org. |Thanks!",
        "Version 2.0.1 is out. |Get it at example.com/v2.0.1.tar.gz today.",
        "1. Wash the rice.\n|2. Boil it.",
        "On Jan. 5 it snowed. |In Feb. it thawed.",
        "The train leaves at 9 a.m. |It is never late.",
        "No. 5 is alive. |No. |He said no. |Really.",
        "Is that so? |Yes! |Good.",
        "He paid $4.50. |She paid £3.",
        "The file is called .bashrc and it matters. |Edit it.",
        "Wait – what? |I mean it.",
        "They came, saw... |And conquered.",
        "So did I. |The others stayed.",
        "He worked at Apple Inc. |Tim did too.",
        "We fell back on Plan B. |Nobody cared.",
        "really? |yes! |so it goes, she said. then he left.",
        "“Why?” she asked. |‘Go!’ he said.",
        "See you there :) |Bring cake ;-) and tea. |The ratio is 3 :D is a drive.",
        "It was signed by Mr.\n\n|Nobody knew him.",
        "He was 33. |Then he left. |In 1999. |It rained.",
        "100. The item\n|1999. |The year",
        "He lives in the U.S. |He likes it. |Ask John J. He knows.",
        "Cats, dogs etc. |He left. |Cats etc. Smith left.",
        "The first part ends *** |The second begins. |A *** in lower case stays.",
        "Thanks ___ |Anna",
        "(We left early. ) |They stayed. |(It rained. ) and it poured.",
    ],
    "de": [
        "Es regnet. |Wir bleiben.",
        "Herr Dr. Müller kam z.B. am Montag. |Er blieb lange.",
        "Am 3. Oktober ist Feiertag. |Am 24. Dezember auch.",
        "Das geschah 1999. |Danach war Ruhe.",
        "Es gibt Äpfel, Birnen usw. |Die Liste ist lang.",
        "Sie fragte: „Kommst du?“ |Er nickte.",
        "„Halt!“, rief er. |Niemand hörte.",
        "Das kostet 3,50 Euro. |Das ist ca. 10 % mehr als im Vorjahr.",
        "Vgl. S. 12 und Abb. 3. |Mehr steht dort nicht.",
        "Die Firma Meier GmbH & Co. KG liefert. |Wir zahlen.",
        "Das ist d.h. war so. |Punkt.",
        "Der 2. Weltkrieg begann 1939. |Er endete 1945.",
        "Ludwig XIV. war König. |Er regierte lange.",
        "Nr. 7 lebt! |Wirklich?",
    ],
    "fr": [
        "Il pleut. |Nous restons.",
        "M. Dupont a vu Mme Durand. |Ils ont parlé.",
        "« Bonjour ! » dit-il. |Elle sourit.",
        "Il a dit : « Partons. » |Puis il est parti.",
        "Que faire ? |Rien, p. ex. attendre.",
        "Voir p. 12 et fig. 3. |C'est clair.",
        "Des pommes, des poires, etc. |La liste est longue.",
        "J.-P. Sartre écrivit cela. |On le lut.",
        "Né en 52 av. J.-C. à Rome. |Mort ailleurs.",
        "Non ! |Jamais… |Peut-être.",
        "Cela coûte 3.50 francs. |C'est cher.",
    ],
    "es": [
        "Llueve. |Nos quedamos.",
        "El Sr. García vio a la Dra. López. |Hablaron mucho.",
        "¿Qué hora es? |¡Las tres! |Vamos.",
        "«¡Alto!», gritó. |Nadie oyó.",
        "Manzanas, peras, etc. |La lista es larga.",
        "Véase pág. 12 y fig. 3. |Está claro.",
        "Vive en EE.UU. desde 1999. |Le gusta.",
        "Cuesta 3.50 euros. |Es caro.",
    ],
    "zh": [
        "今天下雨。|我们不出去。",
        "你好！|你是谁？|我是小明。",
        "他说：“走吧。”|然后他走了。",
        "圆周率是3.14。|这是常识。",
        "真的吗？！|是的……我想是。",
        "（见附录。）|完。",
        "第一段\n\n|第二段。",
        "価格は3.5ドルです。|安い。",
        "「はい。」|彼は言った。",
    ],
    "ar": [
        "ذهب الولد إلى المدرسة. |ثم عاد إلى البيت.",
        "هل أنت بخير؟ |نعم، أنا بخير.",
        "يا له من يوم! |الحمد لله.",
        "السعر ٣.٥ دولار. |هذا رخيص.",
        "قال: «تعال هنا.» |ثم ذهب.",
        "الفقرة الأولى\n\n|الفقرة الثانية",
    ],
}
ALL = [(language, case) for language, cases in CASES.items() for case in cases]


@pytest.fixture(scope="module")
def splitter():
    return Regex(Regex.Options())


def boundaries(case):
    parts = case.split("|")
    return {sum(map(len, parts[:number])) for number in range(1, len(parts))}


def test_boundaries_of_hand_made_cases(splitter):
    assert len(ALL) >= 60
    right = wanted = found = 0
    for language, case in ALL:
        gold = boundaries(case)
        ours = set(splitter.starts(case.replace("|", ""), language)) - {0}
        right, wanted, found = right + len(gold & ours), wanted + len(gold), found + len(ours)
    assert 2 * right / (wanted + found) >= 0.97


def test_the_worked_example(splitter):
    text = "Dr. No met J. R. Smith. “Hi!” he said. 3.5 km."
    assert splitter.starts(text, "en") == [0, 24, 39]
    assert [text[24:39], text[39:]] == ["“Hi!” he said. ", "3.5 km."]


@pytest.mark.parametrize("language", ["en", "en-GB", "zh_Hans", "xx", "und", ""])
def test_any_language_code(splitter, language):
    assert splitter.starts("One. Two.", language) == [0, 5]


def test_empty_and_blank_texts(splitter):
    assert splitter.starts("", "en") == []
    assert splitter.starts("  \n\n ", "en") == [0]
    assert splitter.starts("\n\n One.\n\n", "en") == [0]


# Characters that the rules look at, in every order.
RULED = st.text(st.sampled_from("aA1 .!?…。！\n\t\u00a0\u2028»”')]«“(,;-DrtcJ中ن؟"), max_size=60)


@settings(max_examples=1000, deadline=None)
@given(text=st.one_of(RULED, st.text(max_size=60)), language=st.sampled_from(["en", "de", "fr", "es", "zh", "ar"]))
def test_offsets_tile_the_text(splitter, text, language):
    starts = splitter.starts(text, language)
    bounds = [*starts, len(text)]
    assert "".join(text[a:b] for a, b in pairwise(bounds)) == text
    assert not text or starts[0] == 0
    assert all(a < b for a, b in pairwise(bounds))
    assert not any(text[start].isspace() for start in starts[1:])


def test_informal_texts_may_end_sentences_before_lower_case_letters():
    text = "we went home. then we dined with approx. ten of us, e.g. me. so"
    assert Regex(Regex.Options()).starts(text, "en") == [0]
    starts = Regex(Regex.Options(informal=True)).starts(text, "en")
    assert [text[start:].split()[0] for start in starts] == ["we", "then"]
