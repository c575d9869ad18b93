"""Where one sentence ends and the next begins, inside one block of running text.

One scan finds the runs of stops; each is then judged by the word before it and the word after it. Where the
two readings are close, the sentences stay joined: a joined pair is measured as one unit, a torn one as two
fragments.
"""

from __future__ import annotations

import re

# Stops that end a sentence with no space after them: from the Unicode property Sentence_Terminal.
_HARD = "。．！？｡︒؟۔։।॥።፧፨။។៕᙮᠃᠉།༎᱾᱿꧉꘎꘏߹⸮"
_SOFT = ".!?…‥‼⁇⁈⁉‽"
_CLOSE = "\"'”’»›)]}*_`~“‘」』）】〉》〕"
_OPEN = "\"'“”‘’«‹„‚([{*_`~「『（【〈《〔¿¡"
_OPEN_QUOTE = '"“«„`‘'
_NOTE = (
    r"(?:[ \t]?\[(?:\^[\w-]{1,30}|(?:\d{1,4}|[A-Za-z])(?:\s?[,;–-]\s?\d{1,4}){0,20}"
    r"|(?:note|nb) \d{1,3}|citation needed)\](?!\()"
    r"|[⁰¹²³⁴-⁹†‡]{1,4}|【[^【】\n]{1,90}】)"
)

