"""Records as a pandas data frame, for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from outspan.errors import NotInstalled

if TYPE_CHECKING:
    import pandas as pd


def frame_of(records: Sequence[Mapping[str, object]]) -> pd.DataFrame:
    """One row a record; nested objects become dotted columns, lists stay lists.

    Raises
    ------
    NotInstalled
        Without pandas.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise NotInstalled("pandas", "frames", "A data frame view") from error
    return pd.json_normalize([dict(record) for record in records])
