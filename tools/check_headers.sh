#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Checks that each public header compiles by itself, as C11 and as C++17, without warnings.
set -eu
cd "$(dirname "$0")/.."
count=0
for header in include/stoker/*.h; do
	name=stoker/$(basename "$header")
	echo "#include <$name>" | ${CC:-cc} -std=c11 -Wall -Wextra -Werror -pedantic -Iinclude -fsyntax-only -x c -
	echo "#include <$name>" | ${CXX:-c++} -std=c++17 -Wall -Wextra -Werror -Wno-missing-field-initializers -Iinclude -fsyntax-only -x c++ -
	count=$((count + 1))
done
echo "headers: $count compile alone in C and C++"
