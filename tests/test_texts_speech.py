"""Which utterances claim nothing, and which only sound like it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outspan.texts import no_claim_reason

COURTESY = """
Hi there! Happy to help.
Hi there!
Sure!
Certainly! Here are the key points:
Thanks!
Thank you for your question!
You’re welcome 😊
Great question!
I hope this helps
Let me know if you need anything else.
If you have any other questions, feel free to ask!
Is there anything else I can help you with?
Here is a summary:
Here's a short overview of the passage, covering the main ideas:
Hallo!
Merci beaucoup !
¡Muchas gracias!
Muito obrigada!
Grazie mille
谢谢！
"""
REFUSAL = """
IDK
n/a
N/A.
None
I don't know.
I'm not sure.
Sorry, I could not find that in the files.
The provided context does not contain information about the ferry.
Unfortunately, the given documents do not mention the tariff.
I cannot answer
I'm sorry, but I can't help with that.
As an AI language model, I can't give medical advice.
There is no information in the provided context.
The answer is not mentioned in the text.
Sorry, I don't have enough information to answer that question.
I was unable to find any information about this in the provided documents.
Based on the provided context, I cannot answer the question.
Das weiß ich leider nicht.
Je ne sais pas.
No lo sé.
Não sei.
Non lo so.
我不知道。
"""
CLAIMS = """
The committee could not find the files in 1998.
Thanks to the dam, floods ended.
Sure enough, the bridge fell in 1932.
Sorry is a 2014 film.
He said he did not know the answer.
I cannot recommend aspirin below 12 years of age
The article does not contain nuts.
The text does not mention a deadline.
Hello is a song.
No problem was found with the bridge.
No data was lost.
None of the ferries sailed.
Unknown attackers fled.
Hi there! The bridge opened in 1932.
Sorry, the ferry was cancelled.
I could not find my keys.
Here is the list of kings: Olaf, Harald.
Yes.
We do not know the age of the cave.
Welcome Rock opened.
Of course the dam leaked.
There is no cable in the kit.
There is no evidence of water on the moon.
Great Yarmouth lies in Norfolk.
Ada Brook
42
As an AI language model, it was trained on maps.
Merci is a village.
"""


def lines(text: str) -> list[str]:
    return text.strip().splitlines()


@pytest.mark.parametrize("utterance", lines(COURTESY))
def test_courtesy(utterance: str) -> None:
    assert no_claim_reason(utterance) == "courtesy"


@pytest.mark.parametrize("utterance", lines(REFUSAL))
def test_refusal(utterance: str) -> None:
    assert no_claim_reason(utterance) == "refusal"


@pytest.mark.parametrize("utterance", lines(CLAIMS))
def test_a_claim_that_sounds_like_courtesy(utterance: str) -> None:
    assert no_claim_reason(utterance) is None


@pytest.mark.parametrize("utterance", ["👍", "...", "— ?!", "🙂🙂"])
def test_signs(utterance: str) -> None:
    assert no_claim_reason(utterance) == "no words"


@pytest.mark.parametrize("utterance", ["", "  \n", "\u200b", "\ufeff "])
def test_nothing(utterance: str) -> None:
    assert no_claim_reason(utterance) == "empty"


@given(st.text(max_size=400))
def test_any_text_gets_one_of_the_reasons(utterance: str) -> None:
    assert no_claim_reason(utterance) in {None, "empty", "no words", "courtesy", "refusal"}


@given(st.sampled_from(lines(CLAIMS)), st.sampled_from(lines(COURTESY + REFUSAL)))
def test_courtesy_beside_a_claim_leaves_it_a_claim(claim: str, courtesy: str) -> None:
    assert no_claim_reason(f"{courtesy.rstrip('.!?:')}. {claim}") is None
