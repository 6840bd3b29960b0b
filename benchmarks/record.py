# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Keeps the last results in a file, and finds the rows that became slower."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median

# Results in the file.
KEPT = 10
# A row became slower if its figure is above this multiple of the median of the kept results.
SLOWER = 1.05


def read(file: Path) -> list[dict]:
    if not file.exists():
        return []
    return json.loads(file.read_text(encoding="utf-8"))


def add(file: Path, result: Mapping[str, object]) -> None:
    """Add a result to the file, and remove the oldest if there are too many."""
    results = read(file)
    results.append(result)
    text = json.dumps(results[-KEPT:], indent=1)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n", encoding="utf-8")


def slower_rows(results: list[dict], new: Mapping[str, object]) -> Iterator[str]:
    """Yield a line for each row that is slower than the median of earlier results under the same conditions."""
    earlier = [_figures(result) for result in results if _conditions(result) == _conditions(new)]
    for name, figure in _figures(new).items():
        figures = [one[name] for one in earlier if name in one]
        if not figures:
            continue
        usual = median(figures)
        if figure > usual * SLOWER:
            change = figure / usual - 1
            yield f"SLOWER: {name}: {figure:.4g}, {change:.0%} above the median of {len(figures)} results"


def _conditions(result: Mapping[str, object]) -> list[str]:
    machine = result["machine"]
    release = machine["onnxruntime"].partition("+")[0]  # the label changes with each edit of the backend
    return [machine["CPU"], machine["CPUs"], machine["Python"], release]


def _figures(result: Mapping[str, object]) -> dict[str, float]:
    """Return the figure of each row that measured a time and was not disturbed."""
    found = {}
    for row in result["comparisons"]:
        if row["unit"] == "s" and not row["unsteady"]:
            figure = row["ratio"] or row["value"]
            found[row["name"]] = figure["median"]
    return found
