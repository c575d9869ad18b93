"""Reading an answer and its evidence as the command line names them."""

from __future__ import annotations

from pathlib import Path

from outspan.errors import InputError
from outspan.evidence import EvidenceItem
from outspan.files import read_evidence, read_text


def read_answer_and_evidence(answer: str, evidence_paths: tuple[str, ...]) -> tuple[str, list[EvidenceItem]]:
    """The answer's text and every evidence item, in the order of the files.

    Raises
    ------
    InputError
        For a file that cannot be read as text, or standard input named twice.
    """
    if [answer, *evidence_paths].count("-") > 1:
        raise InputError(
            "standard input can be read only once", remedy="Give '-' for the answer or for one evidence file"
        )
    text = read_text(_path(answer))
    names = [Path(path).name for path in dict.fromkeys(evidence_paths)]
    items: list[EvidenceItem] = []
    for path in evidence_paths:
        # Two files of one name would give two sentences one id: then the whole path tells them apart.
        label = path if names.count(Path(path).name) > 1 else None
        items += read_evidence(_path(path), label=label)
    return text, items


def _path(argument: str) -> Path | str:
    return argument if argument in ("-", "") else Path(argument)
