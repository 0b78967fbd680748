#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the library and its C tests for aarch64 with Debian's cross compiler, NEON kernels included, and runs them under qemu-user. This
# cannot test a memory order that is weaker than this machine's, pages of 64 KiB, the use of memory, or times. tools/release/test_aarch64.sh runs the Python
# tests with a released wheel.
#
# usage: tools/test_aarch64.sh [TEST...]         names of meson tests; default: all except the long ones. Needs root for debootstrap
# environment: FRESH_HOME, the folder that keeps Debian's libraries for aarch64 (default /var/tmp/stoker-fresh); BUILD (default build-aarch64)
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/debian.sh
need_root
need qemu-user-static:qemu-aarch64-static gcc-aarch64-linux-gnu:aarch64-linux-gnu-gcc meson:meson ninja-build:ninja pkg-config:pkg-config
suite=bookworm
system=${FRESH_HOME:-/var/tmp/stoker-fresh}/libraries-aarch64-$suite
build=${BUILD:-build-aarch64}

if [ ! -d "$system" ]; then
	unpacked "$suite" "$system" arm64 \
		libcmocka-dev,libjpeg-dev,libspng-dev,libjansson-dev,zlib1g-dev,libsimde-dev,libcurl4-openssl-dev,libssl-dev,libwebp-dev,libdeflate-dev
	# Makes absolute links point into the system's folder. They would lead out of it, because the tests do not run in a chroot.
	find "$system.new" -type l -lname '/*' | while read -r link; do
		ln -sfn "$system$(readlink "$link")" "$link"
	done
	mv "$system.new" "$system"
fi

libraries=$system/usr/lib/aarch64-linux-gnu
cat > "$system/meson.ini" << EOF
[binaries]
c = 'aarch64-linux-gnu-gcc'
cpp = 'aarch64-linux-gnu-g++'
ar = 'aarch64-linux-gnu-ar'
strip = 'aarch64-linux-gnu-strip'
pkgconfig = 'pkg-config' # before meson 1.3
pkg-config = 'pkg-config'
exe_wrapper = ['qemu-aarch64-static', '-L', '$system']
[properties]
sys_root = '$system'
pkg_config_libdir = ['$libraries/pkgconfig', '$system/usr/share/pkgconfig']
[built-in options]
c_args = ['--sysroot=$system']
c_link_args = ['--sysroot=$system']
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
EOF
[ -f "$build/build.ninja" ] || meson setup "$build" --cross-file "$system/meson.ini" -Dtests=enabled -Dpython=disabled -Dcuda=disabled
ninja -C "$build" --quiet
[ $# -gt 0 ] || set -- --no-suite long
STOKER_TEST_EMULATED=1 meson test -C "$build" --no-rebuild --timeout-multiplier 10 "$@"
