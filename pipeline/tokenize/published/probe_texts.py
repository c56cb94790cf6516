"""200 texts to compare an exported tokenizer with the original: 20 sentences in many scripts, in ten forms each."""

import unicodedata
from typing import Final

_SENTENCES: Final = (
    "The kitten is chasing the ball, isn't it?",
    "In 1969, 1,000,000 people paid $3.50 (about £2.90) each.",
    "Hard work leads to success. Success brings happiness.",
    "def area(r):\n    return 3.14159 * r ** 2  # π r²",
    "https://example.org/a/b?c=d&e=%20f#g user@example.org",
    "Der Straßenbahnfahrer aß süße Äpfel in Köln.",
    "L'été dernier, nous étions à Besançon – c'était très agréable.",
    "El niño comió piñas; ¿cuántas? ¡Muchísimas!",
    "Zażółć gęślą jaźń, rzekł wędrowiec.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "Ο Σίσυφος ανέβηκε στον λόφο. ΟΔΟΣ ΑΘΗΝΑΣ",
    "İstanbul'da ılık bir gün; ISPARTA ve Iğdır.",
    "שלום עולם, מה שלומך היום?",
    "مرحبا بالعالم، كيف حالك؟ ١٢٣",
    "नमस्ते दुनिया, आप कैसे हैं?",
    "สวัสดีชาวโลก วันนี้อากาศดี",
    "他们在公园里散步，天气很好。",
    "これはペンです。東京へ行きます。",
    "안녕하세요 세계, 오늘은 날씨가 좋습니다.",
    "👩\u200d👩\u200d👧 🏳\ufe0f\u200d🌈 👍🏽 ½ ﬁne № ① …“quoted”",
)


def _forms(text: str) -> tuple[str, ...]:
    first, _, rest = text.partition(" ")
    return (
        text,
        f"  {text} ",
        f"{first}  {rest}   {text}",
        f"{text}\n\n{text}\n",
        f"\t{text}\r\n{text}",
        f"{text.upper()} {first}",
        f"({unicodedata.normalize('NFD', text)})",
        f"{first} [MASK] <mask> </s> <extra_0> {rest}",
        f"{first}\u2581{rest}\u00a0{text}\u3000.",
        text.replace(" ", "") * 3,
    )


PROBE_TEXTS: Final = tuple(form for text in _SENTENCES for form in _forms(text))
