"""Templates in sentences, as pages of the English and German Wikipedia show them.

Right values by hand.
"""

import random

import pytest

from clozeline.pipeline.ingest.readers.mediawiki import strip_markup

SHOWN = [
    # marks and blanks
    ("built in 1848{{snd}}1851", "built in 1848 – 1851"),
    ("1848{{spaced ndash}}27", "1848 – 27"),
    ("1848{{Spaced_en_dash}}27", "1848 – 27"),
    ("1848{{ndash}}27, so{{mdash}}thus, a{{nbsp}}b{{·}}c", "1848–27, so—thus, a b · c"),
    ("a{{!}}b {{=}} c", "a|b = c"),
    # measures and numbers
    ("At {{convert|1300|mi|km}}, Alabama", "At 1,300 mi, Alabama"),
    ("{{cvt|1,000,000|ha}} of land", "1,000,000 ha of land"),
    ("{{convert|93|m|ft|abbr=off|sp=us}} high", "93 m high"),
    ("{{Convert | 3 | to | 5 | km | mi | adj=on }}", "3 to 5 km"),
    ("{{convert|3|-|5|km}} {{convert|2|x|4|m|ft}}", "3–5 km 2 × 4 m"),
    ("{{convert|5|ft|11|in|cm|0}} tall", "5 ft 11 in tall"),
    ("{{convert|100|km|0}} {{convert|20|C|F}} {{convert|7|km2|sqmi|1}}", "100 km 20 °C 7 km²"),
    (
        "{{formatnum:12345}} {{FORMATNUM:1234567.5}} {{formatnum:1234|R}} {{formatnum:x}}",
        "12,345 1,234,567.5 1234 x",
    ),
    ("{{formatnum:{{nowrap|12345}}}} {{formatnum:-10}}&nbsp;°C", "12,345 \u221210\u00a0°C"),
    (
        "{{val|1.5|0.2|e=6|u=m}} {{val|299792458|u=m|up=s}} {{val|1.234|(25)}}",
        "1.5±0.2×10^6 m 299792458 m/s 1.234(25)",
    ),
    ("{{frac|1|2}} {{frac|2}} {{sfrac|3|1|4}} {{Bruch|3|4}}", "1/2 1/2 3 1/4 3/4"),
    ("2{{e|6}} {{10^|-3}} 10{{sup|6}} H{{sub|2}}O", "2×10^6 10^-3 10^6 H2O"),
    ("{{US$|5 million}} {{GBP|3}}", "US$5 million £3"),
    # words
    ("the word {{lang|fr|''bonjour''}} and {{lang-de|Haus}}", "the word bonjour and Haus"),
    (
        "{{langx|ru|Москва|Moskva}} {{transl|ru|ISO|Moskva}} {{transliteration|ru|Moskva}}",
        "Москва Moskva Moskva",
    ),
    ("{{laS|lux}}, {{enS|light}}", "lux, light"),
    ("{{nowrap|a b}} {{nobr|1=c = d}} {{small|e}} {{abbr|km|kilometre}}", "a b c = d e km"),
    ("{{IPA|ˈlʌndən}} {{IPA|en|ˈbɔ̃}} {{color|red|f}} {{ill|Name|de|Nom}}", "ˈlʌndən ˈbɔ̃ f Name"),
    ('{{nihongo|Edo|江戸|Edo}} {{"|Zitat}}', "Edo (江戸, Edo) „Zitat“"),
    (
        "{{HMS|Irresistible|1898|6}}, {{ship|RMS|Titanic||2}}{{'s}} {{sortname|Ada|Lovelace}} of "
        "{{flag|France}}",
        "HMS Irresistible, RMS Titanic's Ada Lovelace of France",
    ),
    ("{{chem|H|2|O}} {{linktext|a|b}} {{audio|a.ogg|listen}} {{flagicon|France}}", "H2O ab listen"),
    ("{{blockquote|To be.}}", "To be."),
    (
        "{{as of|2011}} {{as of|2011|3|lc=y}} {{As of|2011|3|5}} {{as of|2011|3|5|df=US|alt=then}}",
        "As of 2011 as of March 2011 As of 5 March 2011 then",
    ),
    ("{{circa|1850}} {{c.|1850|1860}} {{fl.|1200}}", "c. 1850 c. 1850 – c. 1860 fl. 1200"),
    ("né le {{date de naissance-|17|octobre|1973}}", "né le 17 octobre 1973"),
    # templates in templates, and all others
    ("{{nowrap|{{lang|fr|''un''}}{{snd}}{{unknown|x}}deux}}", "un – deux"),
    ("{{Infobox|a={{convert|40|m}}}}Text {{Vorlage:nowrap|b}} {{Template:Snd}}c", "Text b  – c"),
]


