#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Installs what a group of targets needs, once: Debian or Ubuntu packages (as root, or with sudo where it asks for no password; else it says which
# command to run) and pinned Python packages into a virtual environment.
#
# usage: tools/setup.sh GROUP...        groups: build test lint parity bench wheel check
# environment: VENV (default .venv)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
VENV=${VENV:-$here/../.venv}

say() { printf 'setup: %s\n' "$*" >&2; }

wanted_packages() {
	for group in "$@"; do
		sed -n "s/^$group: *//p" "$here/packages.txt"
	done | tr -s ' ' '\n' | sort -u
}

# A command or library that did not come from apt serves as well.
present() {
	case $1 in
	gcc) command -v cc ;;
	g++) command -v c++ ;;
	ninja-build) command -v ninja ;;
	pkg-config) command -v pkg-config ;;
	make | meson | cppcheck | clang-tidy | patchelf | valgrind | clang) command -v "$1" ;;
	binutils) command -v objdump ;;
	python3) command -v python3 ;;
	python3-venv) python3 -c 'import ensurepip, venv' ;;
	python3-dev) python3 -c 'import os, sysconfig, sys; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ;;
	libjpeg-dev) pkg-config --exists libjpeg ;;
	libspng-dev) pkg-config --exists spng || pkg-config --exists libspng ;;
	libjansson-dev) pkg-config --exists jansson ;;
	libcmocka-dev) pkg-config --exists cmocka ;;
	zlib1g-dev) pkg-config --exists zlib ;;
	*) return 1 ;;
	esac >/dev/null 2>&1
}

install_packages() {
	missing=
	for package in $(wanted_packages "$@"); do
		present "$package" || missing="$missing $package"
	done
	[ -n "$missing" ] || return 0
	if ! command -v apt-get >/dev/null 2>&1; then
		say "this needs what Debian calls:$missing"
		say "please install them with your system's package manager and try again"
		exit 1
	fi
	if [ "$(id -u)" = 0 ]; then
		sudo=
	elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
		sudo='sudo -n'
	else
		say "some packages are missing; please run this once:"
		say "    sudo apt-get install$missing"
		exit 1
	fi
	say "installing$missing"
	$sudo apt-get update -q >&2
	# shellcheck disable=SC2086 # the lists are words
	DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -q --no-install-recommends $missing >&2
}

make_venv() {
	[ -x "$VENV/bin/python" ] && return 0
	if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
		say "stoker needs Python 3.11 or newer; python3 is $(python3 --version)"
		exit 1
	fi
	say "making $VENV"
	python3 -m venv "$VENV"
}

# Installs one requirements file unless the stamp says that it was.
install_requirements() {
	file=$here/requirements-$1.txt
	stamp=$VENV/.stoker-$1
	shift
	[ -f "$file" ] || return 0
	cmp -s "$file" "$stamp" && return 0
	make_venv
	say "installing Python packages of $(basename "$file")"
	PIP_DISABLE_PIP_VERSION_CHECK=1 "$VENV/bin/python" -m pip install -q "$@" -r "$file" >&2
	cp "$file" "$stamp"
}

[ $# -gt 0 ] || set -- build
install_packages "$@"
for group in "$@"; do
	install_requirements "$group"
	install_requirements "$group-nodeps" --no-deps
done
