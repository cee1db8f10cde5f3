"""Behaves as `facefusion.py` of FaceFusion 3.8.1 where the sidecar calls it: its options, its exit statuses, and what it says.

It copies the target to the output. The file `mode` in its folder says what goes wrong, and `called` gets its arguments.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time

IMAGES, VIDEOS, SOUNDS = (".jpg", ".jpeg", ".png", ".webp"), (".mp4", ".mov", ".mkv", ".webm"), (".wav", ".mp3", ".flac", ".ogg", ".m4a")


def options():
    program = argparse.ArgumentParser()
    program.add_argument("-v", "--version", action="version", version="FaceFusion 3.8.1")
    headless = program.add_subparsers(dest="command").add_parser("headless-run")
    for name in ("--target-path", "--output-path", "--jobs-path", "--temp-path"):
        headless.add_argument(name, required=True)
    headless.add_argument("--source-paths", nargs="+", required=True)
    headless.add_argument("--processors", nargs="+", choices=["face_swapper", "face_enhancer", "lip_syncer"])
    headless.add_argument("--face-swapper-model", choices=["hyperswap_1a_256", "inswapper_128"])
    headless.add_argument("--face-swapper-weight", type=float)
    headless.add_argument("--output-image-quality", type=int)
    headless.add_argument("--execution-device-ids", type=int, nargs="+")
    headless.add_argument("--log-level", choices=["error", "warn", "info", "debug"])
    return program


def bar(name, steps):
    """As tqdm writes one: over itself."""
    for step in range(steps + 1):
        done = step * 100 // steps
        sys.stderr.write(f"\r{name}: {done:3d}%|{'=' * (done // 10):10s}| {step}/{steps} [00:00<00:00, 20.0frame/s]")
        sys.stderr.flush()
        time.sleep(0.05)
    sys.stderr.write("\n")


def say(where, text):
    print(f"[FACEFUSION.{where}] {text}", file=sys.stderr, flush=True)


def main():
    args = options().parse_args()
    with open("mode") as file:
        mode = file.read().strip()
    with open("called", "a") as file:
        file.write(json.dumps(sys.argv[1:]) + "\n")
    os.makedirs(args.jobs_path, exist_ok=True)
    say("CORE", "processing step 1 of 1")
    suffix = os.path.splitext(args.target_path)[1]
    if "face_swapper" in args.processors and not args.source_paths[0].endswith(IMAGES):
        say("FACE_SWAPPER", "choose an image for the source!")
        return 1
    if "lip_syncer" in args.processors and not args.source_paths[0].endswith(SOUNDS):
        say("LIP_SYNCER", "choose an audio for the source!")
        return 1
    if not os.path.isfile(args.target_path) or suffix not in IMAGES + VIDEOS:
        say("FACE_SWAPPER", "choose an image or video for the target!")
        return 1
    if os.path.splitext(args.output_path)[1] != suffix:
        say("FACE_SWAPPER", "match the target and output extension!")
        return 1
    if mode == "no-face":
        say("FACE_SWAPPER", "no source face detected!")
        return 1
    bar("analysing", 2)
    if mode == "slow":
        # As its ffmpeg does, this goes on unless it is ended too.
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        with open("child", "w") as file:
            file.write(str(child.pid))
    bar("processing", 1200 if mode == "slow" else 8)
    if mode == "memory":
        print("onnxruntime::BFCArena: Failed to allocate memory for requested buffer of size 4294967296", file=sys.stderr)
        return 1
    if mode == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if mode == "fail":
        say("TO_VIDEO", "merging video failed")
        return 1
    if mode != "nothing":
        shutil.copy(args.target_path, args.output_path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
