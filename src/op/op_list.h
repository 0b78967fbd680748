/* SPDX-License-Identifier: Apache-2.0
 * Every operator, one line each, sorted by name: X(symbol). */
X(crop_mirror_normalize)
X(decode_image)
X(decode_random_crop)
X(flip)
X(coin_flip)
X(random_normal)
X(random_uniform)
X(readers_file)
X(resize)
