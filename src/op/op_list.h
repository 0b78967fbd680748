/* SPDX-License-Identifier: Apache-2.0
 * Every operator, one line each, sorted by name: X(symbol). */
X(coin_flip)
X(flip)
X(readers_file)
