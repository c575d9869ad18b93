"""Utterances that claim nothing: greetings, thanks, lead phrases, refusals, bare signs.

The patterns speak of whole utterances, never of words inside one: "Thanks to the dam, floods ended" is a claim. Whatever
no pattern covers from its first to its last word is a claim.
"""

# ruff: noqa: E501 -- a phrase pattern cut in two can no longer be read

from __future__ import annotations

import re

from .markup import fold, has_words

_LONGEST = 300  # a longer utterance says something
_STOPS = re.compile(r"[.!?…。！？]+(?:\s+|\Z)|(?<=[。！？])")
_EDGES = re.compile(r"^[^\w]+|[^\w:/]+$")
_BLANK = re.compile(r"[\s\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\u00ad]*+")

_PLACE = (
    r"(?:the|this|that|these|those|your|my|any of the)(?: [\w'-]+){0,3} (?:contexts?|documents?|texts?|passages?|sources?|files?"
    r"|excerpts?|materials?|articles?|evidence|knowledge base|results?|information|data|search results)"
    r"(?: (?:provided|given|supplied|available|retrieved|above|you (?:provided|gave|shared)))?"
)
_INFO = (
    r"(?:(?:any|enough|sufficient|the|that|this|such|specific|relevant|necessary|more|further|additional|an|explicit"
    r"|detailed|direct) ){0,4}(?:information|info|context|data|details?|knowledge|answers?|mentions?|references?)"
)
_TAIL = r"(?:[ ,][^\d:;]{0,160})?"

