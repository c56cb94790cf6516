"""Prefixes of wikilinks that show no text: files, categories, and other languages."""

from typing import Final

HIDDEN_NAMESPACES: Final = frozenset({"6", "14"})
"""Keys of the namespaces whose links show no text. The dump has their names in the wiki's
language."""
DEFAULT_HIDDEN_PREFIXES: Final = frozenset(
    {"file", "image", "category", "datei", "bild", "kategorie"}
)
"""Names of these namespaces that a dump does not list: English names hold in every wiki, and `Bild`
is an alias."""
_CODES: Final = """
aa ab ace ady af ak als alt am ami an ang ann anp ar arc ary arz as ast atj av avk awa ay az azb ba
ban bar bat-smg bbc bcl bdr be be-tarask be-x-old bew bg bh bi bjn blk bm bn bo bpy br bs btm bug
bxr ca cbk-zam cdo ce ceb ch cho chr chy ckb co cr crh cs csb cu cv cy cz da dag de dga din diq dk
dsb dtp dty dv dz ee el eml en eo es et eu ext fa fat ff fi fiu-vro fj fo fon fr frp frr fur fy ga
gag gan gcr gd gl glk gn gom gor got gpe gsw gu guc gur guw gv ha hak haw he hi hif ho hr hsb ht hu
hy hyw hz ia iba id ie ig igl ii ik ilo inh io is it iu ja jam jbo jp jv ka kaa kab kbd kbp kcg kg
kge ki kj kk kl km kn knc ko koi kr krc ks ksh ku kus kv kw ky la lad lb lbe lez lfn lg li lij lld
lmo ln lo lrc lt ltg lv lzh mad mai map-bms mdf mg mh mhr mi min mk ml mn mni mnw mo mos mr mrj ms
mt mus mwl my myv mzn na nah nan nap nb nds nds-nl ne new ng nia nl nn no nov nqo nr nrm nso nup nv
ny oc olo om or os pa pag pam pap pcd pcm pdc pfl pi pih pl pms pnb pnt ps pt pwn qu rm rmy rn ro
roa-rup roa-tara rsk ru rue rup rw sa sah sat sc scn sco sd se sg sgs sh shi shn shy si simple sk
skr sl sm smn sn so sq sr srn ss st stq su sv sw syl szl szy ta tay tcy tdd te tet tg th ti tig tk
tl tly tn to tpi tr trv ts tt tum tw ty tyv tzm udm ug uk ur uz ve vec vep vi vls vo vro wa war wo
wuu xal xh xmf yi yo yue za zea zgh zh zh-classical zh-min-nan zh-yue zu
"""
LANGUAGE_PREFIXES: Final = frozenset(_CODES.split())
"""Prefixes of the Wikipedias: such a link belongs to the language list, not to the text."""


def resolve_link_text(title: str, label: str | None, hidden_prefixes: frozenset[str]) -> str | None:
    """Return the text that a page shows for a link.

    None means the parsed label, "" a link without text.

    A colon before the title makes an ordinary link of any title.
    """
    has_colon = title.lstrip().startswith(":")
    prefix, colon, _ = title.partition(":")
    if colon and prefix.replace("_", " ").strip().casefold() in hidden_prefixes:
        return ""
    if label is not None:
        return None
    return title.strip().removeprefix(":").strip() if has_colon else None
