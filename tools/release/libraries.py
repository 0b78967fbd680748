# SPDX-License-Identifier: Apache-2.0
"""Downloads and builds the libraries of libraries.toml for an old glibc. They become static libraries, except libcurl, which becomes one shared library that
contains OpenSSL, and FFmpeg, which becomes four, one of which contains dav1d.

Each library has its own folder, NAME-VERSION-KEY. KEY is a hash of everything that the build depends on, so a finished build can be reused.
A process can also load other copies of these libraries: symbols of static libraries are hidden, libcurl exports only the functions that Stoker calls, and
FFmpeg's symbols have versions.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
STEP = HERE.parent / "step.sh"
FLAGS = "-O2 -DNDEBUG -fPIC -fvisibility=hidden -ffunction-sections -fdata-sections -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2"
# Flags that protect indirect jumps and returns, for each kind of processor.
JUMPS = {"x86_64": "-fcf-protection", "aarch64": "-mbranch-protection=standard"}
# Reduces OpenSSL to the parts that https:// needs. It does not read openssl.cnf, since a distribution's file may name modules of its own OpenSSL.
OPENSSL = (
    "no-shared no-tests no-docs no-apps no-module no-legacy no-engine no-dso no-autoload-config no-ui-console no-comp no-srp no-psk no-dtls no-sctp"
    " no-ssl3 no-ktls no-quic no-cmp no-cms no-ts no-ct no-idea no-seed no-camellia no-aria no-bf no-cast no-rc2 no-rc4 no-rc5 no-mdc2 no-rmd160"
    " no-whirlpool no-sm2 no-sm3 no-sm4 no-gost no-blake2 no-rfc3779"
).split()
CURL = (
    "HTTP_ONLY=ON CURL_USE_OPENSSL=ON CURL_DISABLE_OPENSSL_AUTO_LOAD_CONFIG=ON CURL_CA_BUNDLE=none CURL_CA_PATH=none CURL_USE_LIBPSL=OFF"
    " CURL_USE_LIBSSH2=OFF CURL_ZLIB=OFF CURL_BROTLI=OFF CURL_ZSTD=OFF USE_NGHTTP2=OFF USE_LIBIDN2=OFF CURL_USE_GSSAPI=OFF BUILD_CURL_EXE=OFF"
    " BUILD_LIBCURL_DOCS=OFF BUILD_MISC_DOCS=OFF ENABLE_CURL_MANUAL=OFF BUILD_TESTING=OFF ENABLE_THREADED_RESOLVER=ON CURL_USE_PKGCONFIG=OFF"
    " CURL_USE_CMAKECONFIG=OFF PICKY_COMPILER=OFF CURL_DISABLE_NTLM=ON CURL_HIDDEN_SYMBOLS=OFF"
).split()
# Reduces FFmpeg to the parts that read videos and sounds (src/media/container.c, src/sound), without parts under the GPL and without programs.
FFMPEG = (
    "--build-suffix=-stoker --enable-shared --disable-static --disable-everything --disable-autodetect --disable-programs --disable-doc --disable-network"
    " --disable-debug --disable-stripping --disable-avdevice --disable-avfilter --disable-swscale --disable-postproc --enable-swresample --enable-zlib"
    " --enable-libdav1d --pkg-config=pkg-config --pkg-config-flags=--static"
).split()
FFMPEG_PARTS = {
    "demuxer": "aac aiff au av1 avi caf flac flv h264 hevc ivf m4v matroska mov mp3 mpegps mpegts mpegvideo obu ogg w64 wav",
    "decoder": "h264 hevc vp8 vp9 libdav1d mpeg1video mpeg2video mpeg4 mjpeg prores ffv1 flac vorbis opus mp1float mp2float mp3float aac aac_latm alac"
    " adpcm_ms adpcm_ima_wav pcm_u8 pcm_s8 pcm_s16le pcm_s16be pcm_s24le pcm_s24be pcm_s32le pcm_s32be pcm_f32le pcm_f32be pcm_f64le pcm_f64be"
    " pcm_alaw pcm_mulaw",
    "parser": "aac aac_latm av1 flac h264 hevc mjpeg mpeg4video mpegaudio mpegvideo opus vorbis vp8 vp9",
    "bsf": "aac_adtstoasc av1_frame_merge extract_extradata h264_mp4toannexb hevc_mp4toannexb vp9_superframe_split",
}
CMAKE = {
    "libjpeg-turbo": "ENABLE_SHARED=OFF WITH_TURBOJPEG=OFF WITH_TOOLS=OFF WITH_TESTS=OFF REQUIRE_SIMD=ON".split(),
    "jansson": "JANSSON_BUILD_DOCS=OFF JANSSON_WITHOUT_TESTS=ON JANSSON_EXAMPLES=OFF".split(),
    "libdeflate": "LIBDEFLATE_BUILD_SHARED_LIB=OFF LIBDEFLATE_BUILD_GZIP=OFF LIBDEFLATE_COMPRESSION_SUPPORT=OFF".split(),
    "libwebp": [f"WEBP_BUILD_{x}=OFF" for x in "ANIM_UTILS CWEBP DWEBP GIF2WEBP IMG2WEBP VWEBP WEBPINFO WEBPMUX LIBWEBPMUX EXTRAS".split()],
    "curl": CURL,
}


@dataclass
class Library:
    """A library of libraries.toml."""

    name: str
    version: str  # upstream part of the version of Debian's package
    sha256: str
    licence: str
    texts: list[str]  # names of licence files, in this folder or in the archive
    suites: list[str]
    upstream: str = ""  # the version as its authors write it, if that differs from `version`
    needs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.upstream = self.upstream or self.version


def table() -> dict[str, dict[str, Library]]:
    """Reads libraries.toml. Returns two dicts by library name: "wheel", the libraries of a wheel, and "tests", those that only tests need."""
    rows = tomllib.loads((HERE / "libraries.toml").read_text())
    suites, tests = rows.pop("suites"), rows.pop("tests")
    return {kind: {n: Library(name=n, suites=suites, **row) for n, row in of.items()} for kind, of in (("wheel", rows), ("tests", tests))}


def libraries() -> dict[str, Library]:
    return table()["wheel"]


def python() -> Library:
    return table()["tests"]["python3.13"]


def shared(builder: Builder) -> list[Path]:
    """Returns the shared libraries that a wheel contains as files. The files have the names by which they are loaded."""
    folder = builder.done["ffmpeg"] / "lib"
    return [builder.done["curl"] / "lib" / "libcurl-stoker.so", *sorted(p for p in folder.glob("*-stoker.so.*") if p.name.count(".") == 2)]


def run(*command: str | Path, **more) -> str:
    return subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def step(text: str, *command: str | Path, **more) -> None:
    if subprocess.run([str(c) for c in (STEP, text, *command)], **more).returncode:
        raise SystemExit(1)


# --- sources


def archives() -> list[str]:
    """Returns the addresses of Debian archives in this machine's apt sources, which may have either format. Ignores other archives."""
    files = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    text = "\n".join(f.read_text() for f in files if f.suffix in {".list", ".sources"} and f.exists())
    rows = [line for line in text.split("\n") if line.startswith(("deb ", "URIs:"))]
    found = [word for row in rows for word in row.split() if re.fullmatch(r"\w+://.*/debian(-security)?/?", word)]
    return list(dict.fromkeys(found))


