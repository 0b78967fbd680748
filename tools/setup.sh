#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Installs the packages of the given groups, unless they are installed: Debian or Ubuntu packages (as root, or with sudo if that asks for no password;
# otherwise prints the command to run) and pinned Python packages into a virtual environment. The configuration of apt and pip determines their sources;
# only PyTorch's CPU build is also looked for where PyTorch publishes it.
#
# usage: tools/setup.sh GROUP...        groups: see packages.txt and requirements-GROUP.txt
#        tools/setup.sh --missing GROUP...      installs nothing; prints the missing packages without which a build fails, one on each line
# environment: VENV (default .venv)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
VENV=${VENV:-$here/../.venv}
export PIP_DISABLE_PIP_VERSION_CHECK=1

say() { printf 'setup: %s\n' "$*" >&2; }

wanted_packages() {
	for group in "$@"; do
		sed -n "s/^$group: *//p" "$here/packages.txt"
	done | tr -s ' ' '\n' | sort -u
}

# Returns whether a package is installed, or its command or library was installed by other means than apt.
present() {
	case $1 in
	gcc) command -v cc ;;
	g++) command -v c++ ;;
	ninja-build) command -v ninja ;;
	pkg-config) command -v pkg-config ;;
	make | meson | cmake | nasm | perl | clang-tidy | patchelf | valgrind | clang | ffmpeg | espeak-ng) command -v "$1" ;;
	binutils) command -v objdump ;;
	binutils-aarch64-linux-gnu) command -v aarch64-linux-gnu-strip ;;
	dpkg-dev) command -v dpkg-source ;;
	python3) command -v python3 ;;
	python3-venv) python3 -c 'import ensurepip, venv' ;;
	python3-dev) python3 -c 'import os, sysconfig, sys; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ;;
	libjpeg-dev) pkg-config --exists libjpeg ;;
	libspng-dev) pkg-config --exists spng || pkg-config --exists libspng ;;
	libjansson-dev) pkg-config --exists jansson ;;
	libcurl4-openssl-dev) pkg-config --exists libcurl ;;
	libssl-dev) pkg-config --exists libcrypto ;;
	libcmocka-dev) pkg-config --exists cmocka ;;
	zlib1g-dev) pkg-config --exists zlib ;;
	libwebp-dev) pkg-config --exists libwebp ;;
	libdeflate-dev) pkg-config --exists libdeflate ;;
	libavformat-dev) pkg-config --exists libavformat ;;
	libavcodec-dev) pkg-config --exists libavcodec ;;
	libavutil-dev) pkg-config --exists libavutil ;;
	*) return 1 ;;
	esac >/dev/null 2>&1
}

# Sets `sudo` to the words to put before apt-get. Returns false if this user may not install packages, or the system has no apt.
may_install() {
	command -v apt-get >/dev/null 2>&1 || return 1
	if [ "$(id -u)" = 0 ]; then
		sudo=
	elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
		sudo='sudo -n'
	else
		return 1
	fi
}

updated=
apt_install() {
	# shellcheck disable=SC2086 # the lists are words
	{
		{ [ -n "$updated" ] || "$here/step.sh" "setup: lists of Debian packages" $sudo apt-get update -q; } && updated=1 &&
			size=$(LC_ALL=C apt-get install --no-install-recommends --assume-no "$@" 2>/dev/null | sed -n 's/^Need to get \(.*\) of archives.*/\1/p') &&
			"$here/step.sh" "setup: Debian packages $* (downloads ${size:-nothing})" \
				$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
	}
}

# Packages without which a build works, but lacks some parts.
optional=' libcurl4-openssl-dev libssl-dev libwebp-dev libdeflate-dev libavformat-dev libavcodec-dev libavutil-dev ffmpeg espeak-ng '

# Prints the parts that a build without these packages leaves out.
left_out() {
	of=
	for package in "$@"; do
		case $package in
		libwebp-dev) what=WebP ;;
		libdeflate-dev) what='the faster decoder of PNG' ;;
		libav*-dev) what=video ;;
		ffmpeg) what='tests of video and sound' ;;
		espeak-ng) what='the test of examples/audio' ;;
		*) what='http:// and s3://' ;;
		esac
		case $of in *"$what"*) ;; *) of="${of:+$of, }$what" ;; esac
	done
	printf '%s\n' "$of"
}

install_packages() {
	missing= extra=
	for package in $(wanted_packages "$@"); do
		present "$package" && continue
		case $optional in
		*" $package "*) extra="$extra $package" ;;
		*) missing="$missing $package" ;;
		esac
	done
	# shellcheck disable=SC2086
	if [ -z "$missing$extra" ]; then
		:
	elif may_install; then
		[ -z "$missing" ] || apt_install $missing
		[ -z "$extra" ] || apt_install $extra || say "$extra cannot be installed: the build leaves out $(left_out $extra)"
	elif [ -z "$missing" ]; then
		say "without$extra the build leaves out $(left_out $extra)"
	elif command -v apt-get >/dev/null 2>&1; then
		say "some packages are missing; please run this once:"
		say "    sudo apt-get install$missing$extra"
		exit 1
	else
		say "this needs what Debian calls:$missing$extra"
		say "please install them with your system's package manager and try again"
		exit 1
	fi
}

