#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests a released wheel on the oldest Debian that the mirror has (glibc 2.31), in a chroot to which only the wheel and a CPython are added. The CPython is
# built there once from Debian's source. Tests the package, the command, and an https:// URI of a server on loopback whose certificate authority is in no
# store of the system, but in a file.
#
# usage: tools/release/test_old.sh WHEEL         as root; needs debootstrap, openssl and python3
# environment: FRESH_HOME, the folder that keeps the system (default /var/tmp/stoker-fresh)
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/debian.sh
[ $# = 1 ] || fail "which wheel? test_old.sh WHEEL"
need_root
need openssl:openssl python3:python3
wheel=$(realpath "$1")
suite=bullseye
kept=${FRESH_HOME:-/var/tmp/stoker-fresh}
system=$kept/python-$suite
python=/opt/python/bin/python3

say() { printf 'old glibc: %s\n' "$*" >&2; }

if [ ! -x "$system$python" ]; then
	rm -rf --one-file-system "$system"
	bare "$suite" "$system" --include=gcc,make,libc6-dev,libffi-dev,zlib1g-dev,ca-certificates
	source=$(PYTHONPATH=tools/release python3 -c 'import libraries, pathlib; print(libraries.fetch(libraries.python(), pathlib.Path("build-release").resolve()))')
	mkdir "$system.new/source"
	tar -xf "$source" -C "$system.new/source" --strip-components=1
	tools/step.sh "old glibc: CPython" nice -n 19 chroot "$system.new" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -c \
		"cd /source && ./configure -q --prefix=/opt/python --without-ensurepip --disable-test-modules && make -s -j${JOBS:-2} && make -s install"
	rm -rf "$system.new/source"
	mv "$system.new" "$system"
fi

scratch=$(mktemp -d)
server=
clean() {
	[ -z "$server" ] || kill "$server"
	! mountpoint -q "$system/proc" || umount "$system/proc"
	rm -rf --one-file-system "$scratch" "$system/try"
}
trap clean EXIT

# Starts a server whose certificate comes from an authority that the system does not know.
key=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
(
	cd "$scratch"
	openssl req -x509 "${key[@]}" -keyout ca.key -out ca.pem -subj '/CN=an authority' -days 2
	openssl req "${key[@]}" -keyout key.pem -out request.pem -subj /CN=127.0.0.1
	echo subjectAltName=IP:127.0.0.1 > names
	openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names -days 2 -out cert.pem
) 2> /dev/null
mount -t proc proc "$system/proc" # programs find their own folder through /proc
mkdir -p "$scratch/files" "$system/try/site"
cp tools/wheel_probe.py "$system/try/"
python3 - "$scratch" > "$scratch/port" 2> "$scratch/log" << 'EOF' &
import functools, http.server, ssl, sys

folder = sys.argv[1]
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder + "/files")
handler.func.log_message = lambda *a: None
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(folder + "/cert.pem", folder + "/key.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
EOF
server=$!
python3 tools/wheel_probe.py --write "$scratch/files/gray.jpg"
while [ ! -s "$scratch/port" ]; do sleep 0.1; done
url=https://127.0.0.1:$(cat "$scratch/port")/gray.jpg

python3 -m zipfile -e "$wheel" "$system/try/site"
chmod 755 "$system"/try/site/stoker/_bin/stoker
inside() { chroot "$system" env -i PATH=/usr/bin:/bin HOME=/root PYTHONPATH=/try/site "$@"; }
inside "$python" -c 'import platform, sys; print("old glibc:", *platform.libc_ver(), "CPython", sys.version.split()[0])'
inside "$python" /try/wheel_probe.py
inside /try/site/stoker/_bin/stoker doctor --versions
say "an authority that nobody knows is refused:"
! inside /try/site/stoker/_bin/stoker inspect "$url" || { say "it was believed"; exit 1; }
cp "$scratch/ca.pem" "$system/try/ca.pem"
say "SSL_CERT_FILE names it:"
inside SSL_CERT_FILE=/try/ca.pem /try/site/stoker/_bin/stoker inspect "$url"
for place in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do
	mkdir -p "$system/$(dirname $place)"
	[ ! -e "$system$place" ] || mv "$system$place" "$system/try/kept"
	cp "$scratch/ca.pem" "$system$place"
	say "it lies in $place:"
	inside "$python" /try/wheel_probe.py --read "$url"
	rm "$system$place"
done
[ ! -e "$system/try/kept" ] || mv "$system/try/kept" "$system/etc/ssl/certs/ca-certificates.crt"
say "$(basename "$wheel") works there"