@pytest.mark.parametrize(("markup", "text"), SHOWN)
def test_templates_in_sentences_are_shown(markup, text):
    assert strip_markup(markup) == text


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "12,345.5"),
        ("de", "12.345,5"),
        ("fr", "12\u202f345,5"),
        ("hi", "12,345.5"),
        ("xx-none", "12345.5"),
    ],
)
def test_numbers_are_written_as_the_wiki_does(language, text):
    assert strip_markup("{{formatnum:12345.5}}", language=language) == text


def test_a_number_of_another_form_is_never_another_number():
    """A comma is a decimal sign for others than the English."""
    assert (
        strip_markup("{{unité|2000,5|m}} {{unité|2 000|m}} {{nb|7}}", language="fr")
        == "2000,5 m 2 000 m 7"
    )
    assert (
        strip_markup("{{convert|1/2|mi}} {{convert|1+1/2|in}} {{convert|~5|km}}")
        == "1/2 mi 1 1/2 in ~5 km"
    )
    assert strip_markup(
        "{{formatnum:1_000}} {{formatnum:NaN}} {{formatnum:" + "9" * 500 + "}}"
    ).startswith("1_000 NaN 999")


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("Xi ({{IPAc-en|x}}; 1850) was", "Xi (1850) was"),
        ("Xi ({{zh|x}}, {{unknown}}; born 1850)", "Xi (born 1850)"),
        ("Xi ({{zh|x}}) was ({{zh}}, {{zh}}) it", "Xi was it"),
        ("Xi (born 1850; {{zh|x}}) was", "Xi (born 1850) was"),
        ("Xi {{citation needed}}. Then{{cn}}, {{cn}} so {{cn}} it", "Xi. Then, so it"),
        ("f() and a[ ] ( ) stay (; )", "f() and a[ ] ( ) stay (; )"),
        ("<code>f({{{x}}}; {{unknown}})</code>", "f(; )"),
    ],
)
def test_no_marks_stay_around_a_template_without_text(markup, text):
    assert strip_markup(markup) == text


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("10<sup>6</sup>, 10<sup>&minus;6</sup>, 5 km<sup>2</sup>", "10^6, 10^−6, 5 km^2"),
        (
            "''x''<sup>2</sup>, note<sup>1</sup>, 1<sup>st</sup>, H<sub>2</sub>O",
            "x2, note1, 1st, H2O",
        ),
        ("about 10<sup>4</sup> a day", "about 10^4 a day"),
    ],
)
def test_exponents_are_marked_as_on_pages(markup, text):
    assert strip_markup(markup) == text


def test_templates_of_any_arguments_give_text():
    draw = random.Random(1)
    names = [
        "convert",
        "val",
        "as of",
        "frac",
        "formatnum",
        "circa",
        "nowrap",
        "lang",
        "e",
        "nihongo",
        "unité",
        "snd",
    ]

    for _ in range(2000):
        arguments = [
            draw.choice(["", "1", "-", "x=", "3=c", "{{snd}}", "m", "1e9", "[[a]]", "٣", "½"])
            for _ in range(6)
        ]
        markup = (
            "{{"
            + "|".join(
                [
                    draw.choice(names),
                    *arguments[: draw.randrange(7)],
                ]
            )
            + "}}"
        )
        assert not set("{}|\0") & set(strip_markup(f"a {markup} b"))


def test_templates_in_templates_take_no_time_of_their_own():
    """Each argument is read once, however deep it is, and one of a template that shows nothing
    never."""
    deep = "{{nowrap|" * 300 + "x" + "}}" * 300
    wide = "{{nowrap|" + "a {{unknown|b}}" * 5000 + "}}"
    assert strip_markup(deep) is not None
    assert strip_markup(wide).startswith("a a a")
