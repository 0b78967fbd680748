# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Functions for scripts that create minimal Debian systems. Such a script includes this file with `.`; messages begin with the script's name.

fail() {
	printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2
	exit 2
}

# need PACKAGE:COMMAND...      Ends the script if commands are missing, and prints the packages to install.
need() {
	local pair missing=
	for pair; do
		command -v "${pair#*:}" > /dev/null || missing="$missing ${pair%:*}"
	done
	[ -z "$missing" ] || fail "commands are missing: apt-get install$missing"
}

need_root() {
	[ "$(id -u)" = 0 ] || fail "this needs root, for a chroot and its mounts"
}

# Prints the address of Debian's archive from this machine's apt sources, in either of apt's two formats. Ignores snapshots, comments and other archives.
mirror() {
	local found
	found=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2> /dev/null |
		grep -E '^(deb|URIs:) ' | tr -s '[:blank:]' '\n' | grep -E '^[a-z]+://.*/debian/?$' | head -n 1)
	[ -n "$found" ] || fail "no archive of Debian in this machine's /etc/apt"
	printf '%s\n' "$found"
}

# bare SUITE FOLDER [OPTION...]      Makes a minimal system in FOLDER.new. The caller renames it, so that an interrupted attempt is not used.
bare() {
	local suite=$1 system=$2 from script='' scripts=/usr/share/debootstrap/scripts
	shift 2
	need debootstrap:debootstrap
	from=$(mirror) || exit
	mkdir -p "$(dirname "$system")"
	rm -rf --one-file-system "$system.new"
	# A debootstrap that is older than the suite has no script for it; the script for sid works.
	[ -e "$scripts/$suite" ] || script=$scripts/sid
	tools/step.sh "$(basename "$0" .sh): a bare $suite from $from" \
		debootstrap --variant=minbase "$@" "$suite" "$system.new" "$from" $script || exit 2
}

# unpacked SUITE FOLDER MACHINE PACKAGE,...      Makes a system for another processor in FOLDER.new. The packages and their dependencies are unpacked but not
# installed, because their programs cannot run here.
unpacked() {
	local system=$2 package
	need dpkg:dpkg-deb
	bare "$1" "$system" --foreign --arch="$3" --include="$4"
	for package in "$system.new"/var/cache/apt/archives/*.deb; do
		dpkg-deb -x "$package" "$system.new"
	done
}
