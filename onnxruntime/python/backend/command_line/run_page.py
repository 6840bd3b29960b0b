# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The HTML page of the ``run`` command: a picture of the latencies, and the table."""

from __future__ import annotations

from html import escape

from onnxruntime.backend.command_line import inputs, run_tables, tables

_STYLE = """td div{max-height:none}
svg{max-width:60em;width:100%}svg text{font:13px system-ui,sans-serif;fill:currentColor}
svg .p50{fill:#2a6}svg .p90{fill:#2a66}svg .p99{stroke:currentColor}"""
_WIDTH = 800  # of the picture
_HEIGHT = 46  # of a configuration in the picture
_LABEL = 60  # characters


def html(result: dict) -> str:
    sentences = [f"ONNX Runtime {result['onnxruntime']}, backend {result['backend']}."]
    listed = "; ".join(map(inputs.declaration, result["inputs"]))
    if listed:
        sentences.append(f"Inputs: {listed}.")
    if result["interrupted"]:
        sentences.append("The command was interrupted.")
    introduction = escape(" ".join(sentences))
    table = run_tables.table(result)
    picture = _picture(table.names, result["configurations"])
    body = f"<p>{introduction}</p>{picture}{tables.html(table)}"
    return tables.html_page(table.title, body, _STYLE)


def _picture(names: list[str], configurations: list[dict]) -> str:
    """Return bars of the percentiles of each configuration."""
    measured = []
    for name, ran in zip(names, configurations, strict=True):
        latency = ran.get("latency_ms")
        if latency:
            measured.append((name, latency))
    if not measured:
        return ""

    # A few slow runs would shorten all bars.
    longest = max(latency["p99"] for _, latency in measured)
    longest = min(longest, 2 * max(latency["p90"] for _, latency in measured))
    bars = []
    for number, (name, latency) in enumerate(measured):
        bars.append(_bar(name, latency, longest, number * _HEIGHT))
    height = _HEIGHT * len(measured)
    lines = "\n".join(bars)
    return f"""<h2>Latency</h2>
<p>From 0: the median (p50), the time of 90 % of the runs (p90), and a line to the time of 99 % (p99).</p>
<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="Latency of each configuration">
{lines}
</svg>
<h2>Configurations</h2>"""


def _bar(
    name: str,
    latency: dict,
    longest: float,
    top: int,
) -> str:
    label = name
    if len(name) > _LABEL:
        label = f"{name[: _LABEL - 3]}..."
    texts = []
    widths = []
    for figure in run_tables.FIGURES:
        milliseconds = latency[figure]
        texts.append(f"{figure} {milliseconds:.3g}")
        share = min(1.0, milliseconds / longest)
        widths.append(share * _WIDTH)
    listed = ", ".join(texts)
    text = f"{label} — {listed} ms"
    p50, p90, p99 = widths
    middle = top + 29
    return (
        f'<text x="0" y="{top + 16}">{escape(text)}</text>'
        f'<rect class="p90" x="0" y="{top + 22}" width="{p90:.1f}" height="14"/>'
        f'<rect class="p50" x="0" y="{top + 22}" width="{p50:.1f}" height="14"/>'
        f'<line class="p99" x1="{p90:.1f}" y1="{middle}" x2="{p99:.1f}" y2="{middle}"/>'
    )
