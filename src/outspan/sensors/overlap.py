"""Which evidence sentence speaks of the same thing as a claim: by shared content words, weighted "
"by rarity.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence


def words(listed: str) -> list[str]:
    """The words of a list that is written as one string, so that a lexicon stays readable."""
    return listed.split()


WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")

STOP = frozenset(
    words(
        "a an the of and or but to in on at by for with from as is are was were be been being am do "
        "does did done "
        "has have had having will would shall should can could may might must it its this that "
        "these those there "
        "here he she they we you i his her their our your my him them us who whom which what when "
        "where while if "
        "than then so such into onto over under about after before during between through per via up "
        "down out off "
        "not no nor only also just very more most less least all some any each every both either "
        "neither own same "
        "because since until although though however one ones whose upon within without against among"
    )
)
IRREGULAR = dict(
    pair.split(":")
    for pair in [
        "rose:rise",
        "risen:rise",
        "fell:fall",
        "fallen:fall",
        "grew:grow",
        "grown:grow",
        "won:win",
        "lost:lose",
        "loss:lose",
        "sold:sell",
        "sale:sell",
        "bought:buy",
        "built:build",
        "began:begin",
        "begun:begin",
        "broke:break",
        "broken:break",
        "came:come",
        "gave:give",
        "given:give",
        "went:go",
        "gone:go",
        "held:hold",
        "kept:keep",
        "knew:know",
        "known:know",
        "led:lead",
        "left:leave",
        "made:make",
        "met:meet",
        "paid:pay",
        "payment:pay",
        "ran:run",
        "said:say",
        "saw:see",
        "seen:see",
        "sent:send",
        "spent:spend",
        "spoke:speak",
        "spoken:speak",
        "stood:stand",
        "taught:teach",
        "told:tell",
        "took:take",
        "taken:take",
        "thought:think",
        "found:find",
        "wrote:write",
        "written:write",
        "drew:draw",
        "drawn:draw",
        "drove:drive",
        "driven:drive",
        "ate:eat",
        "eaten:eat",
        "felt:feel",
        "flew:fly",
        "flown:fly",
        "forgot:forget",
        "froze:freeze",
        "frozen:freeze",
        "hid:hide",
        "hidden:hide",
        "laid:lay",
        "lay:lie",
        "rang:ring",
        "sang:sing",
        "sank:sink",
        "sunk:sink",
        "shook:shake",
        "shrank:shrink",
        "slept:sleep",
        "stole:steal",
        "stolen:steal",
        "struck:strike",
        "swam:swim",
        "swept:sweep",
        "threw:throw",
        "thrown:throw",
        "understood:understand",
        "withdrew:withdraw",
        "withdrawn:withdraw",
        "wore:wear",
        "worn:wear",
        "bred:breed",
        "caught:catch",
        "chose:choose",
        "chosen:choose",
        "fed:feed",
        "fought:fight",
        "forbade:forbid",
        "forbidden:forbid",
        "overturned:overturn",
        "growth:grow",
        "approval:approve",
        "refusal:refuse",
        "rejection:reject",
        "dismissal:dismiss",
        "children:child",
        "men:man",
        "women:woman",
        "people:people",
        "mice:mouse",
        "feet:foot",
        "teeth:tooth",
        "better:good",
        "worse:bad",
        "died:die",
        "dying:die",
        "death:die",
        "lies:lie",
        "dies:die",
        "ties:tie",
    ]
)


def stem(word: str) -> str:
    """A crude stem, the same for the usual inflections of an English word."""
    word = word.lower().replace("’", "'").removesuffix("'s").removesuffix("'")
    word = IRREGULAR.get(word, word)
    if len(word) <= 3:
        return word
    for ending, least, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= least:
            word = word[: -len(ending)] + instead
            break
    if len(word) > 4 and word[-1] == word[-2] and word[-1] not in "aeiouls":
        word = word[:-1]
    return word.removesuffix("e") if len(word) > 3 else word


_ENDINGS = (
    ("ies", 2, "y"),
    ("ied", 2, "y"),
    ("sses", 2, "ss"),
    ("xes", 2, "x"),
    ("ches", 2, "ch"),
    ("shes", 2, "sh"),
    ("eed", 2, "eed"),
    ("ing", 3, ""),
    ("ed", 3, ""),
    ("ss", 1, "ss"),
    ("us", 2, "us"),
    ("is", 2, "is"),
    ("s", 3, ""),
)


def folded(text: str) -> str:
    """Lower case without accents, so that Malmö and MALMO are one; the length may change."""
    decomposed = unicodedata.normalize("NFKD", text.lower())
    return "".join(mark for mark in decomposed if not unicodedata.combining(mark))


def content(text: str) -> list[str]:
    """Stems of the words of ``text`` that carry content, in order."""
    return [stem(word) for word in WORD.findall(folded(text)) if word not in STOP]


def rarity(documents: Sequence[Iterable[str]]) -> dict[str, float]:
    """Weight of each stem, in (0, 1]: 1 for one that a single sentence holds, less for common ones."""
    counts = Counter(word for words in documents for word in set(words))
    n = len(documents)
    top = math.log(1 + n)
    return {word: math.log(1 + n / count) / top for word, count in counts.items()}


def weight_of(words: Iterable[str], weights: Mapping[str, float]) -> float:
    """Sum of the weights of distinct words; a word that no evidence holds weighs 1."""
    return sum(weights.get(word, 1.0) for word in set(words))
