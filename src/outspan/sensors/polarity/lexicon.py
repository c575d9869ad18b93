"""Words that turn a statement round, by hand: opposites, negations, quantifiers, modal words, conditions."""

from __future__ import annotations

import re

from outspan.sensors.overlap import stem, words

_OPPOSITES = """
rise increase grow gain climb raise expand soar surge jump widen | fall decrease drop decline shrink
rise | reduce lower cut dwindle narrow plunge slump
high | low
higher | lower
highest | lowest
large big larger bigger | small little smaller
largest biggest | smallest
great greater | lesser
long longer lengthen | short shorter shorten
longest | shortest
fast faster quick quicker quickly accelerate | slow slower slowly
fastest quickest | slowest
tall taller tallest | short shorter shortest
quiet quieter silent | loud louder noisy noisier
clean cleaner | dirty dirtier
healthy healthier | sick sicker ill
bright brighter | dark darker dim
happy happier | sad sadder
oblige require compel | forbid prohibit
old older | young younger new newer
oldest | youngest newest
warm warmer hot hotter heat | cold colder cool cooler chill
hottest warmest | coldest coolest
heavy heavier | light lighter
strong stronger strengthen | weak weaker weaken
strongest | weakest
rich richer wealthy wealthier | poor poorer
cheap cheaper inexpensive | expensive dearer costly costlier
cheapest | dearest costliest
deep deeper | shallow shallower
wide wider broad broader | narrower
thick thicker | thin thinner
early earlier sooner | late later
ahead | behind
still | nolonger
earliest | latest
good better improve | bad worse worsen deteriorate
best | worst
near nearer closer | far farther further
safe safer safely | dangerous unsafe hazardous riskier
easy easier | hard harder difficult
more | less fewer
most | least fewest
above exceed over | below under beneath
maximum | minimum
accept approve grant allow permit authorise | reject refuse deny forbid prohibit ban
accept authorize admit clear | decline bar block
confirm | refute
affirm uphold upheld | reverse overturn overrule quash annul
acquit innocent | convict guilty
succeed pass success win successful | fail failure lose unsuccessful
open reopen | close shut closed
start begin launch commence | stop end halt cease
include contain | exclude omit lack
add | remove
support favour favor endorse back | oppose reject against contest challenge
agree | disagree
present | absent
alive live survive | dead die
true correct accurate right | false wrong inaccurate incorrect
legal lawful | illegal unlawful
public | private
permanent permanently | temporary temporarily
mandatory compulsory obligatory | optional voluntary
harmful | harmless
useful | useless
positive | negative
profit profitable | loss
full | empty
wet | dry
visible | hidden
active | idle inactive
attract | repel
encourage promote | discourage
protect | endanger
cause | prevent
buy purchase | sell
import | export
enter | leave
arrive | depart
advance | retreat
appear | disappear vanish
remember | forget
possible | impossible
rare rarely seldom | common frequent often
optimistic | pessimistic
maximise | minimise
create build | destroy demolish
keep retain | discard abandon waive relinquish
plaintiff claimant | defendant respondent
lessee tenant | lessor landlord
licensee | licensor
prosecution prosecutor | defence defense
buyer purchaser | seller vendor
creditor lender | debtor borrower
appellant | appellee
teacher | pupil
employer | employee
accept | contest
impose | lift
lend | borrow
free | charged
majority | minority
absorb | release emit
north northern | south southern
east eastern | west western
upstream | downstream
inside | outside
before | after
"""


def _signs() -> dict[str, list[tuple[str, int]]]:
    signs: dict[str, list[tuple[str, int]]] = {}
    for line in _OPPOSITES.strip().splitlines():
        plus, minus = line.split("|")
        key = f"±{plus.split()[0]}"
        for side, sign in ((plus, 1), (minus, -1)):
            for word in side.split():
                entries = signs.setdefault(stem(word), [])
                if (key, sign) not in entries:
                    entries.append((key, sign))
    return signs


SIGNS = _signs()
"""Stem to the scales that it lies on, each with the side: rise +1, fall −1 on one scale."""

COMPARATIVE = re.compile(
    r"\b(?:more|less|fewer|better|worse|farther|further|[a-z]{3,}(?:er|ier))\b(?:[^,.;]{0,60}?)\bthan\b"
    r"|\bnot (?:as|so) [a-z]+ as\b"
    r"|\b(?:is|are|was|were|lay|lies|stood|stands|stayed|remained) (?:above|below)\b"
    r"|\b(?:ahead of|behind|exceed(?:s|ed)?|surpass(?:es|ed)?)\b",
    re.I,
)
ORDER = re.compile(r"\b(before|after|prior to|following|until|since|once)\b", re.I)

NEGATORS = frozenset(
    words(
        "not no never neither nor without cannot n't none nobody nothing nowhere hardly scarcely barely non"
    )
)
NEGATING_VERBS = frozenset(stem(word) for word in words("fail refuse decline lack unable"))
DIRECTIONS = (("for", "against"), ("to", "from"), ("into", "out of"))
"""Small words that turn a relation: each with its opposite."""

