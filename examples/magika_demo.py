# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Classify files with Google's Magika model in several configurations.

``python examples/magika_demo.py FILE...`` prints the result of each configuration. One configuration is permitted, one
is refused, and one is not available. The program then prints the number of files with each label. ``--each`` prints the
label of each file. The ``magika`` package contains the model, its settings, and the labels. It is installed, or in the
folder ``models`` of the current folder.
"""

import importlib.util
import json
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

import onnxruntime
import onnxruntime.backend
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep


def package_folder() -> Path:
    """Return the folder of the package ``magika``: the installed one, or the one in the folder ``models``."""
    folder = Path("models", "magika").resolve()
    found = importlib.util.find_spec("magika")
    if found:
        folder = Path(found.submodule_search_locations[0])
    if not folder.is_dir():
        raise ModuleNotFoundError("No module named 'magika'. Run: pip install --no-deps --target models magika")
    return folder


MAGIKA = package_folder()
MODEL = MAGIKA / "models" / "standard_v3_3"
SETTINGS = json.loads((MODEL / "config.min.json").read_text())
CONTENT_TYPES = json.loads((MAGIKA / "config" / "content_types_kb.min.json").read_text())

SESSION_CONFIG = {"session.intra_op.allow_spinning": False}
RUN_CONFIG = {"memory.enable_memory_arena_shrinkage": "cpu:0"}


def prepare_magika(**kwargs) -> OnnxRuntimeBackendRep:
    """Return the prepared model.

    :param kwargs: arguments of :func:`onnxruntime.backend.prepare`
    """
    return onnxruntime.backend.prepare((MODEL / "model.onnx").read_bytes(), "CPU", **kwargs)


def tokens(content: bytes) -> np.ndarray:
    """Return the model's input for a file: its first and last bytes, without surrounding white space.

    :param content: the whole file
    :return: int32, bytes and padding tokens
    """
    block = SETTINGS["block_size"]
    first, last = SETTINGS["beg_size"], SETTINGS["end_size"]
    row = np.full(first + last, SETTINGS["padding_token"], np.int32)
    head = content[:block].lstrip()[:first]
    tail = content[-block:].rstrip()[-last:]
    row[: len(head)] = list(head)
    row[len(row) - len(tail) :] = list(tail)
    return row


def label_without_model(content: bytes) -> str | None:
    """Return the label of a file that is too small for the model, or None for every other file."""
    least = SETTINGS["min_file_size_for_dl"]
    if not content:
        return "empty"
    if tokens(content)[least - 1] != SETTINGS["padding_token"]:
        return None
    try:
        content[: SETTINGS["block_size"]].decode()
    except UnicodeDecodeError:
        return "unknown"
    return "txt"


def label_from_scores(scores: np.ndarray) -> str:
    """Return the label for the model's scores of one file, or a generic label if the scores are low."""
    best = int(scores.argmax())
    seen = SETTINGS["target_labels_space"][best]
    label = SETTINGS["overwrite_map"].get(seen, seen)
    threshold = SETTINGS["thresholds"].get(seen, SETTINGS["medium_confidence_threshold"])
    if float(scores[best]) >= threshold:
        return label
    if CONTENT_TYPES[label]["is_text"]:
        return "txt"
    return "unknown"


def classify(rep: OnnxRuntimeBackendRep, contents: list[bytes]) -> list[str]:
    """Return a label for each file, with one run of the model.

    :param rep: the result of :func:`prepare_magika`
    :param contents: the files
    """
    labels = [label_without_model(content) for content in contents]
    chosen = []
    rows = []
    for index, content in enumerate(contents):
        if labels[index] is None:
            chosen.append(index)
            rows.append(tokens(content))
    if chosen:
        (scores,) = rep.run([np.stack(rows)])
        for index, row in zip(chosen, scores, strict=True):
            labels[index] = label_from_scores(row)
    return labels


def configurations() -> dict[str, dict]:
    """Return the configurations by their descriptions."""
    absent = "CUDAExecutionProvider"
    if absent in onnxruntime.get_available_providers():
        absent = "DmlExecutionProvider"
    return {
        "default": {},
        "helpful: idle threads sleep": {"session_config": SESSION_CONFIG, "run_config": RUN_CONFIG},
        "refused: it would write files": {"session_config": {"session.collect_node_memory_stats_to_file": "stats.csv"}},
        f"unavailable: {absent} is not part of this base": {"provider_options": {absent: {}}},
    }


def cpu_seconds(rep: OnnxRuntimeBackendRep, contents: list[bytes]) -> float:
    """Return the CPU time of all threads, in seconds, for files that arrive one after the other.

    :param rep: the result of :func:`prepare_magika`
    :param contents: the files
    """
    classify(rep, contents[:1])
    started = time.process_time()
    for content in contents:
        classify(rep, [content])
        time.sleep(0.01)
    return time.process_time() - started


def main(arguments: list[str]) -> None:
    paths = [path for path in map(Path, arguments) if path.is_file()]
    contents = [path.read_bytes() for path in paths]
    labels: list[str] = []
    for what, configuration in configurations().items():
        print(what)
        try:
            rep = prepare_magika(**configuration)
        except RuntimeError as refusal:
            print(f"  {refusal}\n")
            continue
        found = classify(rep, contents)
        if labels and found != labels:
            sys.exit("The labels differ from those of the default configuration.")
        labels = found
        print("  providers     ", ", ".join(rep.providers))
        print("  session_config", rep.session_config)
        print("  run_config    ", rep.run_config)
        some = contents[:40]
        print(f"  CPU time       {cpu_seconds(rep, some):.2f} s for {len(some)} files, 10 ms apart\n")
    if "--each" in arguments:
        for path, label in zip(paths, labels, strict=True):
            print(f"{label:12} {path}")
    counts = [f"{count} {label}" for label, count in Counter(labels).most_common()]
    print(f"{len(paths)} files:", ", ".join(counts))


if __name__ == "__main__":
    main(sys.argv[1:])