@functools.cache
def apt(folder: Path, suites: tuple[str, ...]) -> dict[str, str]:
    """Sets up a separate apt in a folder, with the source packages of the suites. Returns the environment variables for its commands."""
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    rows = []
    for address in archives():
        security = address.rstrip("/").endswith("-security")
        rows += [f"deb-src {address} {s} main" for s in suites if s.endswith("-security") == security]
    if not rows or not shutil.which("apt-get"):
        raise SystemExit(
            "release: this machine has no apt with an archive of Debian, from which sources come. Where they are fetched by other means, put them into"
            f" {folder.parent / 'sources'}, named NAME_VERSION.orig.tar.gz (or .xz) with name, version and checksum of tools/release/libraries.toml"
        )
    (folder / "sources.list").write_text("\n".join(rows) + "\n")
    lines: dict[str, str | Path] = {
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "APT::Sandbox::User": "root",
    }
    conf = folder / "apt.conf"
    conf.write_text("".join(f'{key} "{value}";\n' for key, value in lines.items()))
    env = {**os.environ, "APT_CONFIG": str(conf)}
    step("release: lists of Debian's sources", "apt-get", "update", "-q", env=env)
    return env


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def fetch(library: Library, folder: Path) -> Path:
    """Returns the library's source archive in the folder, and downloads it if it is missing. Its checksum must be the one in libraries.toml."""
    sources = folder / "sources"
    sources.mkdir(parents=True, exist_ok=True)
    for path in sources.glob(f"{library.name}_{library.version}.orig.tar.*"):
        if path.suffix != ".asc" and digest(path) == library.sha256:
            return path
    env = apt(folder / "apt", tuple(library.suites))
    shown = run("apt-cache", "showsrc", "--only-source", library.name, env=env)
    versions = re.findall(r"^Version: (.*)$", shown, re.M)
    fitting = [v for v in versions if v.split(":")[-1].rpartition("-")[0] == library.version]
    if not fitting:
        raise SystemExit(
            f"release: no suite has {library.name} {library.version} any more, but {', '.join(dict.fromkeys(versions)) or 'none'}: "
            f"take one of these in tools/release/libraries.toml, or put the archive into {sources}"
        )
    what = f"{library.name}={fitting[0]}"
    step(f"release: source of {what}", "apt-get", "source", "-q", "--download-only", "--tar-only", what, cwd=sources, env=env)
    for path in sources.glob(f"{library.name}_{library.version}.orig.tar.*"):
        if path.suffix != ".asc":
            if digest(path) != library.sha256:
                raise SystemExit(f"release: {path.name} has the checksum {digest(path)}, not {library.sha256} as libraries.toml says")
            return path
    raise SystemExit(f"release: apt-get fetched no archive of {what}")


