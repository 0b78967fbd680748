#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes recordings of spoken words with espeak-ng: make_speech.py FOLDER [--words yes,no,...] [--each 60] [--sentences 0].

Writes FOLDER/train/WORD/*.wav and FOLDER/test/WORD/*.wav. The files in test/ have other voices than those in train/. With --sentences N, writes instead
sentences of one to five words, N for training and a quarter as many for testing, with NeMo manifests: FOLDER/train.json and FOLDER/test.json.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

WORDS = "yes no up down left right on off stop go"
VOICES = [f"en-{accent}+{kind}" for kind in ("m1", "m3", "m5", "f1", "f2", "f4", "m7", "f3") for accent in ("us", "gb")]


def speak(word: str, voice: str, speed: int, pitch: int, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["espeak-ng", "-v", voice, "-s", str(speed), "-p", str(pitch), "-w", str(path), word]
    subprocess.run(command, check=True, capture_output=True)


def make(folder: Path, words: list[str], each: int, seed: int = 1) -> None:
    """Writes the recordings. each: number of recordings of each word for training; a quarter as many, but at least one, are for testing."""
    if shutil.which("espeak-ng") is None:
        raise SystemExit("make_speech: install espeak-ng (Debian: apt-get install espeak-ng)")
    rng, jobs = random.Random(seed), []
    for part, voices, count in (("train", VOICES[:-4], each), ("test", VOICES[-4:], max(1, each // 4))):
        for word, i in itertools.product(words, range(count)):
            speed, pitch = rng.randint(110, 220), rng.randint(20, 80)
            jobs.append((word, voices[i % len(voices)], speed, pitch, folder / part / word / f"{i:04}.wav"))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda job: speak(*job), jobs))
    print(f"{len(jobs)} recordings of {len(words)} words in {folder}")


def make_sentences(folder: Path, words: list[str], count: int, seed: int = 1) -> None:
    rng = random.Random(seed)
    for part, voices, sentences in (("train", VOICES[:-4], count), ("test", VOICES[-4:], max(1, count // 4))):
        jobs = []
        for i in range(sentences):
            text = " ".join(rng.choices(words, k=rng.randint(1, 5)))
            jobs.append((text, voices[i % len(voices)], rng.randint(120, 200), rng.randint(20, 80), folder / part / f"{i:05}.wav"))
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda job: speak(*job), jobs))
        rows = [json.dumps({"audio_filepath": str(path.resolve()), "text": text}) for text, *_, path in jobs]
        (folder / f"{part}.json").write_text("\n".join(rows) + "\n")
        print(f"{len(jobs)} sentences in {folder / part}.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--words", default=",".join(WORDS.split()))
    parser.add_argument("--each", type=int, default=60)
    parser.add_argument("--sentences", type=int, default=0)
    args = parser.parse_args()
    if args.sentences:
        if shutil.which("espeak-ng") is None:
            raise SystemExit("make_speech: install espeak-ng (Debian: apt-get install espeak-ng)")
        make_sentences(args.folder, args.words.split(","), args.sentences)
        return
    make(args.folder, args.words.split(","), args.each)


if __name__ == "__main__":
    main()
