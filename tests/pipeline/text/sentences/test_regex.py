import pytest

from clozeline.pipeline.text.sentences.regex import Regex

# A bar marks where a sentence begins; it is not a part of the text.
CASES = {
    "en": [
        "Dr. Smith met Mrs. Jones. |They talked.",
        "J. R. R. Tolkien wrote it. |Nobody else could.",
        "The U.S. Senate met. |It voted at 5 p.m. on Monday.",
        "He lives in the U.S. |The weather is mild.",
        "“Stop!” he said. |“Why?” she asked.",
        "She asked, “Are you sure?” |Nobody answered.",
        "What?! |No way... |Really.",
        "I like apples, etc., and pears. |The end.",
        "Acme Inc. sells e.g. anvils. |Its owner is Mr. Coyote.",
        "(This is inside.) |This is not.",
        "A line that\ngoes on here. |Then ends.",
        "Visit www.example.com or mail a@b.org. |Thanks!",
        "1. Wash the rice.\n|2. Boil it.",
        "He came . |She left.",
        "The train leaves at 9 a.m. |It is never late.",
        "really? |yes! |so it goes, she said. then he left.",
        "See you there :) |Bring cake ;-) and tea. |The ratio is 3 :D is a drive.",
        "It was signed by Mr.\n\n|Nobody knew him.",
        "He lives in the U.S. |He likes it. |Ask John J. He knows.",
        "Cats, dogs etc. |He left. |Cats etc. Smith left.",
        "The first part ends *** |The second begins. |A *** in lower case stays.",
        "The country was at large.[7][8] |It fell.[a] |Nobody said “really?” – he did.",
        "I don't. |You'll find it at No. 5 of Mt. Etna.",
        "It is no country....|It is a town..|So what...what? |See 3.5 and Node.Js.",
        "(We left early. ) |They stayed. |(It rained. ) and it poured.",
        "Under Fed. R. Civ. P. 12(b)(6), it fails. |See 42 U.S.C. § 1983. |They were well fed. |Mary left.",
        "It is 281 F. Supp. 2d 844 (N.D. Cal. 2002). |See U.S. Const. art. III, § 2. |It is 347 U.S. 483. |We agree.",
        "1. The tenant pays. |2. The landlord repairs. |Labs showed Hct. 33.1 in 1999. |5 people came.",
    ],
    "de": [
        "Herr Dr. Müller kam z.B. am Montag. |Er blieb lange.",
        "Am 3. Oktober ist Feiertag. |Am 24. Dezember auch.",
        "Sie fragte: „Kommst du?“ |Er nickte.",
        "Vgl. S. 12 und Abb. 3. |Mehr steht dort nicht.",
        "Die Firma Meier GmbH & Co. KG liefert. |Wir zahlen.",
        "Der 2. Weltkrieg begann 1939. |Er endete 1945.",
        "Sie ist jetzt 20. |Das Haus ist alt.",
        "Papst Johannes Paul II. reiste. |Auch Karl V. reiste.",
        "Vgl. Rn. 5 vom 3. 5. 2011. |Die Klage war begründet.",
    ],
    "fr": [
        "M. Dupont a vu Mme Durand. |Ils ont parlé.",
        "« Bonjour ! » dit-il. |Elle sourit.",
        "Que faire ? |Rien, p. ex. attendre.",
        "J.-P. Sartre écrivit cela. |On le lut.",
        "Né en 52 av. J.-C. à Rome. |Mort ailleurs.",
        "Il fait moins de 2° C. |De nombreux savants le disent.",
        "L'art. 5 renvoie à l’art. L. 121-1. |Il aime l'art. |Paris aussi.",
    ],
    "es": [
        "El Sr. García vio a la Dra. López. |Hablaron mucho.",
        "«¡Alto!», gritó. |Nadie oyó.",
        "Manzanas, peras, etc. |La lista es larga.",
        "Vive en EE.UU. desde 1999. |Le gusta.",
        "Vive en EE. UU. desde 1999. |Murió en el 700 a. C. |Estaban allí, ca. 1600 a. C. |Nadie los vio.",
    ],
    "zh": [
        "今天下雨。|我们不出去。",
        "他说：“走吧。”|然后他走了。",
        "価格は3.5ドルです。|安い。",
        "「はい。」|彼は言った。",
        "我想谈话。|“你要待多久？”|“周二就走。”|他走了。",
        "我们去看《摔跤吧！爸爸》好吗？|好！|他看《三国》。|我也看。",
        "引き下げ幅は３．２９％です。|次に。[1]|最後。",
        "趕快!|如果我可以，你呢?|我不知道 3.5!5。",
    ],
    "ja": [
        "「やめて。」と彼女は言った。|誰も聞かなかった。",
        "『行こう！』って言ったのに。|今日暑いね！|半袖でいい。",
        "2011. 5. 3. に施行された。|以上。",
    ],
    "hy": [
        "Բոլոր արկղերը դատարկ են: |Գնացե՛ք: |Ժամը 12:30 է: |Ասաց` այսպես: ոչ ոք։ |Վերջ։",
    ],
    "hi": [
        "बी.सी. में पुलिस ने जी. डी. पी. पर कहा। |ठीक है।",
        "अगोरा के 50 बाजार थे। |डॉ. ली आगे कहते हैं। |वे चले गए।",
    ],
    "la": [
        "Televisionem spectat. |Stultus est. |Romae habitat.",
    ],
    "ru": [
        "Юлиан был убит в 363 году н. э. |Греция выжила. |Он жил на ул. Ленина с 1912 г. и умер там.",
        "А. С. Пушкин жил в г. Москва. |Он писал стихи, поэмы и т. д. |Все это знают.",
    ],
    "bg": ["Точно под носа ти е. |Том има нос. |Иван Е. Петров дойде."],
    "sk": ['Vlak ide. |,,Číta knihu?" |,,Áno, tzv. Biblia." |Koniec.'],
    "uk": ["У церкві св. Миколая тихо. |Там живе проф. Іваненко."],
    "tr": [
        "Papa VI. Paul konuştu. |2. Ramses hata yaptı. |Atina M.Ö. 5. yüzyılda büyüdü.",
        "Bunu yapan sen. |O al. |Dr. Yılmaz geldi.",
    ],
    "hu": [
        "II. Rákóczi Ferenc hazament. |Dr. Kovács dec. 6. napján is dolgozott. |Vége.",
        "Az 1992. 12. 31. előtti 3. § (2) bekezdése él. |Más nincs.",
    ],
    "pl": [
        "Kaplica św. Stanisława stoi. |Mieszka tam ks. Roguski. |Ma 20 lat.",
        "Na podst. art. 415 k.c. oddalono. |Skargę też.",
    ],
    "ml": ["ഇത് ഡോ. കെ. പി. മോഹനൻ. |ഞാൻ പോയി."],
    "kk": ["Оның не керегі бар? — деді. |Ол кетті! |Кел."],
    "it": [
        "Sono l'Ing. Verdi e questo è l’Avv. Rossi, ad es. Carlo. |Ciao.",
        "Il sig. Brusio e la dott.ssa Verdi parlano. |Nacque nel 63 a.C. |Roma era grande.",
        "Ai sensi dell'art. 5. |Cass. Sez. Un. 12/2010 concorda.",
    ],
    "pt": [
        "O Sr. Silva e a Dra. Souza falaram. |Morreu no séc. 2. |Ninguém viu.",
        "Conforme o art. 5, inc. II, da lei. |O Rel. Min. Mendes decidiu.",
    ],
    "nl": ["Dhr. de Vries kwam, bijv. gisteren. |Hij bleef."],
    "sv": ["Det är hon. |Vi ses kl. 5 med bl.a. Anna. |Hej!"],
    "km": ["គាត់ខឹងយើង ។ |គាត់ទៅផ្ទះ។ |ចប់។"],
    "my": ["သူသွားသည်။ |ဒီနေ့၊ မိုးရွာသည်။"],
    "ur": ["تم نکلو۔ |میں نکلتا ہوں۔"],
    "am": ["ሐኪም ነኝ። |አንተስ? |ተማሪ ነኝ።"],
    "ar": [
        "ذهب الولد إلى المدرسة. |ثم عاد إلى البيت.",
        "يا له من يوم! |الحمد لله.",
        "قال: «تعال هنا.» |ثم ذهب.",
    ],
    "ko": [
        "이 법은 2011. 5. 3. 공포되었다. |2012. 1. 시행된다.",
    ],
    "hr": [
        "Sud je 3. 5. 2011. godine prema čl. 5. Zakona odlučio. |Tužba je odbijena.",
    ],
    "sr": [
        "Уговор важи од 1. 1. 2005. године. |Суд је одлучио.",
    ],
    "sl": [
        "Sodišče je 3. 5. 2011 odločilo. |Konec.",
    ],
    "fi": [
        "Laki tuli voimaan 3. 5. 2011 koko maassa. |Muuta ei ole.",
    ],
}


