#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a command in a fresh clone of the last commit on a bare Debian: a minimal system in a chroot that has git, make and CA certificates and nothing
# else, an empty environment, and /tmp on an overlay as in a container. A command that passes there depends on nothing that only a developer's machine has.
#
# usage: tools/fresh.sh SUITE COMMAND...      SUITE: bookworm, trixie, ...
#        USERNAME=ann tools/fresh.sh trixie make test         as a user without root
# environment: FRESH_HOME, the folder that keeps the bare systems (default /var/tmp/stoker-fresh; half a gigabyte each).
# Needs root, debootstrap and overlay mounts.
# The system uses this machine's mirror, and its settings of apt and pip.
set -uo pipefail
cd "$(dirname "$0")/.."
. tools/debian.sh
if [ $# -lt 2 ]; then
	sed -n 's/^# \{0,1\}//; /^usage/,/^$/p' "$0" | head -n 4 >&2
	exit 2
fi
suite=$1
shift
command=$*
kept=${FRESH_HOME:-/var/tmp/stoker-fresh}
system=$kept/base-$suite
user=${USERNAME:-root}

need_root
need git:git

# Copies this machine's settings with which apt, pip and TLS reach their servers.
copy_settings() {
	cp /etc/resolv.conf "$1/etc/"
	for file in /etc/apt/apt.conf.d/99*; do
		[ ! -f "$file" ] || cp "$file" "$1/etc/apt/apt.conf.d/"
	done
	[ ! -d /usr/local/share/ca-certificates ] || cp -r /usr/local/share/ca-certificates "$1/usr/local/share/"
	cp /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/"
	python3 -m pip config list 2>/dev/null | sed -n "s/^global\.\([a-z-]*\)='\(.*\)'$/\1 = \2/p" |
		awk 'BEGIN { print "[global]" } { gsub(/\\n/, " "); print }' > "$1/etc/pip.conf"
	# pip does not start if a file of constraints that its settings name is missing.
	for file in $(sed -n 's/^constraint = //p' "$1/etc/pip.conf"); do
		[ ! -f "$file" ] || install -D -m 644 "$file" "$1$file"
	done
}

make_system() {
	bare "$suite" "$system" --include=git,make,ca-certificates
	copy_settings "$system.new"
	mv "$system.new" "$system"
}

mkdir -p "$kept"
[ -d "$system" ] || make_system
scratch=$(mktemp -d "$kept/run-XXXXXX")
root=$scratch/root

clean() {
	for place in opt dev proc sys ''; do
		! mountpoint -q "$root/$place" || umount -R -l "$root/$place"
	done
	rm -rf --one-file-system "$scratch"
}
trap clean EXIT
trap 'exit 130' INT TERM

mkdir "$root" "$scratch/upper" "$scratch/work"
mount -t overlay overlay -o "lowerdir=$system,upperdir=$scratch/upper,workdir=$scratch/work" "$root" || fail "cannot mount an overlay"
mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" && mount --make-rslave "$root/dev" &&
	mount --bind -o ro /sys "$root/sys" || fail "cannot mount what a system needs"
# pip's settings may name folders of packages in /opt.
if [ -d /opt ]; then
	mount --bind /opt "$root/opt" && mount -o remount,bind,ro "$root/opt"
fi
git clone -q . "$root/srv/stoker" || fail "cannot clone"
home=/root
if [ "$user" != root ]; then
	home=/home/$user
	chroot "$root" useradd -m "$user" && chroot "$root" chown -R "$user:" /srv/stoker || fail "cannot make the user $user"
fi
begin=$SECONDS
chroot "$root" su -s /bin/sh -c 'cd /srv/stoker && exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
	HOME="$1" USER="$2" TERM=dumb sh -c "$3"' -- "$user" fresh "$home" "$user" "$command" < /dev/null 2>&1
rc=$?
printf 'fresh: %s in a bare %s: exit status %d after %d s\n' "$command" "$suite" "$rc" $((SECONDS - begin))
exit $rc
