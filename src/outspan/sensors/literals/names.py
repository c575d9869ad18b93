"""Names: runs of capitalised words that stand where a capital means something."""

from __future__ import annotations

import re
from collections.abc import Iterator

from outspan.sensors.overlap import STOP, folded, words

_WORD = re.compile(r"[^\W\d_](?:[\w&'’.]*\w)?(?:-\w+)*")
_JOINERS = frozenset(words("of de la le van von der den del di da du al bin ibn and & the for"))
_TITLES = frozenset(
    words("mr mrs ms dr prof professor sir dame lord lady president judge justice captain saint st")
)
_NO_NAME = STOP | frozenset(
    words(
        "yes no both many several few most such other another today tomorrow yesterday now later "
        "earlier then thus "
        "hence therefore moreover furthermore meanwhile instead still yet according despite following "
        "given unlike "
        "like once twice nobody nothing everyone everything someone anyone water rain snow traffic "
        "work research "
        "sales output access income demand supply smoking heat ice oil gas coal wood glass steel bread milk "
        "monday tuesday wednesday thursday friday saturday sunday january february march april may june "
        "july august "
        "september october november december please note overall even how why never always often "
        "sometimes usually "
        "anything neither nor half part out up back even full total average english"
    )
) - {"may"}
_COMMON_END = (
    "tion",
    "ment",
    "ness",
    "ity",
    "ance",
    "ence",
    "age",
    "ure",
    "ing",
    "ly",
    "ed",
    "s",
    "ship",
    "ism",
    "er",
)
_SINGULAR = re.compile(
    r" (?:has|is|was|does|[a-z]{2,}s)\b(?! (?:are|were|have|do|of|and|will|would|can|may|must)\b)"
)
_AUXILIARY = re.compile(
    r" (?:has|had|is|was|will|would|can|could|must|did|does|may|might|never|also|\w+ed"
    r"|won|led|ran|wrote|built|made|took|gave|sold|bought|held|became|began|lost|beat|left|met|paid|"
    r"sued|set)\b"
)


def find_names(text: str, covered: bytearray) -> Iterator[tuple[int, int]]:
    """Spans of names that do not touch what is ``covered`` by literals of other kinds."""
    words = list(_WORD.finditer(text))
    capitals = sum(word[0][0].isupper() for word in words)
    if len(words) > 5 and capitals > 0.7 * len(words):
        return  # a heading in title case, or all capitals: a capital says nothing here
    run: list[re.Match[str]] = []
    for i, word in enumerate(words):
        joined = not run or _joins(text[run[-1].end() : word.start()])
        free = not covered[word.start()]
        if free and word[0][0].isupper() and joined and not (run == [] and _opens_plainly(text, words, i)):
            run.append(word)
            continue
        if run and free and joined and word[0] in _JOINERS and _goes_on(text, words, i, covered):
            run.append(word)
            continue
        yield from _close(run)
        again = free and word[0][0].isupper() and not _opens_plainly(text, words, i)
        run = [word] if again else []
    yield from _close(run)


def _joins(gap: str) -> bool:
    return gap in (" ", "\u00a0", ". ", " & ", "-")


def _goes_on(text: str, words: list[re.Match[str]], i: int, covered: bytearray) -> bool:
    following = words[i + 1] if i + 1 < len(words) else None
    return (
        words[i][0] not in ("and", "the", "for", "&")
        and following is not None
        and following[0][0].isupper()
        and not covered[following.start()]
        and _joins(text[words[i].end() : following.start()])
    )


def _opens_plainly(text: str, words: list[re.Match[str]], i: int) -> bool:
    """Whether the capital of word i is there because a sentence starts, or because English writes it so."""
    word = words[i]
    lower = word[0].lower()
    if lower in _NO_NAME or word[0] == "I" or (len(word[0]) == 1 and not word[0].isupper()):
        return True
    before = text[: word.start()].rstrip(" \"'“„«(*_#>-–•|")[-1:]
    if before and before not in ".!?:;":
        return False
    following = words[i + 1] if i + 1 < len(words) else None
    if following is not None and following[0][0].isupper() and text[word.end() : following.start()] == " ":
        return False
    if word[0].isupper() and len(word[0]) > 1:
        return False  # NATO
    # a lone noun without article: a name, unless it looks like a plural, a mass noun or an adverb
    singular = _SINGULAR.match(text, word.end()) is not None
    if lower.endswith("s") and not lower.endswith("ss"):
        return not singular  # plurals take another verb
    return lower.endswith(_COMMON_END) or (not singular and _AUXILIARY.match(text, word.end()) is None)