NOT_NEGATING = re.compile(
    r"\b(?:not (?:only|just|merely|necessarily|until)|no (?:doubt|later than|earlier than|fewer "
    r"than|less than|"
    r"more than|sooner)|nothing but|nobody but|no one (?:but|except)|none (?:but|other))\b",
    re.I,
)
LIGHT = frozenset(
    words(
        "a all also am an any anybody anyone are as at be been being can completely could did do "
        "does entirely even ever fully get got had has have having her his is its longer manage may "
        "might more must of one really shall should single so someone such the their to very was "
        "were will would yet"
    )
)
PREFIXES = ("non", "dis", "mis", "un", "in", "im", "il", "ir")
NO_PREFIX = frozenset(
    stem(word)
    for word in [
        "disease",
        "discover",
        "display",
        "dispose",
        "import",
        "inform",
        "income",
        "increase",
        "under",
        "until",
        "unit",
        "union",
        "invest",
        "invent",
        "intend",
        "intent",
        "insure",
        "install",
        "improve",
        "impress",
        "imply",
        "impose",
        "inside",
        "input",
        "insight",
        "intake",
        "interest",
        "important",
        "individual",
        "industry",
        "instance",
        "institute",
        "instrument",
        "into",
        "inland",
        "infer",
        "indeed",
        "distress",
        "distract",
        "distance",
        "district",
        "discount",
        "discharge",
        "discuss",
        "dismiss",
        "missile",
        "mission",
        "mister",
        "invite",
        "involve",
        "indicate",
        "induce",
        "initial",
        "injure",
        "inquiry",
        "internal",
        "international",
        "interview",
        "issue",
        "uniform",
        "unique",
        "universe",
        "university",
        "unite",
        "disk",
        "dish",
        "distinct",
        "distribute",
        "image",
        "immediate",
        "impact",
        "iron",
        "island",
        "invaluable",
        "inflammable",
        "inhabit",
        "inhabited",
        "ingredient",
        "inherit",
        "inject",
        "inn",
        "inspect",
        "inspire",
        "intense",
        "intact",
    ]
)

QUANTIFIERS: dict[str, tuple[str, ...]] = {
    "all": ("all", "every", "each", "everyone", "everybody", "everything", "entire", "always", "whole"),
    "most": ("most", "mostly", "majority", "usually", "generally", "largely", "mainly", "typically"),
    "some": (
        "some",
        "several",
        "sometimes",
        "certain",
        "occasionally",
        "partly",
        "partially",
        "many",
        "part",
        "half",
        "someone",
        "number",
    ),
    "few": ("few", "rarely", "seldom", "handful", "minority", "hardly"),
    "none": ("none", "no", "never", "nobody", "nothing", "neither"),
}
QUANTITY_OF = {word: name for name, words in QUANTIFIERS.items() for word in words}
QUANTIFIER_RANK = {"none": 0, "few": 1, "some": 2, "most": 3, "all": 4}

POSSIBLE = re.compile(
    r"\b(?:(?-i:may)|might|could|possibly|perhaps|potentially|possible|possibility|maybe|"
    r"suspect(?:s|ed)?|believed to|thought to|"
    r"appears? to|seems? to|suggest(?:s|ed)?|alleged(?:ly)?|reportedly|conceivable|conceivably|"
    r"uncertain|unclear|"
    r"probably|likely|unlikely|presumably|not ruled out|hint(?:s|ed)?)\b",
    re.I,
)
PLANNED = re.compile(
    r"\b(?:plan(?:s|ned|ning)?|expect(?:s|ed)?|intend(?:s|ed)?|hope(?:s|d)?|aim(?:s|ed)?|"
    r"propos(?:es|ed|al)|consider(?:s|ed|ing)?|"
    r"scheduled|due to|want(?:s|ed)?|promis(?:es|ed)|would|should|recommend(?:s|ed)?|forecast|"
    r"predict(?:s|ed)?|"
    r"request(?:s|ed)?|asked|seek(?:s|ing)?|if|try|tried|attempt(?:s|ed)?|weighing|mulling|"
    r"exploring|can|ask)\b",
    re.I,
)
OBLIGED = re.compile(
    r"\b(?:must|shall|ha(?:s|ve|d) to|required?|requires|obliged|obligatory|mandatory|compulsory|"
    r"needs? to)\b",
    re.I,
)
ALLOWED = re.compile(
    r"\b(?:may|can|could|allowed|permitted|optional(?:ly)?|free to|voluntar(?:y|ily)|need not|not "
    r"required|invited|"
    r"encouraged|at liberty)\b",
    re.I,
)
EPISTEMIC = re.compile(r"\b(?:might|possibly|perhaps|maybe|allegedly|reportedly|probably)\b", re.I)

EXCLUSIVE = re.compile(
    r"\b(?:only|solely|exclusively|alone|unless|nobody but|no one but|none but|nothing but|except|"
    r"restricted to|"
    r"limited to|reserved for|confined to|sole|without|not until|no one (?:else|other)|provided|condition|"
    r"as long as|so long as|requires?|required|must|barred|just|other than|apart from|outside)\b",
    re.I,
)
ONLY_IF = re.compile(r"\b(?:only (?:if|when|after|once|where|with|in|on|for|to|by|at|during)|unless)\b", re.I)
ONLY = re.compile(
    r"(?<!not )\b(?:only|solely|exclusively)\b(?! (?:a |an )?(?:\d|one|two|three|four|five|six|few|half|"
    r"handful|minority))",
    re.I,
)
STRICT_CONDITION = re.compile(
    r"\b(?:only (?:if|when|after|once|with)|unless|provided(?: that)?|on condition that|as long as|"
    r"so long as|"
    r"subject to|if)\b",
    re.I,
)
ANY_CONDITION = re.compile(
    r"\b(?:if|when|whenever|unless|provided|providing|condition(?:al|ed|s)?|as long as|so long as|"
    r"once|after|subject to|"
    r"without|with|until|in case|in the event|where|requires?|required|must|depends?|should|needs?|"
    r"except|only|"
    r"on|during|for|in|by|while|barring|absent|given|those|anyone|who|whoever|before|no|not)\b",
    re.I,
)
UNCONDITIONAL = re.compile(
    r"\b(?:regardless|irrespective|even if|even when|even without|whether or not|in all cases|in "
    r"any case|always|"
    r"unconditional(?:ly)?|under all|at any time|no matter)\b",
    re.I,
)
