"""Abbreviations, ordinals and first words of sentences by language."""

from typing import Final, NamedTuple


class LanguageRules(NamedTuple):
    """The rules of a language; words are in lower case, without their final full stop.

    In `maybe`, a word with a capital is found as it is written: `Fed. R. Civ. P.`, but `well fed.`
    """

    ordinals: bool  # reads `3.` and `III.` as ordinals before names (`3. Oktober`)
    never: frozenset[str]  # a full stop after one of these ends no sentence
    numeric: frozenset[str]  # ends no sentence before a number
    maybe: frozenset[str]  # ends a sentence only before one of `openers`
    openers: frozenset[str]  # words that often start a sentence
    ends: frozenset[str]  # letters, also several as in `a. C.`, that end one before a capital


def _make_rules(
    never: str = "",
    numeric: str = "",
    maybe: str = "",
    openers: str = "",
    ends: str = "",
    *,
    ordinals: bool = False,
) -> LanguageRules:
    lists = (
        f"mr mrs ms dr prof st mt {never}",
        f"no nr n° nº № p pp fig vol ca art arts {numeric}",
        maybe,
        openers,
        ends,
    )
    return LanguageRules(ordinals, *(frozenset(words.split()) for words in lists))


_RULES: Final = {
    "en und": _make_rules(
        never=(
            "messrs mme rev hon sr ft gen col lt sgt capt cmdr maj adm gov pres sen rep supt ex "
            "exh e.g i.e eg ie viz cf vs v al approx dept est ext misc ave blvd"
        ),
        numeric=(
            "nos figs vols ch chap sec secs eq eqs par para ed eds pt tab ref refs ver jan feb mar "
            "apr jun jul aug sep sept oct nov dec id nn ann hct hgb hb wbc rbc plt bun inr cr temp "
            "resp wt ht bp hr"
        ),
        maybe=(
            "i amend etc inc ltd co corp bros jr ph.d m.d b.a m.a b.sc m.sc u.s u.k u.n e.u u.s.a "
            "d.c a.m p.m a.d b.c jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu "
            "fri sat sun Fed Civ Crim Evid Proc Bankr Supp App Cir Ct Dist Div Sup Super Cl Pub "
            "Stat Reg Regs Cong Rec Const Bus Veh Fam Lab Rptr So Dkt Compl Def Pl Mot Br Tr Rep "
            "Ins Mut Auto Mfg Ry Bd Educ Univ Ala Ariz Ark Cal Colo Conn Del Fla Ga Ill Ind Kan Ky "
            "La Mass Md Mich Minn Miss Mont Neb Nev Okla Pa Tenn Tex Va Vt Wash Wis Wyo"
        ),
        openers=(
            "the a an this that these those he she it we they i you his her its our their my there "
            "here in on at as but and so if when while after before for from with by to what who "
            "where why how however then no yes not all some many most one two both each every "
            "another such although because since"
        ),
    ),
    "de": _make_rules(
        never=(
            "hr hrn fr dr prof dipl ing st sel z.b d.h u.a i.d.r bzw vgl ca sog evtl ggf inkl exkl "
            "insb mind max min geb gest verh allg bes dgl einschl engl franz lat griech kath ev jh "
            "jhd z.t z.zt u.u o.ä s.o s.u i.a a.d v.a m.e d.i zzgl abzgl gem lt rd str tel phil "
            "med jur rer nat theol hl az"
        ),
        numeric="abs bd s kap abb tab jg h aufl ziff § vers rn rdnr rz anm bl",
        maybe=(
            "usw etc u.s.w v.chr n.chr jan feb mär apr jun jul aug sep sept okt nov dez gmbh ag co "
            "kg mio mrd tsd mo fr sa"
        ),
        openers=(
            "der die das ein eine er sie es wir ihr ich du dies diese dieser dieses jene im in am "
            "an auf aus bei mit nach seit von zu als wenn weil und aber doch denn so da dann hier "
            "dort nun nur auch für durch über unter vor während obwohl nachdem man sein seine was "
            "wer wie wo warum"
        ),
        ordinals=True,
    ),
    "fr": _make_rules(
        never=(
            "m mm mme mmes mlle mlles dr pr me mgr st ste vve cap lt col gén p.ex c.-à-d cf env av "
            "apr boul bd dép éd hab ex"
        ),
        numeric="nos chap al éd tab sect civ com soc crim janv févr avr juil sept oct nov déc",
        maybe="cass etc s.a s.a.r.l r.a.t.p s.n.c.f u.e o.n.u janv févr avr juil sept oct nov déc",
        ends="j.-c",
        openers=(
            "le la les l un une des il elle ils elles on nous vous je tu ce cet cette ces son sa "
            "ses leur leurs mais et ou donc or car dans en à au aux de du d pour par avec sans sur "
            "sous après avant quand lorsque si comme c qui que quoi où pourquoi comment alors puis "
            "ainsi cependant"
        ),
    ),
    "es": _make_rules(
        never=(
            "sr sra sres srta srtas dr dra dres prof profa lic ing arq gral cnel tte cap d dña dn "
            "fr sto sta mons p.ej ej cf vs av avda aprox depto dpto admón ee excmo excma ilmo ilma "
            "ud uds vd vds"
        ),
        numeric=(
            "núm núms pág págs cap párr apdo inc ed tab ene feb mar abr may jun jul ago sep sept "
            "oct nov dic"
        ),
        ends="a.c d.c",
        maybe="etc s.a s.l ee.uu e.e.u.u u.e a.m p.m cía ltda jr c.v",
        openers=(
            "el la los las lo un una unos unas él ella ellos ellas yo tú nosotros usted ustedes "
            "este esta estos estas ese esa eso esto su sus mi mis pero y o si no en a al de del "
            "con sin por para sobre entre desde hasta cuando donde como que quien qué cómo dónde "
            "después antes luego entonces así también hay es fue"
        ),
    ),
    "it": _make_rules(
        never=(
            "sig sigg sig.ra sig.na dott dott.ssa prof.ssa ing avv arch geom rag sen gen col mons "
            "ss s.ta es p.es cfr vs dir amm psicol cass sez"
        ),
        numeric=(
            "pag pagg cap artt un lett d.lgs tav gen feb mar apr mag giu lug ago set ott nov dic"
        ),
        maybe="ecc etc s.p.a s.r.l u.s.a jr",
        openers=(
            "il lo la i gli le un uno una l egli ella lui lei loro io noi voi questo questa quello "
            "quella in nel nella a al alla di del della da dal per con su tra fra ma e se quando "
            "come che non dopo anche poi ancora"
        ),
        ends="a.c d.c è",
    ),
    "gl pt": _make_rules(
        never=(
            "sr sra srs sras srta dra drs dras profa eng arq av exmo exma ilmo ilma p.ex inc cf vs"
        ),
        numeric="pág págs cap fl fls séc ed tel jan fev mar abr mai jun jul ago set out nov dez",
        maybe="etc ltda cia s.a e.u.a jr Des Min Rel Proc",
        openers=(
            "o a os as um uma ele ela eles elas eu nós isso isto este esta esse essa em no na nos "
            "nas de do da para por com mas e se quando como que não depois também ainda"
        ),
        ends="a.c d.c é",
    ),
    "nl": _make_rules(
        never=(
            "dhr mevr mej drs ir ing ds st bijv o.a d.w.z i.p.v m.b.t t.o.v i.v.m resp incl excl "
            "max min evt vgl zgn m.n"
        ),
        numeric="nrs blz afb hfdst rov jan feb mrt apr jun jul aug sep sept okt nov dec tel",
        maybe="enz etc e.d n.v b.v",
        openers=(
            "de het een hij zij ze wij we ik jij je u dit dat deze die er in op aan van met voor "
            "door bij na uit over als maar en want dus ook toen nu hier daar zo wat wie waar hoe "
            "niet"
        ),
        ends="v.chr n.chr e.a",
    ),
    "pl": _make_rules(
        never=(
            "ul al pl os mgr inż doc hab gen płk mjr kpt ppor św im np m.in tzw tzn ks bp abp red "
            "wyd tłum zob por woj pow gm hr"
        ),
        numeric="ok str poz ust pkt par dn lit godz tel rys tab",
        maybe="itd itp etc r w",
        openers=(
            "w we na i a ale o to ten ta te on ona oni jest po z ze za do od dla przy przez pod "
            "jak gdy kiedy jeśli czy nie tak już również także jednak jego jej ich"
        ),
        ends="n.e p.n.e k.c k.p.c k.k k.p.k k.p.a",
    ),
    "cs sk": _make_rules(
        never=(
            "tzv např tj resp popř mj sv ul nám tř doc ing mgr bc mudr judr phdr rndr gen plk kpt "
            "por srov napr popr porov tzn"
        ),
        numeric="č čís čl s str st odst ods písm zn obr tab cca max min",
        openers=(
            "v ve na a i o to ten ta ty tento on ona oni je po z ze za do od pro při jak když "
            "pokud ale ne tak také však proto jeho její jejich sa si som keď ako aj pri pre"
        ),
        ends="n.l a.s s.r.o",
        ordinals=True,
    ),
    "bs hr sr": _make_rules(
        never="npr tj tzv sv ul mag ing gđa usp odn čl нпр тј тзв св ул др проф чл ст",
        numeric="br str sl бр стр",
        openers=(
            "on ona oni to ovo ta te i a ali u na iz za od po kako kada ako što tko gdje je nije "
            "он она они то ово та те и а али у на из за од по како када ако што ко где је није"
        ),
        ends="n.e pr.n.e d.o.o d.d н.е",
        ordinals=True,
    ),
    "sl": _make_rules(
        never="npr oz tj t.i t.im mag inž sv ul ga gdč",
        numeric="št str gl čl",
        ends="d.o.o d.d",
    ),
    "hu": _make_rules(
        never="ifj id özv ún pl ill kb vö ld szt",
        numeric="kr old jan febr márc ápr máj jún júl aug szept okt nov dec",
        ends="i.e i.sz",
        ordinals=True,
    ),
    "fi": _make_rules(never="esim ks mm vrt ts puh", numeric="klo noin mom", ends="e.kr j.kr"),
    "et": _make_rules(never="nt s.o s.t vt st", numeric="lk tn lg"),
    "sv": _make_rules(
        never="bl.a t.ex dvs d.v.s s.k fr.o.m t.o.m f.d resp ev inkl exkl jfr hr",
        numeric="kl sid kap jan feb apr aug sept okt nov dec",
        ends="m.m m.fl o.s.v e.kr f.kr",
    ),
    "da nn no": _make_rules(
        never="bl.a f.eks dvs d.v.s s.k jf jfr evt inkl ekskl skt hr pga p.g.a st",
        numeric="kl kap stk jan feb apr aug sept okt nov des dec",
        ends="m.m m.fl o.l o.s.v f.kr e.kr",
    ),
    "tr": _make_rules(
        never="doç av yrd öğr gör sn bkz örn mah cad sok hz alb yzb m.ö m.s md", ordinals=True
    ),
    "ro": _make_rules(
        never="dl d-l dna d-na ing str bd sf acad",
        numeric="pag cap alin lit pct",
        ends="î.hr d.hr ș.a e",
    ),
    "ca": _make_rules(
        never="sr sra srs sres dra av avda", numeric="pàg pàgs núm cap", ends="a.c d.c"
    ),
    "ru": _make_rules(
        never=(
            "ул им проф акад доц т.е т.к т.н см ср св гр г-н г-жа напр обл респ пр пер пл наб бул "
            "ред изд тов пгт пос"
        ),
        numeric="стр рис табл гл ст пп тел кв ок",
        maybe="г гг в вв др",
        openers=(
            "в на и а но он она они оно это эти этот эта с по из за для от до при к у о об во со "
            "как так что кто где когда если также однако кроме после перед его её их мы вы я ты "
            "все всё там тут здесь затем потом поэтому сегодня теперь не"
        ),
        ends="т.д т.п н.э я",
    ),
    "uk": _make_rules(
        never="вул ім проф акад доц т.зв див пор св обл напр просп пл ред",
        numeric="стор рис табл гл ст тел буд кв",
        maybe="р рр ін",
        openers=(
            "у в на і й а але він вона вони воно це ці цей ця з за для від до при як так що хто де "
            "коли якщо також однак після його її їх ми ви я ти все там тут тепер не"
        ),
        ends="т.д т.п н.е я є",
    ),
    "bg mk": _make_rules(
        never="ул бул пл проф инж св напр т.е т.нар вж г-н г-жа д-р",
        numeric="стр бр гр ок чл ал",
        ends="т.н н.е е",
    ),
    "el": _make_rules(
        never="κ κα κος δρ δηλ βλ πρβλ αγ", numeric="αρ σελ κεφ άρθ παρ", ends="μ.χ μ.μ κ.ά α.ε"
    ),
    # Initials of Indic languages are the names of Latin letters.
    "hi mr": _make_rules(
        never="डॉ डा प्रो प्रा श्री ए बी सी डी ई एफ जी एच आई जे के एल एम एन ओ पी क्यू आर एस टी यू वी",
        numeric="सं पृ",
    ),
    "ml": _make_rules(
        never=("ഡോ മി പ്രൊ പ്രൊഫ ശ്രീ എ ബി സി ഡി ഇ എഫ് ജി എച്ച് ഐ ജെ കെ എൽ എം എൻ ഒ പി ക്യു ആർ എസ് ടി യു വി")
    ),
    "lb": _make_rules(ordinals=True),
}
"""The rules of languages, by their ISO 639-1 codes."""
_LANGUAGES: Final = {code: rules for codes, rules in _RULES.items() for code in codes.split()}
_OTHERS: Final = _make_rules()


def find_rules(language: str) -> LanguageRules:
    """Return the rules of a language, given by its ISO 639-1 code; those of English for `und`."""
    return _LANGUAGES.get(language or "und", _OTHERS)