_COURTESY = (
    r"(?:hi|hello|hey|greetings|welcome|good (?:morning|afternoon|evening|day|night))(?: there| everyone| everybody| all| again)?",
    r"(?:sure|sure thing|certainly|of course|absolutely|definitely|okay|ok|alright|all right|gladly|understood|got it|noted|great)",
    r"(?:(?:sure|certainly|of course|absolutely|okay|ok|great|hi|hello|yes),? )?(?:i(?:'d| would| will|'ll| am|'m| can) )?(?:be )?"
    r"(?:here to|happy to|glad to|pleased to|delighted to|more than happy to|help you) (?:help|assist|be of help|with that|with this)"
    r"(?: you)?(?: out)?(?: with (?:that|this|it|your (?:question|request)))?(?: today)?",
    r"(?:sure|certainly|of course|ok|okay),? (?:i can (?:help|do that)(?: you)?(?: with (?:that|this))?|let me (?:help|see|check|explain))",
    r"(?:many )?(?:thanks|thank you|thx|cheers)(?: so much| very much| a lot| again| in advance| a bunch)*"
    r"(?: for (?:asking|reaching out|sharing(?: this| that)?|waiting|(?:your|the) (?:great |good )?(?:question|patience|message|help|time|feedback)))?",
    r"(?:you're|you are) (?:very |most |always )?welcome|no (?:problem|worries)|my pleasure|any ?time|don't mention it|not at all",
    r"(?:i'm |i am )?(?:glad|happy|pleased) (?:i could|that i could|to) (?:help|be of (?:help|service|assistance)|assist|hear (?:that|it))",
    r"(?:that's |that is |what |this is )?(?:an? )?(?:really |very )?(?:great|good|excellent|interesting|fantastic|thoughtful) (?:question|point)",
    r"(?:i )?hope (?:this|that|it|my answer|the above) (?:helps|is helpful|was helpful|helped|answers your question|clarifies"
    r"(?: things| this| it)?|makes sense|is what you (?:need|were looking for))(?: you)?(?: out)?",
    r"(?:please |just |and |but )?(?:let me know|feel free to (?:ask|reach out|let me know|contact me|follow up)"
    r"|(?:do not|don't) hesitate to (?:ask|reach out|contact me|let me know))"
    r"(?: (?:me|any|more|further|other|follow-up|questions?|anytime))*(?: (?:if|should) (?:you|there(?: is|'s)|anything|any)[^\d:;]{0,100})?",
    r"if you (?:have|need|want|would like|'d like) [^\d:;]{0,60},? (?:please |just )?(?:let me know|feel free to (?:ask|reach out)|(?:do not|don't) hesitate to (?:ask|reach out))",
    r"(?:is there|do you have|would you like|do you need|can i help(?: you)? with) any(?:thing)?(?: (?:else|other|more|further|additional))"
    r"[^\d:;]{0,60}",
    r"how (?:can|may|could) i (?:help|assist)(?: you)?(?: today| further| with (?:that|this))?",
    r"(?:good)?bye|see you(?: later| soon| then)?|take care|have a (?:great|nice|good|wonderful|lovely) (?:day|evening|weekend|night|one|time)",
    r"(?:best|kind|warm)(?: regards| wishes)|regards|sincerely|yours (?:truly|sincerely|faithfully)",
    r"(?:i )?(?:apologi[sz]e|apologies|my apologies|(?:i'm |i am )?(?:so |very )?sorry)(?: (?:for|about) (?:that|this|the (?:confusion|delay|mistake"
    r"|error|inconvenience|misunderstanding)|any (?:confusion|inconvenience)|my (?:mistake|error)))?",
    # other languages: the greeting, the thanks, the assent
    r"hallo|guten (?:tag|morgen|abend)|(?:vielen |besten )?dank(?:e(?: schön| sehr)?)?|gern(?:e)?(?: geschehen)?|bitte(?: schön| sehr)?"
    r"|natürlich|selbstverständlich|klar|ich hoffe,? (?:das|dies) hilft(?: dir| ihnen)?(?: weiter)?",
    r"bonjour|bonsoir|salut|merci(?: beaucoup| bien)?|de rien|avec plaisir|bien sûr|je vous en prie|j'espère que (?:cela|ça) (?:vous |t')?aide(?:ra)?",
    r"hola|buenos días|buenas (?:tardes|noches)|(?:muchas )?gracias|de nada|claro(?: que sí)?|por supuesto|con gusto|espero que (?:esto |eso )?(?:te |le )?ayude",
    r"olá|oi|bom dia|boa (?:tarde|noite)|(?:muito )?obrigad[oa]|com certeza|com prazer|espero (?:que isso ajude|ter ajudado)",
    r"ciao|salve|buongiorno|buonasera|(?:molte )?grazie(?: mille)?|prego|certo|certamente|di (?:nulla|niente)|spero (?:che )?(?:questo )?(?:ti |le )?(?:aiuti|sia utile)",
    r"你好|您好|谢谢|不客气|こんにちは|ありがとう(?:ございます)?|どういたしまして",
)
_LEAD = (
    r"(?:(?:sure|certainly|of course|absolutely|okay|ok|great)[,!]? )?(?:here(?:'s| is| are)|below (?:is|are)|the following (?:is|are))"
    r" (?:[\w'’-]+ ){0,6}(?:summary|summaries|overview|outline|answers?|breakdown|list|response|translation|explanation|version"
    r"|points|steps|highlights|details|information|result|results|recap|takeaways)"
)
_LEADS = (
    _LEAD + r"(?:[ ,][^\d:;]{0,120})?:",
    _LEAD
    + rf"(?: (?:of|for|from|based on|to) (?:{_PLACE}|your question|you|the conversation))?(?: you (?:asked for|requested|need))?",
    r"(?:in )?(?:summary|short|conclusion|answer|response|overview|key (?:points|takeaways|facts|findings)|main points|sources?|references):",
    r"here (?:you go|it is|they are|we go)",
)
_SORRY = (
    r"(?:(?:(?:i'm|i am|we're|we are) )?(?:very |so |really |terribly )?(?:sorry|afraid)|my apologies|apologies|i apologi[sz]e"
    r"|unfortunately|regrettably|well|hmm)?,? ?(?:but |that )?(?:at this time,? |at the moment,? |currently,? )?"
)
_CANNOT = (
    r"(?:i|we)(?: (?:can't|cannot|can not|could not|couldn't|won't|will not be able to|won't be able to|did not|didn't)"
    r"| (?:am|are|was|were) (?:unable|not able|not allowed) to|(?:'m|'re) (?:unable|not able|not allowed) to) "
)
_OBJECT = rf"(?:that|this|it|anything|you|{_INFO}|(?:your|the|that|this|such) (?:question|request|query|requests|answer)|with (?:that|this|it))"
_REFUSALS = (
    r"idk|dunno|n/?a|none|null|nil|unknown|unanswerable|not (?:available|applicable|known|sure|found|specified|provided|mentioned|stated|enough information)",
    r"no (?:answer|idea|information|info|data|results?|comment|context|evidence)(?: (?:found|available|provided|given))?",
    rf"{_SORRY}(?:i|we) (?:really |honestly |simply |just )?(?:do not|don't) know(?: (?:that|this|it|about (?:that|this)|the answer"
    rf"(?: to (?:that|this|your|the)(?: question)?)?|for (?:sure|certain)|enough (?:about (?:that|this)|to (?:answer|say)(?: that| this)?)))?",
    rf"{_SORRY}(?:i|we) (?:(?:do not|don't) (?:currently )?have|have no) (?:access to )?(?:{_INFO}|real-time [\w ]+|idea|access){_TAIL}",
    rf"{_SORRY}(?:i'm|i am|we're|we are) not (?:sure|certain)(?: (?:about (?:that|this)|how to answer(?: that| this)?|i understand(?: the question)?))?",
    rf"{_SORRY}{_CANNOT}(?:answer|help|assist|say|tell|comply|respond)(?: with (?:that|this)| you)?",
    rf"{_SORRY}{_CANNOT}(?:find|locate|see|answer|determine|provide|give|help|assist|verify|confirm|access|tell|comply with|fulfil+|do|identify"
    rf"|share|discuss|offer|extract|support|process|open) {_OBJECT}{_TAIL}",
    rf"{_SORRY}{_CANNOT}(?:find|locate|see|answer|determine|provide|verify|confirm|access|tell|say) [^\d:;]{{0,120}}"
    rf"(?:in|from|within|based on|using|with) {_PLACE}",
    rf"{_SORRY}(?:as an? |i am an? |i'm an? )(?:ai|artificial intelligence|language model|large language model|llm)\b[^\d:;.]{{0,60}},? (?:and |so )?"
    rf"i(?:'m| am| can't| cannot| can not| do not| don't| have no| could not| won't){_TAIL}",
    rf"{_SORRY}(?:the|this|your) (?:(?:provided|given|supplied|retrieved|available|above|current) (?:[\w-]+ ){{0,2}}(?:contexts?|documents?|texts?"
    rf"|passages?|sources?|files?|excerpts?|materials?|articles?|evidence|information|data|results)|context)(?: (?:provided|given|above))?"
    rf" (?:does not|doesn't|do not|don't|did not|didn't)(?: (?:seem|appear) to)?(?: (?:explicitly|directly|specifically))?"
    rf" (?:contain|mention|provide|include|specify|state|say|have|give|address|discuss|cover|answer|offer)\b{_TAIL}",
    rf"{_SORRY}{_PLACE} (?:does not|doesn't|do not|don't) (?:contain|provide|include|have|give|offer) (?:(?:enough|sufficient) {_INFO}|(?:the|an) answer){_TAIL}",
    rf"{_SORRY}there (?:is|was|are) (?:no|not enough|insufficient) (?:relevant |specific |sufficient |explicit )?(?:information|mention|context|data|details|answer)"
    rf"(?: (?:available|provided|given))?(?:(?: [^\d:;]{{0,80}})? (?:in|from|within) {_PLACE}| to (?:answer|determine|say)[^\d:;]{{0,80}})?",
    rf"{_SORRY}(?:that|this|it|the answer|that information|this information|the information)(?: is|'s) not (?:available|mentioned|provided|specified"
    rf"|stated|given|included|found|covered)(?: (?:in|by|within) {_PLACE})?",
    rf"{_SORRY}(?:it is|it's) (?:not possible|impossible|unclear|not clear)(?: to (?:say|tell|determine|answer)[^\d:;]{{0,60}})? (?:from|based on|given) {_PLACE}",
    r"(?:no|not enough|insufficient) (?:information|info|context|data)(?: is| was)?(?: (?:available|provided|given))?(?: (?:in|to|about|on|for|from)[^\d:;]{0,80})?",
    rf"based on {_PLACE},? (?:i (?:cannot|can't|do not|don't|am unable to)|there is no) (?:find |answer |determine |know |have )?(?:{_OBJECT}|the answer)?{_TAIL}",
    # other languages
    r"(?:(?:es )?tut mir leid,? (?:aber )?|leider )?(?:(?:das )?weiß ich(?: leider)? nicht|ich weiß (?:es |das )?(?:leider )?nicht"
    r"|(?:das |dies |die frage |diese frage )?(?:kann|konnte) ich (?:das |dies |die frage |diese frage |dazu )?(?:leider )?(?:nicht|nichts|keine (?:angaben|informationen))"
    r"(?: (?:beantworten|finden|sagen|machen))?|ich (?:kann|konnte) (?:das|dies|die frage|diese frage|dazu)(?: in den (?:dateien|unterlagen|quellen))? (?:leider )?"
    r"(?:nicht|nichts|keine angaben)(?: (?:beantworten|finden|sagen|machen))?)|keine (?:ahnung|angaben?|antwort|information(?:en)?)|unbekannt",
    r"(?:(?:je suis )?désolée?,? (?:mais )?)?(?:je ne sais pas|je (?:ne )?peux pas (?:répondre|vous aider)(?: à (?:cette|votre|la) question)?"
    r"|je n'ai pas (?:trouvé )?(?:cette information|l'information|d'informations?|la réponse|de réponse|assez d'informations)(?: dans [^\d:;]{0,60})?)"
    r"|aucune (?:idée|information|réponse)|inconnu",
    r"(?:(?:lo siento|perdón|disculpe|desculpa),? (?:pero )?)?(?:no (?:lo )?sé|no (?:puedo|pude) (?:responder|ayudar|encontrar)(?:(?: a)? (?:eso|esto|esa pregunta"
    r"|esta pregunta|esa información|la respuesta|información))?(?: en [^\d:;]{0,60})?|no tengo (?:esa |suficiente )?información)|ni idea|desconocido",
    r"(?:(?:desculpe|desculpa|lamento|sinto muito),? (?:mas )?)?(?:(?:eu )?não sei|não (?:posso|consigo|consegui|pude) (?:responder|ajudar|encontrar)"
    r"(?:(?: a)? (?:isso|isto|essa pergunta|esta pergunta|essa informação|a resposta))?(?: n[oa]s? [^\d:;]{0,60})?|não tenho (?:essa |informação |informações )?(?:suficiente|informação|informações)?)",
    r"(?:(?:mi dispiace|scusi|scusa),? (?:ma )?)?(?:non (?:lo )?so|non (?:posso|riesco a) (?:rispondere|aiutare)(?: a (?:questa|quella) domanda)?"
    r"|non ho (?:trovato )?(?:questa |abbastanza |la )?(?:informazion[ei]|risposta)(?: ne[il]l?[aeo]? [^\d:;]{0,60})?)|nessuna (?:idea|informazione|risposta)",
    r"我不知道|不知道|无法回答|抱歉,?我?(?:不知道|无法回答)(?:这个问题)?|わかりません|分かりません",
)
_COURTESIES = re.compile("|".join(f"(?:{pattern})" for pattern in (*_COURTESY, *_LEADS)))
_REFUSED = re.compile("|".join(f"(?:{pattern})" for pattern in _REFUSALS))


def no_claim_reason(core: str) -> str | None:
    """Say why an utterance claims nothing, or None if it is to be taken as a claim.

    Parameters
    ----------
    core : an utterance: usually ``Span.core``. Several short sentences at once are judged one by one: one claim
        among them makes the whole a claim.

    Returns
    -------
    ``"empty"`` (nothing but white space and invisible signs), ``"no words"`` (no letter and no digit),
    ``"courtesy"`` (greeting, thanks, offer of help, lead phrase), ``"refusal"`` (the speaker declines or does not
    know), or None.
    The same text gets the same answer on every run.
    """
    if _BLANK.fullmatch(core):
        return "empty"
    if not has_words(core):
        return "no words"
    if len(core) > _LONGEST:
        return None
    said = fold(core).lower().replace("’", "'").replace("，", ",")
    pieces = [piece for piece in (_EDGES.sub("", part) for part in _STOPS.split(said)) if has_words(piece)]
    refused = False
    for piece in pieces:
        if _REFUSED.fullmatch(piece.removesuffix(":")):
            refused = True
        elif not (_COURTESIES.fullmatch(piece) or _COURTESIES.fullmatch(piece.removesuffix(":"))):
            return None
    return "refusal" if refused else "courtesy"