@pytest.fixture(scope="module")
def splitter():
    return Regex(Regex.Options())


@pytest.mark.parametrize("language", CASES)
def test_boundaries_of_hand_made_cases(splitter, language):
    for case in CASES[language]:
        starts = splitter.starts(case.replace("|", ""), language)
        assert starts == [
            0,
            *(sum(map(len, case.split("|")[:number])) for number in range(1, 1 + case.count("|"))),
        ]


@pytest.mark.parametrize("language", ["en", "en-GB", "zh_Hans", "xx", "und", ""])
def test_any_language_code(splitter, language):
    assert splitter.starts("One. Two.", language) == [0, 5]


def test_empty_and_blank_texts(splitter):
    assert splitter.starts("", "en") == []
    assert splitter.starts("  \n\n ", "en") == [0]
    assert splitter.starts("\n\n One.\n\n", "en") == [0]


def test_thai_and_lao_are_split_into_phrases(splitter):
    text = "สวัสดีครับผมชื่อสมชายและผมอยู่ที่กรุงเทพมหานคร ผมทำงานที่นี่มานานแล้ว"
    assert splitter.starts(text, "th") == splitter.starts(text, "lo") == [0, text.index(" ") + 1]
    assert [splitter.splits_phrases(code) for code in ("th-TH", "lo", "km", "und")] == [
        True,
        True,
        False,
        False,
    ]
    assert splitter.starts(text, "en") == [0]


def test_informal_texts_may_end_sentences_before_lower_case_letters():
    text = "we went home. then we dined with approx. ten of us, e.g. me. so"
    assert Regex(Regex.Options()).starts(text, "en") == [0]
    starts = Regex(Regex.Options(informal=True)).starts(text, "en")
    assert [text[start:].split()[0] for start in starts] == ["we", "then"]