# Each part but the first may be empty and is possessive, so that a match never fails after a long run.
_STOP = re.compile(
    rf"(?P<marks>[{_SOFT}{_HARD}]++(?:[ \t]\.++(?=\s|\Z))*+)(?P<close>[{re.escape(_CLOSE)}]*+"
    # a quote that stands alone closes at the end of a line; elsewhere it is the next sentence's own
    r"(?:[ \t](?:''|[\"'”’»](?=[ \t]*+(?:[\r\n]|\Z))))?+)"
    rf"(?P<notes>{_NOTE}*+)(?P<gap>\s*+)"
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TITLES = _words(
    "mr mrs ms dr prof st messrs mme mlle gen sen rep gov capt lt col sgt rev hon maj cpl pvt cmdr adm "
    "det insp supt pres sra srta sr dra ing dipl hr mgr fr e.g i.e z.b d.h u.a p.ex cf vs v viz bzw vgl "
    "approx ca resp incl excl esp et"
)
"""Never end a sentence: something always follows them."""
_NUMBERED = _words(
    "no nos nr fig figs eq eqs vol vols sec secs ch chap p pp pg art pt ver op par cl tab abb núm n°"
)
"""End no sentence where a number, or a lone letter, follows."""
_OFTEN_SHORT = _words(
    "inc corp ltd co llc bros plc cie jr al etc usw dept univ est ave blvd rd mt ft tel ext govt intl "
    "assn ph.d m.d jan feb apr jun jul aug sep sept oct nov dec tues wed thurs thur fri usd std min max "
    "avg temp misc bzgl str"
)
"""End a sentence only where the next word is a usual first word."""
_OFTEN_SHORT_CAPITAL = _words("Mar Mon Tue Thu Sat Sun Fig Eq Sec Vol Ch Art Sr Pres Ed Eds")
"""The same, but words of their own when written small."""
_FIRST_WORDS = _words(
    "the it he she they we you this that these those there here a an in on at by for from with after "
    "before when while as if since although though however but and or so yet then its his her their our "
    "my your both each all many most some several no not one two three another other what who why where "
    "how during according despite because once today later meanwhile moreover also such under over "
    "between der die das es er sie wir ein eine in im am le la les il elle ils un une el los las lo os "
    "as o gli"
)
_LATER_MONTHS = _words(
    "januar februar märz april mai juni juli august september oktober november dezember jahrhundert"
)
_DOTTED = re.compile(r"[^\W\d_](?:\.[^\W\d_]{1,2})+")
_VOWEL = re.compile(r"[aeiouyàáâãäåèéêëìíîïòóôõöøùúûüœæı]", re.IGNORECASE)
_ASCII_WORD = re.compile(r"[A-Za-z]+")
_NOT_IN_WORD = re.compile(r"[^\w.-]")
_TORN = re.compile(r"[<>=≤≥±~]\d{1,2}\Z")
_ROMAN = re.compile(r"[IVXLC]+")
_WORD = re.compile(r"[^\W_]")
_KANA_QUOTING = ("と", "って")
_REACH = 40


def find_cuts(text: str, *, lower: bool = False) -> list[int]:
    """Return the offsets at which a new sentence begins, ascending; 0 and ``len(text)`` are never among them.

    Parameters
    ----------
    text : one block (paragraph, list item) of running text.
    lower : the document is written without capitals, so that a small letter may open a sentence.
    """
    cuts: list[int] = []
    last = 0
    size = len(text)
    for match in _STOP.finditer(text):
        end = match.end()
        if end >= size:
            break
        if not _ends_sentence(text, match, last, lower):
            continue
        if _WORD.search(text, last, match.start()):
            cuts.append(end)
            last = end
        elif cuts:  # a stray bracket or mark between two stops belongs to the sentence before
            cuts[-1] = last = end
    if cuts and not _WORD.search(text, last):
        cuts.pop()
    return cuts


def _ends_sentence(text: str, match: re.Match[str], last: int, lower: bool) -> bool:
    marks, gap, end = match["marks"], match["gap"], match.end()
    if marks[-1] in _HARD:
        return _hard_stop_ends(text, match)
    following = text[end : end + _REACH].split(None, 1)[0].lstrip(_OPEN)
    if not gap:
        return _unspaced_stop_ends(text, match, following[:1])
    before = text[max(last, match.start() - _REACH) : match.start()]
    # a small letter may open a sentence after a detached stop, after a line break, and in a quotation
    detached = before[-1:].isspace() or "\n" in gap or "\r" in gap or text[end] in _OPEN_QUOTE
    words = before.split()
    if not words:
        return False  # nothing but the stop so far: ". . ." at the head of a block
    dots = marks.count(".") + 3 * (marks.count("…") + marks.count("‥"))
    may_open = not following[:1].islower() or detached
    if not marks.strip(".…‥") and dots >= 3:
        return _ellipsis_ends(following, dots, lower=lower)
    if marks.strip(".…‥"):
        return may_open or (lower and not match["close"])
    return (may_open or lower) and _full_stop_ends(words, following, match)


def _hard_stop_ends(text: str, match: re.Match[str]) -> bool:
    after = text[match.end() : match.end() + 2]
    if match["marks"] == "．" and after[:1].isdigit() and text[match.start() - 1 : match.start()].isdigit():
        return False  # a full-width decimal point
    # 「はい。」と言った: the quotation is part of the sentence that reports it
    return not (match["close"] and not match["gap"] and after.startswith(_KANA_QUOTING))


def _unspaced_stop_ends(text: str, match: re.Match[str], first: str) -> bool:
    if match["notes"] and not match["notes"][0].isspace():
        return first.isupper() and not match["close"]
    # Chinese and Japanese typed with ASCII stops
    return _is_wide(first) and _is_wide(text[match.start() - 1 : match.start()])


def _is_wide(char: str) -> bool:
    return bool(char) and ("\u3040" <= char <= "\u9fff" or "\U00020000" <= char <= "\U0003ffff")


def _ellipsis_ends(following: str, dots: int, *, lower: bool) -> bool:
    first = following[:1]
    if first.islower():
        return lower and dots > 3
    # "Well... I think" goes on; four dots are an ellipsis and a full stop
    return dots > 3 or not re.match(r"I\b", following)


def _full_stop_ends(words: list[str], following: str, match: re.Match[str]) -> bool:
    word = words[-1].lstrip(_OPEN)
    plain = word.lower()
    next_word = _NOT_IN_WORD.split(following, maxsplit=1)[0].rstrip(".")
    opens = next_word.lower() in _FIRST_WORDS
    after_number = len(words) > 1 and words[-2][-1:].isdigit()
    if plain in _TITLES:
        ends = False
    elif match["close"] and len(word) > 1:
        ends = True  # a quotation or a bracket closes here: an abbreviation seldom ends one
    elif plain in _NUMBERED:
        ends = not (next_word[:1].isdigit() or len(next_word) == 1 or _ROMAN.fullmatch(next_word))
    elif next_word[:1].isdigit() and _TORN.search(word):
        ends = False  # "p<0. 05": a decimal torn by a tokeniser
    elif word.lstrip("$£€¥").isdigit():
        ends = _number_ends(words, next_word)
    elif len(word) == 1 and word.isalpha():
        ends = opens or after_number
    elif _DOTTED.fullmatch(word) or plain in _OFTEN_SHORT or word in _OFTEN_SHORT_CAPITAL:
        ends = opens
    else:
        alone = match.string[match.start() - 1].isspace()
        ends = alone or opens or after_number or _is_word(word)
    return ends


def _number_ends(words: list[str], next_word: str) -> bool:
    number = words[-1].lstrip(_OPEN + "$£€¥")
    if len(number) > 2:
        return True
    if len(words) == 1 or words[-2][-1] in ":;":
        return False  # "1. Open the valve": the number counts the steps
    # "am 3. Mai"; "5. 7 million", a decimal torn by a tokeniser
    return not (next_word.lower() in _LATER_MONTHS or next_word[:1].isdigit())


def _is_word(word: str) -> bool:
    """Tell a word from a shortened one that no list names: "Sgt", "hrs", "डॉ"."""
    if _ASCII_WORD.fullmatch(word):
        return word.isupper() or bool(_VOWEL.search(word))
    if not word:
        return True
    caseless = word[0].isalpha() and not (word[0].isupper() or word[0].islower())
    return not (caseless and len(word) <= 2)