# Makes the virtual environment. If pip does not work in an existing one, as after an interrupted attempt, makes it again.
make_venv() {
	[ ! -x "$VENV/bin/python" ] || ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1 || return 0
	if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
		say "stoker needs Python 3.11 or newer; python3 is $(python3 --version)"
		exit 1
	fi
	if [ -d "$VENV" ] && [ ! -e "$VENV/pyvenv.cfg" ] && [ -n "$(ls -A "$VENV")" ]; then
		say "$VENV is not a virtual environment; please name another one by VENV=DIR"
		exit 1
	fi
	"$here/step.sh" "setup: virtual environment $VENV" python3 -m venv --clear "$VENV"
}

pip_install() {
	text=$1
	shift
	"$here/step.sh" "setup: $text" "$VENV/bin/python" -m pip install --progress-bar off "$@"
}

# Downloads PyTorch's CPU build, whose version ends in +cpu, from where pip is configured to look, else from PyTorch's own index. PyPI does not have it.
download_cpu_torch() {
	wanted=$(grep '^torch==' "$1")+cpu
	for index in '' '--index-url https://download.pytorch.org/whl/cpu --retries 0 --timeout 15'; do
		# shellcheck disable=SC2086 # the options are words
		"$VENV/bin/python" -m pip download -q --no-deps -d "$VENV/.stoker-torch-cpu" $index "$wanted" >/dev/null 2>&1 && return
	done
	return 1
}

# Installs PyTorch: without a GPU the CPU build, if there is one. Its download is a fifteenth of the CUDA build's.
install_torch() {
	file=$1
	cuda='PyTorch, its CUDA build: downloads 2.7 GB, takes 5.2 GB on disk'
	own=$VENV/.stoker-own-torch # marks a PyTorch that was installed before this script first ran: it is never replaced
	if [ -e "$own" ] || { [ ! -e "$VENV/.stoker-torch" ] && "$VENV/bin/python" -c 'import torch' 2>/dev/null; }; then
		say "$VENV has a PyTorch of its own, which is used"
		touch "$own"
	elif [ -e /dev/nvidiactl ]; then
		pip_install "$cuda" -r "$file"
	elif say "no GPU here: looking for PyTorch's CPU build" && download_cpu_torch "$file"; then
		pip_install "PyTorch, its CPU build: downloads 0.2 GB" "$VENV"/.stoker-torch-cpu/torch-*.whl
	else
		say "pip does not reach PyTorch's CPU build, neither where it is configured to look nor at download.pytorch.org. The CUDA build works too, and is large."
		say "To avoid its download, stop this and name an environment that has PyTorch by VENV=DIR, or set PIP_EXTRA_INDEX_URL to a copy of that index"
		pip_install "$cuda" -r "$file"
	fi
	rm -rf "$VENV/.stoker-torch-cpu"
}

# Installs a group's Python packages, unless its stamp (a copy of the installed list) is up to date. The list may begin with "# Download: N MB", their size.
install_requirements() {
	file=$here/requirements-$1.txt
	stamp=$VENV/.stoker-$1
	[ -f "$file" ] || return 0
	[ ! -x "$VENV/bin/python" ] || ! cmp -s "$file" "$stamp" || return 0
	make_venv
	names=$(sed -n 's/^\([a-z0-9-]*\)==.*/\1/p' "$file" | tr '\n' ' ')
	size=$(sed -n '1s/^# Download: \(.*\)/(downloads \1)/p' "$file")
	case $1 in
	torch) install_torch "$file" ;;
	*-nodeps) pip_install "Python packages $names$size" --no-deps -r "$file" ;;
	*) pip_install "Python packages $names$size" -r "$file" ;;
	esac
	cp "$file" "$stamp"
}

if [ "${1:-}" = --missing ]; then
	shift
	for package in $(wanted_packages "$@"); do
		case $optional in *" $package "*) continue ;; esac
		present "$package" || printf '%s\n' "$package"
	done
	exit
fi
[ $# -gt 0 ] || set -- build
python=
for group in "$@"; do
	[ ! -f "$here/requirements-$group.txt" ] || python=python
done
install_packages "$@" $python
# Installs the largest package first, so that a user who does not want the download can stop it early.
case " $* " in
*' torch '*) install_requirements torch ;;
esac
for group in "$@"; do
	install_requirements "$group"
	install_requirements "$group-nodeps"
done
