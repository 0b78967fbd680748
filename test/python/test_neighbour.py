# SPDX-License-Identifier: Apache-2.0
"""A hostile user, who can write to the folders that a run uses, replaces the files in them.

Each file that Stoker opens or writes becomes a link, a dangling link, a FIFO, a folder, a device, a socket, or an empty, cut or growing file. Stoker reports an
error or does its job. It never hangs, never changes the target of a link, and never dies by a signal. Each family of files has its own process, which prints
the stacks of its threads and exits if a case takes too long. The positions of cuts and changed bytes are random; STOKER_LONG=1 tests many of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from support import SEED

LONG = os.environ.get("STOKER_LONG") == "1"

COMMON = """
import contextlib, faulthandler, io, json, os, random, shutil, socket, subprocess, sys, tarfile, tempfile, threading, time
from pathlib import Path
import numpy as np
import stoker
from PIL import Image
from stoker import Loader, Pipeline, Storage, fn, transforms as T

root = Path(sys.argv[1])
stoker_command = sys.argv[2] if len(sys.argv) > 2 else None
sys.path.append(sys.argv[3])  # helpers of the tests
seed, rounds = sys.argv[4], int(sys.argv[5])
draws = random.Random()
victim, absent = root / "victim", root / "absent"
PRECIOUS = b"precious bytes of the user" * 4
reported = done = 0


def jpeg(i=0):
    out = io.BytesIO()
    Image.new("RGB", (32, 32), (i, 2 * i, 3 * i)).save(out, "JPEG")
    return out.getvalue()


def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def growing(path):
    whole = path.read_bytes() if path.is_file() else b"x"
    remove(path)
    path.write_bytes(whole)
    ends = threading.Event()

    def grow():
        with open(path, "ab") as f:
            while not ends.wait(0.001):
                f.write(b"more")
                f.flush()

    thread = threading.Thread(target=grow)
    thread.start()
    return lambda: (ends.set(), thread.join())


def listening(path):
    here = os.getcwd()
    os.chdir(path.parent)  # names of sockets are short
    held = socket.socket(socket.AF_UNIX)
    held.bind(path.name)
    os.chdir(here)
    return held.close


def cut(path):
    '''Writes in place, because another process may have the file open.'''
    if path.is_dir():
        remove(path)
    whole = path.read_bytes() if path.is_file() else b"xx"
    path.write_bytes(whole[: draws.randrange(len(whole) or 1)])


def changed(path):
    if path.is_dir():
        remove(path)
    whole = bytearray(path.read_bytes() if path.is_file() else b"xx")
    for _ in range(draws.randrange(1, 9) if whole else 0):
        whole[draws.randrange(len(whole))] = draws.randrange(256)
    path.write_bytes(whole)


def replaced(make):
    def act(path):
        remove(path)
        return make(path)

    return act


def hard(path):
    if victim.stat().st_dev == path.parent.stat().st_dev:
        os.link(victim, path)


KINDS = {
    "a link": replaced(lambda p: p.symlink_to(victim)),
    "a hard link": replaced(hard),
    "a dangling link": replaced(lambda p: p.symlink_to(absent)),
    "a link to itself": replaced(lambda p: p.symlink_to(p)),
    "a FIFO": replaced(os.mkfifo),
    "a link to a FIFO": replaced(lambda p: (os.path.exists(root / "pipe") or os.mkfifo(root / "pipe"), p.symlink_to(root / "pipe")) and None),
    "a folder": replaced(lambda p: p.mkdir()),
    "a folder with files": replaced(lambda p: (p.mkdir(), (p / "1-2-3").write_text("x")) and None),
    "endless zeros": replaced(lambda p: p.symlink_to("/dev/zero")),
    "a full device": replaced(lambda p: p.symlink_to("/dev/full")),
    "a terminal": replaced(lambda p: p.symlink_to("/dev/tty")),
    "an endless file of /proc": replaced(lambda p: p.symlink_to("/proc/self/pagemap")),
    "a socket": replaced(listening),
    "an empty file": replaced(lambda p: p.write_bytes(b"") and None),
    "a cut file": cut,
    "a file with changed bytes": changed,
    "a growing file": growing,
    "noise": replaced(lambda p: p.write_bytes(bytes(range(256)) * 40) and None),
}
# Rows that run the command, which takes a while to start, have only `some` kinds. So do rows that differ from another only in a file's format, in a short run.
some = ["a link", "a hard link", "a dangling link", "a FIFO", "a folder", "a full device", "endless zeros", "a cut file", "a file with changed bytes"]
drawn = ["a cut file", "a file with changed bytes"]
others = [kind for kind in KINDS if kind not in some]
alike = () if rounds > 1 else others
FINE = (stoker.StokerError, OSError, ValueError, RuntimeError, EOFError, UnicodeError)


