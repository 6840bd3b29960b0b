# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""Find speech with the Silero voice activity detector on the CPU, configured for a service with many small streams.

The program prints the probability that a sound is speech. The sound is a file, or generated silence, noise, and
babble::

    python examples/silero_vad.py silero_vad/data/silero_vad.onnx [16_KHZ_MONO.wav]

To install the model without the package's requirements, run ``pip install --no-deps --target . silero-vad``.
"""

import os
import sys
import wave

import numpy as np

import onnxruntime.backend
from onnxruntime.backend.backend_rep import OnnxRuntimeBackendRep

RATE = 16000
CHUNK, CONTEXT = 512, 64  # samples of one run, and samples before them that the model also reads

# A stream needs a millisecond of work from time to time. Idle threads that spin would cost far more.
CONFIGURATION = {
    "provider_options": {"CPUExecutionProvider": {}},
    "session_config": {"session.intra_op.allow_spinning": False},
    "run_config": {"memory.enable_memory_arena_shrinkage": "cpu:0"},
}


def speech(rep: OnnxRuntimeBackendRep, sound: np.ndarray) -> np.ndarray:
    """Return the probability of speech for each chunk of a sound.

    :param rep: the prepared model
    :param sound: float32 samples at ``RATE``
    :return: a probability for each whole chunk
    """
    state = np.zeros((2, 1, 128), np.float32)
    context = np.zeros(CONTEXT, np.float32)
    found = []
    chunks = len(sound) // CHUNK
    for chunk in sound[: chunks * CHUNK].reshape(chunks, CHUNK):
        samples = np.concatenate([context, chunk])
        probability, state = rep.run({"input": samples[None], "state": state, "sr": RATE})
        context = chunk[-CONTEXT:]
        found.append(probability.item())
    return np.array(found)


def vowel(pitch: float, resonances: list[tuple[float, float]], seconds: float) -> np.ndarray:
    """Return a sound like a sung vowel: pulses of a varying pitch, with a filter for each (Hz, bandwidth)."""
    time = np.arange(int(seconds * RATE)) / RATE
    varying = pitch * (1 + 0.03 * np.sin(2 * np.pi * 5 * time))
    pulses = np.floor(np.cumsum(varying) / RATE)
    sound = np.diff(pulses, prepend=0.0)
    for frequency, bandwidth in resonances:
        radius = np.exp(-np.pi * bandwidth / RATE)
        near = 2 * radius * np.cos(2 * np.pi * frequency / RATE)
        far = -(radius**2)
        before = beyond = 0.0
        for index, sample in enumerate(sound):
            filtered = sample + near * before + far * beyond
            beyond = before
            before = filtered
            sound[index] = filtered
    return 0.5 * sound / np.abs(sound).max()


def made_up() -> dict[str, np.ndarray]:
    """Return generated sounds by name."""
    babble = [
        vowel(130, [(730, 90), (1090, 110), (2440, 170)], 0.15),
        np.zeros(1200),
        vowel(110, [(300, 60), (2200, 100), (3000, 150)], 0.18),
        np.zeros(900),
        vowel(120, [(500, 80), (1500, 100), (2500, 150)], 0.2),
    ]
    return {
        "silence": np.zeros(RATE),
        "noise": np.random.default_rng(0).normal(0, 0.02, RATE),
        "babble": np.concatenate(babble),
    }


def recorded(file: str) -> np.ndarray:
    """Return the samples of a WAV file."""
    with wave.open(file) as opened:
        form = (opened.getframerate(), opened.getnchannels(), opened.getsampwidth())
        if form != (RATE, 1, 2):
            sys.exit(f"{file} is not {RATE} Hz, mono, 16 bits")
        content = opened.readframes(opened.getnframes())
    return np.frombuffer(content, "<i2") / 2**15


def main(model: str, file: str | None = None) -> None:
    rep = onnxruntime.backend.prepare(model, "CPU", **CONFIGURATION)
    sounds = made_up()
    if file is not None:
        sounds = {file: recorded(file)}
    for name, sound in sounds.items():
        likely = speech(rep, sound.astype(np.float32)).max()
        verdict = "no speech"
        if likely > 0.5:
            verdict = "speech"
        print(f"{name:10} {verdict:10} at most {likely:.2f}")
    print("session_config", rep.session_config)
    print("run_config    ", rep.run_config)
    print("nodes         ", rep.node_assignment)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or not all(map(os.path.isfile, sys.argv[1:])):
        sys.exit("usage: python examples/silero_vad.py MODEL [SOUND] (the ONNX file of Silero VAD, and a WAV file)")
    main(*sys.argv[1:])