def _close(run: list[re.Match[str]]) -> Iterator[tuple[int, int]]:
    while run and run[0][0].lower().rstrip(".") in _TITLES:
        run = run[1:]
    if run:
        yield run[0].start(), run[-1].end()


_DEMONYMS = dict(
    pair.split(":")
    for pair in [
        "norwegian:norway",
        "french:france",
        "dutch:netherlands",
        "spanish:spain",
        "polish:poland",
        "finnish:finland",
        "swedish:sweden",
        "danish:denmark",
        "british:britain",
        "german:germany",
        "greek:greece",
        "welsh:wales",
        "irish:ireland",
        "turkish:turkey",
        "swiss:switzerland",
        "chinese:china",
        "portuguese:portugal",
        "scottish:scotland",
        "american:america",
        "italian:italy",
        "belgian:belgium",
        "canadian:canada",
        "peruvian:peru",
        "brazilian:brazil",
        "japanese:japan",
        "korean:korea",
        "indian:india",
        "russian:russia",
        "ukrainian:ukraine",
        "czech:czechia",
        "hungarian:hungary",
        "austrian:austria",
        "australian:australia",
        "egyptian:egypt",
        "kenyan:kenya",
        "mexican:mexico",
        "chilean:chile",
        "argentine:argentina",
        "icelandic:iceland",
        "estonian:estonia",
        "latvian:latvia",
        "romanian:romania",
        "croatian:croatia",
        "european:europe",
        "african:africa",
        "asian:asia",
        "parisian:paris",
        "viennese:vienna",
        "roman:rome",
        "venetian:venice",
    ]
)
_GENERIC = frozenset(
    words(
        "the of and company inc ltd corp corporation group council city town county university "
        "institute museum river "
        "bridge lake mount river street court ministry department party party's republic kingdom island "
        "church school "
        "de la le van von der den del di da du al bin ibn for"
    )
)


def name_known(key: str, words: frozenset[str], initials: frozenset[str]) -> bool:
    """Whether evidence with these folded ``words`` and ``initials`` holds every word of the name."""
    parts = [part.strip(".'") for part in re.split(r"[\s\-/]+", key.replace("’", "'"))]
    parts = [part.removesuffix("'s") for part in parts if part]
    own = [part for part in parts if part not in _GENERIC and part not in _TITLES] or parts
    if all(_known(part, words) for part in own):
        return True
    acronym = "".join(part[0] for part in parts if part not in _JOINERS)
    return (len(parts) > 1 and acronym in words) or (len(parts) == 1 and key.replace(".", "") in initials)


def _known(part: str, words: frozenset[str]) -> bool:
    if part in words or part + "s" in words or (part.endswith("s") and part[:-1] in words):
        return True
    home = _DEMONYMS.get(part)
    if home is not None:
        return home in words
    return any(word in words for word in _PEOPLE.get(part, ()))


_PEOPLE: dict[str, list[str]] = {}
for _demonym, _home in _DEMONYMS.items():
    _PEOPLE.setdefault(_home, []).append(_demonym)


def evidence_names(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Folded words of ``text``, and the initials of its runs of capitalised words."""
    words = frozenset(
        part.strip(".").removesuffix("'s")
        for word in re.findall(r"[\w.'’-]+", folded(text).replace("’", "'"))
        for part in (word, *re.split(r"[-/]", word))
        if part
    )
    initials = set()
    run = ""
    for word in _WORD.finditer(text[:20_000]):
        if word[0][0].isupper():
            run += word[0][0].lower()
        elif word[0] not in _JOINERS:
            initials.add(run)
            run = ""
    initials.add(run)
    return words, frozenset(entry for entry in initials if len(entry) > 1)