def tells(kind, prepare, use):
    '''Prepares a file, replaces it, uses it. prepare: returns its path.'''
    global reported, done
    path = Path(prepare())
    victim.write_bytes(PRECIOUS)
    os.utime(victim, (1e9, 1e9))
    mode = victim.stat().st_mode
    ends = KINDS[kind](path)
    faulthandler.dump_traceback_later(20, exit=True)
    try:
        use()
        done += 1
    except FINE as e:
        reported += 1
    finally:
        faulthandler.cancel_dump_traceback_later()
        if callable(ends):
            ends()
    assert victim.read_bytes() == PRECIOUS, "the target of a link was written to"
    assert victim.stat().st_mode == mode, "the mode of a link's target was changed"
    assert not os.path.lexists(absent), "the target of a dangling link was made"


def all_kinds(name, prepare, use, leave_out=()):
    for kind in KINDS:
        if kind in leave_out:
            continue
        for k in range(rounds if kind in drawn else 1):
            print(name, "is", kind, *([f"(seed {seed}, round {k})"] if kind in drawn else []), flush=True)
            draws.seed(f"{seed}/{name}/{kind}/{k}")
            tells(kind, prepare, use)


def attacked(name, prepare, use, leave_out=()):
    prepare()
    use()  # works while the file is what it should be
    all_kinds(name, prepare, use, leave_out)


def end():
    # A file of /proc that never ends does not fill the memory. ru_maxrss would count the memory of the process that started this one.
    with open("/proc/self/status") as status:
        most = next(int(line.split()[1]) >> 10 for line in status if line.startswith("VmHWM:"))
    assert most < 1024, f"it took {most} MiB"
    print("counts", done, reported, flush=True)


def folder(name):
    made = root / name
    if os.path.lexists(made):
        remove(made)
    made.mkdir()
    return made


def command(*arguments):
    ended = subprocess.run([stoker_command, *map(str, arguments)], capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL)
    assert ended.returncode >= 0, (arguments, ended.returncode, ended.stderr)
    if ended.returncode:
        raise OSError(ended.stderr)

def run(*outputs_of, batch=2, batches=1, **more):
    pipe = Pipeline(batch, 2, None, prefetch_queue_depth=1, **more)
    with pipe:
        pipe.set_outputs(*outputs_of[0]())
    try:
        pipe.build()
        for _ in range(batches):
            out = pipe.run()
        return [np.asarray(t).tobytes() for t in out[0].as_cpu()]
    finally:
        pipe.close()
"""

INPUTS = """
def tree():
    at = folder("tree")
    for c in "ab":
        (at / c).mkdir()
        for i in range(4):
            (at / c / f"{i}.jpg").write_bytes(jpeg(i))
    return at

def sample():
    return tree() / "a" / "1.jpg"

all_kinds("a sample", sample, lambda: list(Loader(root / "tree", 2, transforms=[T.Resize((8, 8))], num_threads=2)))
all_kinds("a sample of a reader", sample, lambda: run(lambda: fn.readers.file(file_root=str(root / "tree")), batch=8))
all_kinds("a class's folder", lambda: tree() / "a", lambda: run(lambda: fn.readers.file(file_root=str(root / "tree")), batch=4))

def listed():
    at = tree() / "list.txt"
    at.write_text("a/0.jpg 0\\na/1.jpg 1\\n")
    return at

all_kinds("a list", listed, lambda: run(lambda: fn.readers.file(file_root=str(root / "tree"), file_list=str(root / "tree" / "list.txt"))))

