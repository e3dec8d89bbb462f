"""Label columns of text files as numbers, where all files agree that they are."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from kgprobe.ranks.importers.draft import Draft
from kgprobe.ranks.importers.values import all_whole, blanked

_CODE = r"^0[0-9]"


def infer_types(drafts: Sequence[Draft]) -> None:
    """Turn label columns of text into numbers where every value of every file is one; empty ones are null.

    Example:
        >>> from pathlib import Path
        >>> columns = {"weight": pa.array(["0.5", ""]), "code": pa.array(["007", "12"])}
        >>> draft = Draft(Path("ranks.csv"), rows=2, columns=columns)
        >>> infer_types([draft])
        >>> draft.columns["weight"].to_pylist(), draft.columns["code"].to_pylist()
        ([0.5, None], ['007', '12'])
    """
    for name in dict.fromkeys(name for draft in drafts for name in draft.label_columns):
        having = [draft for draft in drafts if name in draft.columns]
        kind = _kind([blanked(draft.columns[name], nan=True) for draft in having])
        for draft in having:
            column = draft.columns[name]
            numeric = not pa.types.is_string(kind)
            text = blanked(column, nan=True) if numeric else pc.if_else(pc.equal(column, ""), None, column)
            draft.columns[name] = text.cast(pa.float64()).cast(kind) if numeric else text


def _kind(columns: list[pa.Array]) -> pa.DataType:
    distinct = pc.unique(pa.concat_arrays(columns)).drop_null()
    if not len(distinct) or pc.any(pc.match_substring_regex(distinct, _CODE)).as_py():
        return pa.string()
    try:
        numbers = distinct.cast(pa.float64())
    except pa.ArrowInvalid:
        return pa.string()
    exact = all_whole(distinct) and pc.max(pc.abs(numbers)).as_py() < 2**53
    return pa.int64() if exact else pa.float64()
