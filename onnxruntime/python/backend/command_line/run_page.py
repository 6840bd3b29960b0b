# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The HTML page of the ``run`` command: a picture of the latencies, and the table."""

from __future__ import annotations

from html import escape

from onnxruntime.backend.command_line import inputs, run_tables, tables

_STYLE = "td div{max-height:none}"


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
    measured = {}
    for name, ran in zip(names, configurations, strict=True):
        if ran.get("latency_ms"):
            measured[name] = ran["latency_ms"]
    if not measured:
        return ""

    # A few slow runs would shorten all bars.
    longest = max(latency["p99"] for latency in measured.values())
    longest = min(longest, 2 * max(latency["p90"] for latency in measured.values()))
    bars = []
    for name, latency in measured.items():
        ends = []
        for figure in run_tables.FIGURES:
            share = min(1.0, latency[figure] / longest)
            ends.append(f"{100 * share:.1f}%")
        p50, p90, p99 = ends
        colors = f"#2a6 {p50},#2a66 0 {p90},#8886 0 {p99},#0000 0"
        bars.append(f'{escape(name)}<div style="background:linear-gradient(90deg,{colors})">&nbsp;</div>')
    lines = "\n".join(bars)
    return f"""<h2>Latency</h2>
<p>From 0: the median (p50), the time of 90 % of the runs (p90), and the time of 99 % (p99).</p>
{lines}
<h2>Configurations</h2>"""