# --- builds


class Builder:
    """Builds libraries for one kind of machine in a folder. toolchain: the folder of the compiler's commands. identity: the text by which toolchain.identity()
    names the compiler's version, on which the names of the libraries' folders depend."""

    def __init__(self, folder: Path, machine: str, toolchain: Path, identity: str, jobs: int):
        self.folder, self.machine, self.toolchain, self.identity, self.jobs = folder, machine, toolchain, identity, jobs
        self.done: dict[str, Path] = {}
        self.cc = toolchain / "cc"
        self.compile = f"{FLAGS} {JUMPS[machine]}"

    def prefix(self, library: Library) -> Path:
        """Returns the library's folder. Its name depends on the archive, the compiler and the build commands, but not on the path of `folder`."""
        made = [library.sha256, *library.texts, self.identity, *self.commands(library, Path("root"), Path("prefix"))]
        key = hashlib.sha256("\n".join(made).replace(str(self.folder), "").encode()).hexdigest()[:12]
        return self.folder / "libraries" / f"{library.name}-{library.upstream}-{key}"

    def build(self, library: Library) -> Path:
        prefix = self.done[library.name] = self.prefix(library)
        if (prefix / "licences").exists():
            return prefix
        archive = fetch(library, self.folder)
        source = self.folder / "work" / library.name
        shutil.rmtree(source, ignore_errors=True)
        shutil.rmtree(prefix, ignore_errors=True)
        source.mkdir(parents=True)
        run("tar", "--no-same-owner", "-xf", archive, "-C", source)
        (root,) = source.iterdir()
        script = source / "build.sh"
        script.write_text("set -e\n" + "\n".join(self.commands(library, root, prefix)) + "\n")
        env = {
            "PATH": f"{self.toolchain}:/usr/bin:/bin",
            "HOME": str(self.folder),
            "SOURCE_DATE_EPOCH": "315532800",
            "LC_ALL": "C",
            "JOBS": str(self.jobs),
        }
        step(f"release: {library.name} {library.upstream}", "sh", script, cwd=root, env=env)
        texts = prefix / "licences.new"
        texts.mkdir()
        for text in library.texts:
            shutil.copyfile(HERE / text if (HERE / text).exists() else root / text, texts / Path(text).name)
        texts.rename(prefix / "licences")
        shutil.rmtree(source)
        return prefix

    def commands(self, library: Library, root: Path, prefix: Path) -> list[str]:
        """Returns the shell commands that build and install a library."""
        if library.name == "openssl":
            return [
                # OpenSSL stores this command line in the library, so it must not contain a path or the name of this machine.
                f"CC=cc AR=ar RANLIB=ranlib ./Configure linux-{self.machine} --prefix=/usr --libdir=lib --openssldir=/etc/ssl {' '.join(OPENSSL)} "
                f"'{self.compile}'",
                "make -j$JOBS build_libs",
                f"make DESTDIR='{root}/installed' install_dev",
                f"mkdir -p '{prefix.parent}' && mv installed/usr '{prefix}'",
            ]
        if library.name == "zlib":
            configure = f"CC=cc AR=ar RANLIB=ranlib CFLAGS='{self.compile}' ./configure --static --prefix='{prefix}'"
            return [configure, "make -j$JOBS libz.a", "make install"]
        if library.name == "libspng":
            return [
                f"mkdir -p '{prefix}/lib/pkgconfig' '{prefix}/include'",
                f"cc {self.compile} -O3 -DSPNG_STATIC -I'{self.done['zlib']}/include' -c spng/spng.c -o spng.o",
                f"ar rcs '{prefix}/lib/libspng.a' spng.o && cp spng/spng.h '{prefix}/include/'",
                f"printf '%s\\n' 'Name: spng' 'Description: PNG' 'Version: {library.version}' 'Requires: zlib' 'Libs: -L{prefix}/lib -lspng -lm'"
                f" 'Cflags: -DSPNG_STATIC -I{prefix}/include' > '{prefix}/lib/pkgconfig/spng.pc'",
            ]
        if library.name == "dav1d":
            return self.dav1d_lines(prefix)
        if library.name == "ffmpeg":
            # av_sscanf() multiplies a double by a factor of type long double
            patch = self.without_long_double("libavutil/avsscanf.c", "1000000000.0L", "1000000000.0")
            return [*patch, *self.ffmpeg_lines(root, prefix)]
        options = [
            f"CMAKE_C_FLAGS={self.flags(library)}",
            f"CMAKE_INSTALL_PREFIX={prefix}",
            "CMAKE_INSTALL_LIBDIR=lib",
            *CMAKE[library.name],
        ]
        options += ["BUILD_SHARED_LIBS=OFF", "CMAKE_BUILD_TYPE=None", f"CMAKE_C_COMPILER={self.cc}", "CMAKE_POLICY_VERSION_MINIMUM=3.5"]
        if self.machine != os.uname().machine:
            options += ["CMAKE_SYSTEM_NAME=Linux", f"CMAKE_SYSTEM_PROCESSOR={self.machine}"]
        options += [f"CMAKE_{tool.upper()}={self.toolchain / tool}" for tool in ("ar", "ranlib")]
        options += [f"CMAKE_PREFIX_PATH={';'.join(str(self.done[n]) for n in library.needs)}"]
        if library.name == "curl":
            options += [f"OPENSSL_ROOT_DIR={self.done['openssl']}", "OPENSSL_USE_STATIC_LIBS=ON", "CMAKE_FIND_ROOT_PATH_MODE_LIBRARY=BOTH"]
        lines = ["cmake -S . -B out " + " ".join(f"'-D{o}'" for o in options), "make -C out -j$JOBS", "make -C out install"]
        if library.name == "curl":
            # libcurl's printf accepts long double, but libcurl never prints one
            patch = self.without_long_double("lib/mprintf.c", "va_arg(arglist, long double)", "va_arg(arglist, double)")
            return [*patch, *lines, *self.curl_lines(prefix)]
        if library.name == "libdeflate":  # libdeflate's source marks its functions as visible
            return ['sed -i \'s/visibility("default")/visibility("hidden")/\' lib/lib_common.h', *lines]
        return lines

    def flags(self, library: Library) -> str:
        """Returns the compiler's flags for a library that CMake builds. They hide all symbols of the library, except for curl: its link step has a list of
        exports. WEBP_EXTERN overrides the attribute that makes libwebp's functions visible. The flags for libdeflate leave out its checksums for AVX-512,
        which Zig's clang refuses."""
        if library.name == "curl":
            return self.compile.replace("-fvisibility=hidden ", "-DCURL_STATICLIB ")
        more = {
            "libwebp": " -DWEBP_EXTERN=extern",
            "libdeflate": " -DLIBDEFLATE_ASSEMBLER_DOES_NOT_SUPPORT_AVX512VNNI -DLIBDEFLATE_ASSEMBLER_DOES_NOT_SUPPORT_VPCLMULQDQ",
        }
        return self.compile + more.get(library.name, "")

    def without_long_double(self, file: str, old: str, new: str) -> list[str]:
        """Returns commands that replace an expression of type long double in a source file. On aarch64, its 128 bits need a function of Zig's runtime
        library. That library is one object, so its memcpy, strlen and stack check would be linked too and replace those of the C library."""
        return [f"grep -q '{old}' {file}", f"sed -i 's/{old}/{new}/' {file}"] if self.machine == "aarch64" else []

    def curl_lines(self, prefix: Path) -> list[str]:
        """Returns commands that link libcurl and OpenSSL to one shared library, which exports only the functions that src/io/curl.h calls. -Bsymbolic binds
        calls inside the library to its own functions."""
        header = (HERE.parent.parent / "src" / "io" / "curl.h").read_text()
        names = re.findall(r"^\tX\(((?:curl|SSL)_\w+),", header, re.M)
        version = prefix / "lib" / "libcurl-stoker.map"
        ssl = self.done["openssl"] / "lib"
        return [
            f"printf '%s\\n' '{{ global: {' '.join(n + ';' for n in names)} local: *; }};' > '{version}'",
            f"cc -shared -o '{prefix}/lib/libcurl-stoker.so' -Wl,-soname,libcurl-stoker.so -Wl,--version-script='{version}' -Wl,-Bsymbolic -Wl,-z,relro,-z,now"
            f" -Wl,-z,noexecstack -Wl,--gc-sections -Wl,--whole-archive '{prefix}/lib/libcurl.a' -Wl,--no-whole-archive '{ssl}/libssl.a'"
            f" '{ssl}/libcrypto.a' -lpthread -ldl",
        ]

    def dav1d_lines(self, prefix: Path) -> list[str]:
        """Returns commands that build dav1d, the decoder for AV1 that FFmpeg calls."""
        rows = ["[binaries]", "c = 'cc'", "ar = 'ar'", "ranlib = 'ranlib'", "[host_machine]", "system = 'linux'", "endian = 'little'"]
        rows += [f"cpu_family = '{self.machine}'", f"cpu = '{self.machine}'"]
        parts = " ".join(f"-D{name}=false" for name in ("enable_tools", "enable_examples", "enable_tests"))
        return [
            "printf '%s\\n' " + " ".join(f'"{row}"' for row in rows) + " > machine.ini",
            f"meson setup out --cross-file machine.ini --prefix='{prefix}' --libdir=lib --buildtype=release -Ddefault_library=static {parts}"
            f" -Dc_args='{self.compile}'",
            "ninja -C out -j $JOBS",
            "ninja -C out install",
        ]

    def ffmpeg_lines(self, root: Path, prefix: Path) -> list[str]:
        """Returns commands that build FFmpeg's libraries under names that no other library in a process has. Their symbols have their own versions, so that
        they never bind to another FFmpeg, even if a program has loaded that one with RTLD_GLOBAL. FFmpeg stores configure's options in the libraries, so
        these options must not name folders of the build machine: zlib is copied to needed/, which is a relative path."""
        compile_args = self.compile.replace("-fvisibility=hidden ", "") + " -Ineeded/include"  # lib*.v list the visible symbols
        link = "-Lneeded/lib -Wl,-z,relro,-z,now,-z,noexecstack -Wl,--gc-sections"
        parts = [f"--enable-{kind}={name}" for kind, names in FFMPEG_PARTS.items() for name in names.split()]
        about = ["Name: libavformat", "Description: FFmpeg", f"Cflags: -I{prefix}/include"]
        return [
            f"mkdir needed && cp -r '{self.done['zlib']}/include' '{self.done['zlib']}/lib' needed/",
            "sed -i 's/_MAJOR/_STOKER_MAJOR/' lib*/lib*.v",
            f"PKG_CONFIG_LIBDIR='{self.done['dav1d']}/lib/pkgconfig' ./configure --prefix=/usr --cc=cc --ar=ar --ranlib=ranlib --enable-cross-compile"
            f" --target-os=linux --arch={self.machine} {' '.join(FFMPEG)} --extra-cflags='{compile_args}' --extra-ldflags='{link}' {' '.join(parts)}",
            "sed -i 's/^#define HAVE_SYSCTL 1/#define HAVE_SYSCTL 0/' config.h",  # glibc has this function, but Zig's headers do not declare it
            "grep -q '^#define FFMPEG_LICENSE \"LGPL version 2.1 or later\"$' config.h",
            "make -j$JOBS",
            f"make DESTDIR='{root}/installed' install",
            f"mkdir -p '{prefix.parent}' && mv installed/usr '{prefix}' && rm -r '{prefix}'/lib/pkgconfig/*",
            "version=$(sed -n 's/^libavformat_VERSION=//p' libavformat/libavformat.version)",
            f"printf '%s\\n' {' '.join(repr(row) for row in about)} \"Version: $version\" > '{prefix}/lib/pkgconfig/libavformat.pc'",
        ]