def coco():
    at = tree() / "coco.json"
    at.write_text(json.dumps({"images": [{"id": 1, "file_name": "a/0.jpg", "width": 32, "height": 32}], "categories": [{"id": 1, "name": "x"}],
                              "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 1, 4, 4], "area": 16, "iscrowd": 0}]}))
    return at

all_kinds("annotations", coco, lambda: run(lambda: fn.readers.coco(file_root=str(root / "tree"), annotations_file=str(root / "tree" / "coco.json"))[:1]))

def csv():
    at = tree() / "table.csv"
    at.write_text("path,label\\na/0.jpg,1\\na/1.jpg,2\\n")
    return at

all_kinds("a table", csv, lambda: list(Loader.from_csv(str(root / "tree" / "table.csv"), 2, root=str(root / "tree"), transforms=[T.Resize((8, 8))])))

def array():
    at = folder("arrays") / "0.npy"
    np.save(at, np.arange(12.0))
    return at

all_kinds("an array", array, lambda: run(lambda: [fn.readers.numpy(files=[str(root / "arrays" / "0.npy")])]))
all_kinds("an image", sample, lambda: stoker.imread(root / "tree" / "a" / "1.jpg"))

def cifar():
    at = folder("cifar")
    for name in [f"data_batch_{k}.bin" for k in range(1, 6)]:
        (at / name).write_bytes(bytes(3073 * 4))
    return at / "data_batch_2.bin"

all_kinds("a file of CIFAR", cifar, lambda: run(lambda: fn.readers.cifar(root=str(root / "cifar"))))

def idx():
    at = folder("mnist")
    for name, dims in (("train-images-idx3-ubyte", (4, 28, 28)), ("train-labels-idx1-ubyte", (4,))):
        (at / name).write_bytes(b"\\0\\0\\x08" + bytes([len(dims)]) + b"".join(d.to_bytes(4, "big") for d in dims) + bytes(int(np.prod(dims))))
    return at / "train-images-idx3-ubyte"

all_kinds("a file of MNIST", idx, lambda: list(Loader(root / "mnist", 2)))
one = str(root / "tree" / "a" / "1.jpg")
all_kinds("a sample of a dataset", sample, lambda: list(Loader([(one, 1)] * 4, 2, transforms=[T.Resize((8, 8))], num_threads=2)))
"""

ARCHIVES = """
os.environ["XDG_CACHE_HOME"] = str(root / "caches")
os.environ["HOME"] = str(root)

def tar():
    at = folder("tars") / "a.tar"
    with tarfile.open(at, "w") as t:
        for i in range(6):
            for ending, data in (("jpg", jpeg(i)), ("cls", str(i).encode())):
                info = tarfile.TarInfo(f"{i}.{ending}")
                info.size = len(data)
                t.addfile(info, io.BytesIO(data))
    return at

def read_tar():
    got = run(lambda: fn.readers.webdataset(paths=[str(root / "tars" / "a.tar")], ext=["jpg", "cls"]), batch=6)
    if sound:
        assert got == [jpeg(i) for i in range(6)]

sound = False
all_kinds("a tar", tar, read_tar)

def kept():
    tar()
    read_tar()
    return root / "tars" / "a.tar.stoker"

sound = True
all_kinds("the index of a tar", kept, read_tar)
all_kinds("the place of a tar's index", lambda: (tar(), root / "tars" / "a.tar.stoker")[1], read_tar)

def index_of_tars():
    tar()
    at = root / "tars" / "all.stoker"
    command("index", root / "tars" / "a.tar", "-o", at, "-q")
    return at

sound = False
all_kinds("an index of tars", index_of_tars, lambda: run(lambda: fn.readers.webdataset(paths=[str(root / "tars" / "all.stoker")], ext=["jpg", "cls"]), batch=6))

def words():
    tar()
    at = root / "tars" / "a.idx"
    with tarfile.open(root / "tars" / "a.tar") as t:
        members = {m.name: m for m in t}
    at.write_text("v1.2 6\\n" + "".join(
        " ".join(f"{e} {members[f'{i}.{e}'].offset_data} {members[f'{i}.{e}'].size} {i}.{e}" for e in ("jpg", "cls")) + "\\n" for i in range(6)))
    return at

places = dict(paths=[str(root / "tars" / "a.tar")], index_paths=[str(root / "tars" / "a.idx")])
all_kinds("an index of wds2idx", words, lambda: run(lambda: fn.readers.webdataset(**places, ext=["jpg", "cls"]), batch=6))

def tree():
    at = folder("tree")
    for c in "ab":
        (at / c).mkdir()
        for i in range(4):
            (at / c / f"{i}.jpg").write_bytes(jpeg(i))
    return at

def index_of_tree():
    at = tree() / "index.stoker"
    command("index", root / "tree", "-o", at, "-q")
    return at

all_kinds("an index of a tree", index_of_tree, lambda: list(Loader(root / "tree" / "index.stoker", 2, transforms=[T.Resize((8, 8))], num_threads=2)))
all_kinds("the place of an index", lambda: tree() / "index.stoker", lambda: command("index", root / "tree", "-o", root / "tree" / "index.stoker", "-q"))
for name in ("packing.txt", "packing.sources", "shards-000000.tar", "classes.txt", "shards-000000.tar.part", "shards-000000.tar.stoker"):
    def packed(name=name):
        tree()
        folder("packed")
        command("pack", root / "tree", "-o", root / "packed", "-q")
        return root / "packed" / name
    all_kinds(f"{name} of a pack", packed, lambda: command("pack", root / "tree", "-o", root / "packed", "-q"), others)
all_kinds("a contact sheet", lambda: tree() / "sheet.png", lambda: command("view", root / "tree", "-o", root / "tree" / "sheet.png", "-q"), others)
all_kinds("a pipeline in a file", lambda: (tree() / "p.json"), lambda: command("explain", root / "tree" / "p.json"), others)
all_kinds("a file that is inspected", lambda: tree() / "a" / "1.jpg", lambda: command("inspect", root / "tree"), others)
all_kinds("a cache that is listed", lambda: folder("kept") / "CACHEDIR.TAG", lambda: command("cache", "list", root / "kept"), others)
"""

OUTPUTS = """
def made():
    pipe = Pipeline(2, 1, None)
    with pipe:
        pipe.set_outputs(fn.readers.file(files=[str(root / "0.jpg")] * 4)[0])
    pipe.build()
    return pipe

(root / "0.jpg").write_bytes(jpeg())
for name, write in (("a checkpoint", lambda p, at: p.checkpoint(at)), ("a serialised pipeline", lambda p, at: p.serialize(filename=at)),
                    ("a graph", lambda p, at: p.save_graph_to_dot_file(at))):
    pipe = made()
    all_kinds(f"the place of {name}", lambda: folder("out") / "file", lambda: write(pipe, root / "out" / "file"))
    assert not list((root / "out").glob("*.part"))
    pipe.close()

def written(write):
    def prepare():
        at = folder("out") / "file"
        pipe = made()
        pipe.run()
        write(pipe, at)
        pipe.close()
        return at
    return prepare

def restore():
    pipe = Pipeline(2, 1, None, checkpoint=root / "out" / "file")
    with pipe:
        pipe.set_outputs(fn.readers.file(files=[str(root / "0.jpg")] * 4)[0])
    pipe.build()
    pipe.run()
    pipe.close()

all_kinds("a checkpoint", written(lambda p, at: p.checkpoint(at)), restore)

def deserialize():
    pipe = Pipeline.deserialize(filename=root / "out" / "file")
    pipe.run()
    pipe.close()

all_kinds("a serialised pipeline", written(lambda p, at: p.serialize(filename=at)), deserialize)

def traced():
    pipe = Pipeline(2, 1, None, trace=str(root / "out" / "file"))
    with pipe:
        pipe.set_outputs(fn.readers.file(files=[str(root / "0.jpg")] * 4)[0])
    pipe.build()
    pipe.run()
    pipe.close()

all_kinds("the place of a trace", lambda: folder("out") / "file", traced)
assert Path("/dev/null").is_char_device() and Path("/dev/full").is_char_device() and Path("/dev/zero").is_char_device()
"""

CACHE = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FILES = {f"/{i}.jpg": jpeg(i) for i in range(6)}

class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        data = FILES.get(self.path, b"")
        self.send_response(200 if data else 404)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
server.handle_error = lambda *_: None
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_address[1]}"

def read():
    storage = Storage(cache=str(root / "cache"))
    got = run(lambda: fn.readers.file(files=[f"{address}/{i}.jpg" for i in range(6)]), batch=6, storage=storage)
    assert got == [FILES[f"/{i}.jpg"] for i in range(6)]
    until = time.monotonic() + 10
    while storage.counters()["cache_pending_bytes"] and time.monotonic() < until:
        time.sleep(0.002)

def filled():
    at = folder("cache")
    read()
    return at

for name in ("state", "CACHEDIR.TAG", "tmp"):
    all_kinds(f"{name} of a cache", lambda: filled() / name, read)
    for verb in ("list", "verify"):
        all_kinds(f"{name} of a cache, with `cache {verb}`", lambda: filled() / name, lambda: command("cache", verb, root / "cache"), others)
all_kinds("an entry of a cache", lambda: next(filled().glob("??/*")), read)
all_kinds("an entry of a cache, with `cache verify`", lambda: next(filled().glob("??/*")), lambda: command("cache", "verify", root / "cache"), others)
all_kinds("a part of a cache", lambda: next(filled().glob("??")), read)
all_kinds("the folder of a cache", filled, read)

# While it is in use.
filled()
storage = Storage(cache=str(root / "cache"))
for kind in KINDS:
    print("state of a cache in use is", kind, flush=True)
    tells(kind, lambda: root / "cache" / "state", lambda: [entry.unlink() for entry in (root / "cache").glob("??/*") if entry.is_file()] and run(
        lambda: fn.readers.file(files=[f"{address}/{i}.jpg" for i in range(6)]), batch=6, storage=storage))
del storage

# A link in the place of tmp must not lead to the user's files.
at = filled()
shutil.rmtree(at / "tmp")
precious = folder("precious")
(precious / "1-2-3").write_text("x")
(at / "tmp").symlink_to(precious)
read()
assert (precious / "1-2-3").read_text() == "x" and len(list(precious.iterdir())) == 1

# A folder of another program that has the same first line in its tag, with files whose names look like ours.
at = folder("target")
(at / "CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55\\n# This file is a cache directory tag created by cargo.\\n")
(at / "tmp").mkdir()
(at / "tmp" / "1-2-3").write_text("x")
try:
    Storage(cache=str(at))
    raise AssertionError("a folder of another program was taken")
except stoker.errors.InvalidArgumentError as e:
    assert "not a Stoker cache" in str(e)
assert (at / "tmp" / "1-2-3").exists() and sorted(p.name for p in at.iterdir()) == ["CACHEDIR.TAG", "tmp"]

# In one of ours, what Stoker has not named is the user's.
at = filled()
(at / "tmp" / "thesis-final.doc").write_text("x")
(at / "tmp" / "1-2-3").mkdir()
read()
assert (at / "tmp" / "thesis-final.doc").exists() and (at / "tmp" / "1-2-3").exists()
server.shutdown()
"""

SETTINGS = """
for name in list(os.environ):
    if name.startswith("AWS_"):
        del os.environ[name]
os.environ["HOME"] = str(root)
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
os.environ["AWS_ENDPOINT_URL"] = "http://127.0.0.1:1"

def aws(name, text):
    def prepare():
        folder(".aws")
        at = root / ".aws" / name
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text(text)
        return at
    return prepare

KEYS = "[default]\\naws_access_key_id = AKID\\naws_secret_access_key = secret\\nregion = eu-west-1\\n"
all_kinds("AWS's configuration", aws("config", KEYS), lambda: Storage().core())
all_kinds("AWS's keys", aws("credentials", KEYS), lambda: Storage().core())
os.environ["AWS_CA_BUNDLE"] = str(root / ".aws" / "ca.pem")
os.environ["CLOUDSDK_CONFIG"] = str(root / ".aws")
os.environ["NO_GCE_CHECK"] = "true"
USER = json.dumps({"type": "authorized_user", "client_id": "a", "client_secret": "b", "refresh_token": "c", "token_uri": "http://127.0.0.1:1"})

def of_google():
    run(lambda: fn.readers.file(files=["gs://b/1"]), batch=1, storage=Storage(endpoint="http://127.0.0.1:1", retries=0, connect_timeout=5))

all_kinds("gcloud's credentials", aws("application_default_credentials.json", USER), of_google)
os.environ["GOOGLE_APPLICATION_CREDENTIALS"] = str(root / ".aws" / "google.json")
all_kinds("Google's credentials", aws("google.json", USER), of_google)
del os.environ["GOOGLE_APPLICATION_CREDENTIALS"]
all_kinds("the certificates", aws("ca.pem", "-----"), lambda: Storage().core())
"""

MEDIA = """
import sound_files, videos
os.environ["XDG_CACHE_HOME"] = str(root / "caches")
originals = folder("originals")
plain = originals / "0.wav"
plain.write_bytes(sound_files.pcm16(np.random.default_rng(1), 4000, 1, 8000))
SOUNDS = {"wav": ""}
if videos.can_decode() and shutil.which("ffmpeg"):
    SOUNDS |= {"flac": "-c:a flac", "mp3": "-c:a libmp3lame", "ogg": "-c:a libvorbis"}
    # The lists of frames of long files are kept.
    videos.ffmpeg("-f lavfi -i testsrc=s=32x32:r=100:d=21 -g 12 -pix_fmt yuv420p", originals / "1.mp4")
    videos.ffmpeg("-i", originals / "1.mp4", "-c copy", originals / "1.mkv")
VIDEOS = [kind for kind in ("mp4", "mkv") if (originals / f"1.{kind}").exists()]
for kind, arguments in SOUNDS.items():
    if arguments:
        videos.ffmpeg("-i", plain, arguments, originals / f"0.{kind}")


def within(use):
    '''Calls a function. A cut or changed file may be shorter than the time or the frame that it asks for.'''
    try:
        return use()
    except IndexError as e:
        assert "there is no sound from" in str(e) or "does not exist: the video has" in str(e)
        raise ValueError(str(e)) from e


def heard(source, **fields):
    return list(Loader(source, 2, fields={"audio": stoker.Audio(rate=8000, duration=0.1), **fields}))


def sounds(kind):
    at = folder("sounds")
    for i in range(4):
        shutil.copy(originals / f"0.{kind}", at / f"{i}.{kind}")
    return at

def manifest(kind):
    at = sounds(kind) / "manifest.json"
    at.write_text("".join(json.dumps({"audio_filepath": str(at.parent / f"{i}.{kind}"), "duration": 0.5, "text": "a"}) + "\\n" for i in range(4)))
    return at

for kind in SOUNDS:
    rest = alike if kind != "wav" else ()

    def sound(kind=kind):
        return sounds(kind) / f"1.{kind}"

    path = root / "sounds" / f"1.{kind}"
    attacked(f"a sound ({kind})", sound, lambda: stoker.audioread(path), rest)
    attacked(f"a window of a sound ({kind})", sound, lambda: within(lambda: stoker.AudioDecoder(path).get_samples_played_in_range(0.2, 0.3)), rest)
    attacked(f"a sound of a Loader ({kind})", sound, lambda: heard([(str(root / "sounds" / f"{i}.{kind}"), i) for i in range(4)], label=None), rest)
    attacked(f"a sound of a reader ({kind})", sound, lambda: run(lambda: fn.decoders.audio(fn.readers.file(files=[str(path)])[0])), rest)
    attacked(f"a sound of a manifest ({kind})", lambda: (manifest(kind), path)[1], lambda: heard(str(root / "sounds" / "manifest.json"), text=None), rest)

listed = str(root / "sounds" / "manifest.json")
attacked("a manifest", lambda: manifest("wav"), lambda: heard(listed, text=None))
attacked("a manifest of a reader", lambda: manifest("wav"), lambda: run(lambda: list(fn.readers.nemo_asr(manifest_filepaths=[listed]))))


def video(kind):
    at = folder("videos") / f"1.{kind}"
    shutil.copy(originals / at.name, at)
    return at

def index_of_video(kind):
    shutil.rmtree(root / "caches", ignore_errors=True)
    at = video(kind)
    until, kept = time.monotonic() + 20, []
    while not kept and time.monotonic() < until:  # the list of a file that has just changed is not kept
        time.sleep(0.05)
        stoker.VideoDecoder(at)
        kept = [p for p in (root / "caches").rglob("*") if p.is_file()]
    return kept[0]

for kind in VIDEOS:
    rest = alike if kind != "mp4" else ()
    path = str(root / "videos" / f"1.{kind}")
    pixels = [stoker.VideoDecoder(originals / f"1.{kind}").get_frame_at(i).data for i in (3, 1500)]

    def frames_of_kept_index():
        video = stoker.VideoDecoder(path)
        assert all((video.get_frame_at(i).data == p).all() for i, p in zip((3, 1500), pixels)), "a damaged index was believed"

    attacked(f"a video ({kind})", lambda: video(kind), lambda: within(lambda: stoker.VideoDecoder(path).get_frame_at(3)), rest)
    attacked(f"a video of a reader ({kind})", lambda: video(kind), lambda: run(lambda: [fn.readers.video(filenames=[path], sequence_length=2, device="cpu")]), rest)
    attacked(f"a video of a Loader ({kind})", lambda: video(kind), lambda: list(Loader([(path, 1)] * 2, 2, frames=2)), rest)
    attacked(f"a video of a step ({kind})", lambda: video(kind), lambda: run(lambda: [fn.io.video.frame(np.frombuffer(path.encode(), np.uint8), np.int64(3))]), rest)
    attacked(f"the index of a video ({kind})", lambda: index_of_video(kind), frames_of_kept_index, rest)

def sheet():
    stoker.view(np.zeros((2, 8, 8, 3), np.uint8)).save(root / "out" / "file")

attacked("the place of a sheet", lambda: folder("out") / "file", sheet)
assert not list((root / "out").glob("*.part"))
"""

TABLES = """
try:
    import pyarrow as pa, pyarrow.parquet as pq
except ImportError:
    print("counts 41 0")
    sys.exit()
import contextlib, glob
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from stoker.loader.sources import _table_pack

os.environ["XDG_CACHE_HOME"] = str(root / "caches")
IMAGES = [jpeg(i) for i in range(6)]
COLUMNS = pa.table({"image": IMAGES, "label": list(range(6))})
small = [T.Resize((8, 8))]


def labels(source, **more):
    with Loader(source, 2, transforms=small, num_threads=2, last_batch="keep", **more) as loader:
        return [int(n) for batch in loader for n in batch.label]


def table():
    at = folder("tables") / "a.parquet"
    pq.write_table(COLUMNS, at, row_group_size=2)
    return at


attacked("a table", table, lambda: labels(str(root / "tables" / "a.parquet")))
attacked("one of several tables", table, lambda: labels(str(root / "tables" / "*.parquet")))


def named_by_a_row():
    at = folder("named") / "0.jpg"
    at.write_bytes(IMAGES[0])
    pq.write_table(pa.table({"image": [str(at)] * 2, "label": [0, 1]}), folder("tables") / "a.parquet")
    return at


attacked("a file that a row names", named_by_a_row, lambda: list(Loader.from_parquet(str(root / "tables" / "a.parquet"), 2, image="image", transforms=small)))


def packs(source, *arguments):
    '''Packs a table. A fault is a message and a status: an exception here would be a traceback of the command.'''
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            status = _table_pack.main([str(source), "-o", str(root / "packed"), "-q", *arguments])
    except Exception as e:
        raise AssertionError(f"the command would end with a traceback: {e!r}") from e
    if status:
        assert said.getvalue().startswith("stoker pack: "), said.getvalue()
        raise OSError(said.getvalue())


def packed_images():
    '''Returns the images of the pack. Nothing is packed until the folder has its final name.'''
    found = []
    for name in sorted(glob.glob(str(root / "packed" / "*.tar"))):
        with tarfile.open(name) as tar:
            found += [tar.extractfile(m).read() for m in tar if m.name.endswith(".jpg")]
    return found


def nothing_packed():
    for name in ("packed", "packed.part"):
        if os.path.lexists(root / name):
            remove(root / name)


def packs_anew(source):
    nothing_packed()
    packs(source)
    assert len(packed_images()) == 6


attacked("a table that is packed", table, lambda: packs_anew(root / "tables" / "a.parquet"), alike)
attacked("a file that a packed row names", named_by_a_row, lambda: (nothing_packed(), packs(root / "tables" / "a.parquet", "--image", "image")), alike)


def saved(name):
    '''Writes what save_to_disk of the package `datasets` writes, and returns the path of one of its files.'''
    at = folder("saved") / "train"
    at.mkdir()
    for k in range(2):
        with pa.OSFile(str(at / f"data-0000{k}-of-00002.arrow"), "wb") as f, pa.ipc.new_stream(f, COLUMNS.schema) as out:
            out.write_table(COLUMNS.slice(3 * k, 3), max_chunksize=2)
    names = [{"filename": f"data-0000{k}-of-00002.arrow"} for k in range(2)]
    (at / "state.json").write_text(json.dumps({"_data_files": names, "_format_columns": None}))
    (at.parent / "dataset_dict.json").write_text(json.dumps({"splits": ["train"]}))
    return at / name


for name in ("state.json", "data-00000-of-00002.arrow", "data-00001-of-00002.arrow"):
    attacked(f"{name} of a saved data set", lambda: saved(name), lambda: packs_anew(root / "saved" / "train"))
all_kinds("dataset_dict.json of a saved data set", lambda: saved("../dataset_dict.json"), lambda: packs_anew(root / "saved"))


def again():
    packs(root / "tables" / "a.parquet", "--shard-size", "4KB")
    if sound:
        assert packed_images() == IMAGES, "the pack holds other images"


def whole_pack(name):
    nothing_packed()
    table()
    again()
    return root / "packed" / name


def half_pack(name):
    '''Leaves what an interrupted run leaves: the folder with the first tars.'''
    at = whole_pack("packing.txt").parent
    for made in at.iterdir():
        if made.name not in ("packing.txt", "shards-000000.tar", "shards-000001.tar"):
            made.unlink()
    at.rename(root / "packed.part")
    return root / "packed.part" / name if name else root / "packed.part"


sound = True
for name in ("packing.txt", "shards-000002.tar", "shards-000000.tar.stoker", "classes.txt"):
    attacked(f"the place of {name} of a pack", lambda: half_pack(name), again, alike)
attacked("the place of a pack's unfinished folder", lambda: half_pack(""), again)
attacked("the place of a pack", lambda: (nothing_packed(), table(), root / "packed")[2], again)
sound = False  # a later run does not read complete tars again, so that damaged ones stay
for name in ("shards-000000.tar", "shards-000001.tar"):
    attacked(f"{name} of an interrupted pack", lambda: half_pack(name), again, alike)
for name in ("packing.txt", "shards-000000.tar", "shards-000000.tar.stoker"):
    attacked(f"{name} of a pack of a table", lambda: whole_pack(name), again, alike)


class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        data = (root / "tables" / "a.parquet").read_bytes()
        first, _, last = self.headers.get("Range", "bytes=0-")[6:].partition("-")
        part = data[int(first) : int(last or len(data) - 1) + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(part)))
        self.send_header("ETag", '"one"')
        self.end_headers()
        self.wfile.write(part)


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
server.handle_error = lambda *_: None
threading.Thread(target=server.serve_forever, daemon=True).start()
remote = f"http://127.0.0.1:{server.server_address[1]}/a.parquet"


def read_remote():
    assert labels(remote) == list(range(6)), "a damaged footer was believed"


def footer():
    shutil.rmtree(root / "caches", ignore_errors=True)
    table()
    read_remote()
    (kept,) = [p for p in (root / "caches").rglob("*") if p.is_file()]
    return kept


attacked("the kept footer of a table", footer, read_remote)
attacked("the folder of kept footers", lambda: footer().parent, read_remote)
server.shutdown()
"""

ROBOTS = """
try:
    import pyarrow  # noqa: F401
    import torch  # noqa: F401
except ImportError:
    print("counts 41 0")
    sys.exit()
import robots

originals, cameras = {}, int(shutil.which("ffmpeg") is not None)
for version in (3, 2):
    originals[version] = root / f"v{version}"
    robots.make(originals[version], (3, 4), version, cameras)

def files(version):
    return sorted(p.relative_to(originals[version]) for p in originals[version].rglob("*") if p.is_file())

def copy(version, name):
    at = root / "copy"
    shutil.rmtree(at, ignore_errors=True)
    shutil.copytree(originals[version], at)
    return at / name

def train():
    list(Loader.from_lerobot(root / "copy", 2, delta_timestamps={"action": [0.0, 0.1]}))

for version in (3, 2):
    copy(version, "")
    train()  # works while the files are what they should be
    for name in files(version):
        all_kinds(f"{name} of a robot's data set", lambda: copy(version, name), train)
"""

PACKS = """
try:
    import stoker.structured
    stoker.VideoDecoder(b"")
except ImportError:
    missing = True
except stoker.StokerError as e:
    missing = isinstance(e, stoker.errors.UnsupportedError)
if missing or not shutil.which("ffmpeg"):
    print("counts 41 0")
    sys.exit()
from support import make_nuscenes
from stoker.structured import NuScenes

data = make_nuscenes(root / "data", scenes=1, samples=2, seed=1, size=(64, 48), objects=1, points=5)
pack = ("pack-video", data, "-o", root / "videos", "--codec", "h264", "--gop", 2, "-q")
command(*pack)
(scene,) = [p.name for p in (root / "videos").iterdir() if p.is_dir()]
made = root / "made"
(root / "videos").rename(made)

def packed(name):
    shutil.rmtree(root / "videos", ignore_errors=True)
    shutil.copytree(made, root / "videos")
    return root / "videos" / name

def provided():
    provider = NuScenes(data, "v1.0-mini", fields=["image"], video_root=root / "videos")
    stoker.VideoDecoder(root / "videos" / scene / "CAM_FRONT.mp4")[1]

packed("index.json")
provided()
for name in ("index.json", f"{scene}/CAM_FRONT.mp4"):
    all_kinds(f"{name} of a pack of videos", lambda: packed(name), provided)

# A pack that an interrupted run has left, without the video of one camera.
def half(name):
    packed(name)
    (root / "videos" / scene / "CAM_FRONT.mp4").unlink()
    return root / "videos" / name

def pack_again():
    command(*pack)
    assert (root / "videos" / scene / "CAM_FRONT.mp4").stat().st_size > 100

for name in ("index.json", "index.json.part", f"{scene}/.CAM_FRONT.mp4.part", f"{scene}/CAM_FRONT.mp4"):
    all_kinds(f"the place of {name}", lambda: half(name), pack_again, others)
"""

FAMILIES = {
    "robots": ROBOTS,
    "packs": PACKS,
    "media": MEDIA,
    "tables": TABLES,
    "inputs": INPUTS,
    "archives": ARCHIVES,
    "outputs": OUTPUTS,
    "cache": CACHE,
    "settings": SETTINGS,
}


def command_of_build() -> str:
    import stoker

    package = Path(stoker.__file__).resolve()
    build = Path(os.environ.get("STOKER_BUILD", "build")).resolve()
    found = [p for p in (build / "cli" / "stoker", package.parents[2] / "cli" / "stoker") if p.exists()]
    return str(found[0]) if found else "stoker"


@pytest.mark.timeout(3600 if LONG else 300)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_hostile_neighbour(family, tmp_path):
    text = COMMON + textwrap.dedent(FAMILIES[family]) + "\nend()\n"
    script = tmp_path / "neighbour.py"
    script.write_text(text)
    (tmp_path / "files").mkdir()
    ended = subprocess.run(
        [
            sys.executable,
            str(script),
            str(tmp_path / "files"),
            command_of_build(),
            str(Path(__file__).parent),
            str(SEED),
            "30" if LONG else "1",
        ],
        capture_output=True,
        text=True,
        timeout=3600 if LONG else 120,
        stdin=subprocess.DEVNULL,
    )
    lines = ended.stdout.splitlines()
    assert ended.returncode == 0, f"{ended.returncode} after: {lines[-3:]}\n{ended.stderr[-3000:]}"
    done, reported = (int(n) for n in lines[-1].split()[1:])
    print(f"{family}: {done + reported} cases, {reported} errors reported, {done} jobs done")
    assert done + reported > 40
