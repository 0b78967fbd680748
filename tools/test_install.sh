#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Installs into one prefix and then into another, as a user does, and tests each installation: the command starts, pkg-config finds the library, and a program
# that was built with the library runs. Only the variables that tools/install.sh prints are set.
#
# usage: tools/test_install.sh
set -eu
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset LD_LIBRARY_PATH PKG_CONFIG_PATH DESTDIR

fail() {
	printf 'install: %s\n' "$*" >&2
	exit 1
}

# Builds examples/c/match.c with find_package(Stoker VERSION).
build_with_cmake() {
	rm -rf "$scratch/cmake" "$scratch/cmake-source"
	mkdir "$scratch/cmake-source"
	cp examples/c/match.c "$scratch/cmake-source"
	printf '%s\n' 'cmake_minimum_required(VERSION 3.16)' 'project(match C)' "find_package(Stoker $2 REQUIRED)" 'add_executable(match match.c)' \
		'target_link_libraries(match Stoker::stoker m)' > "$scratch/cmake-source/CMakeLists.txt"
	cmake -S "$scratch/cmake-source" -B "$scratch/cmake" -DCMAKE_PREFIX_PATH="$1" && cmake --build "$scratch/cmake"
}

for prefix in "$scratch/one" "$scratch/two"; do
	! [ -e "$prefix" ] || fail "$prefix was there before it was asked for"
	make --no-print-directory install PREFIX="$prefix" INSTALL_BUILD=build-install-test MESON_FLAGS=-Dcuda=disabled > "$scratch/log" 2>&1 || { cat "$scratch/log"; fail "make install failed"; }
	"$prefix/bin/stoker" --version || fail "the command in $prefix does not start"
	export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
	[ "$(pkg-config --variable=prefix stoker)" = "$prefix" ] || fail "pkg-config names $(pkg-config --variable=prefix stoker)"
	eval "${CC:-cc} -o '$scratch/match' examples/c/match.c $(pkg-config --cflags --libs stoker)" || fail "a program cannot be built with pkg-config"
	"$scratch/match" > "$scratch/match.txt" || fail "a program built with pkg-config does not run"
	ldd "$scratch/match" | grep -qF "$prefix/lib/libstoker.so.0 " || fail "a program built with pkg-config takes another library: $(ldd "$scratch/match")"
	PATH=$prefix/bin:$PATH bash -c '. "$1" && COMP_WORDS=(stoker insp) COMP_CWORD=1 && _stoker && [ "${COMPREPLY[*]}" = inspect ]' - "$prefix/share/bash-completion/completions/stoker.bash" ||
		fail "bash does not complete the commands"
	[ -s "$prefix/share/man/man1/stoker.1" ] || fail "there is no manual page"
	if command -v cmake > /dev/null; then
		build_with_cmake "$prefix" 0.1 > "$scratch/log" 2>&1 || { cat "$scratch/log"; fail "a program cannot be built with CMake"; }
		"$scratch/cmake/match" > "$scratch/match.txt" || fail "a program built with CMake does not run"
		! build_with_cmake "$prefix" 0.2 > "$scratch/log" 2>&1 || fail "CMake takes this version for a later one"
	fi
	first=${first:-$prefix}
	rm -rf "$prefix/bin" # so that only the second installation is left
done
[ ! -e "$first/bin" ] || fail "the second installation went into the first one"
echo "install: works in two prefixes, one after the other"
