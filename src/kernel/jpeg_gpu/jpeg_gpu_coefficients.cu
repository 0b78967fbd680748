/* SPDX-License-Identifier: Apache-2.0
 * Phases decode_coefficients and dc of jpeg_gpu.h. A thread decodes a block into shared memory. Then all threads of its warp together store the block, as one
 * line of 128 bytes. */
#include "kernel/jpeg_gpu/jpeg_gpu_cursor.cuh"

#define WORDS 16
#define RING (WORDS + STK_CURSOR_PAD)
#define NEVER 0xffffffffu
#define BLOCK_PITCH 33 /* number of words of a block plus one, so that the blocks of a warp's threads begin in different banks */

/* The position at which a thread stores its blocks. */
struct writer {
	uint32_t dc, dc_end; /* indices in v.dc of the current block, and of the first block that is not needed */
	uint32_t coef;       /* index in v.coef of the block if it is inside the window, otherwise of the next block inside */
	/* until: number of blocks until the writer next enters or leaves the window. in: number of blocks of a row inside the window; NEVER if the window has
	 * whole rows. out: number of blocks between the parts of two consecutive rows that are inside */
	uint32_t until, in, out;
	uint32_t inside; /* 1 if the block is inside the window, otherwise 0 */

	__device__ __forceinline__ void next()
	{
		dc++;
		coef += inside;
		if (--until == 0) {
			inside ^= 1;
			until = inside ? in : out;
		}
	}
};

/* Returns the writer for block b of the image. left: number of blocks that are needed from b on. */
static __device__ __forceinline__ writer writer_at(const stk_jpeg_gpu_image &image, uint32_t b, uint32_t left)
{
	const stk_jpeg_gpu_place p = stk__jpeg_gpu_place(&image, b);
	uint32_t above = p.y < image.mcu_y0 ? (image.mcu_y0 - p.y) * p.row : 0;
	writer w;
	w.dc = image.dc0 + b;
	w.dc_end = w.dc + left;
	w.coef = stk__jpeg_gpu_coef_of(&image, &p);
	w.out = p.row - (p.high - p.low);
	w.in = w.out ? p.high - p.low : NEVER;
	w.inside = stk__jpeg_gpu_inside(&image, &p);
	w.until = w.inside ? (w.out ? p.high - p.x : NEVER) : above || p.x < p.low ? above + p.low - p.x : p.row - p.x + p.low;
	return w;
}

struct piece {
	stk_jpeg_gpu_state state;
	stk_jpeg_gpu_code code;
	const uint32_t *words;
	uint32_t image, end; /* end: no block that begins at this bit or later is decoded */
	uint32_t whole;      /* length of the bitstream in bits if it must end with its last block; otherwise 0 */
	struct writer writer;
};

static __device__ __forceinline__ piece no_piece(const stk_jpeg_gpu_view &v)
{
	piece own = {{}, stk__jpeg_gpu_no_code(), (const uint32_t *)v.bits, 0, 0, 0, {}};
	return own;
}

static __device__ __forceinline__ piece find_piece(const stk_jpeg_gpu_view &v, const stk_jpeg_gpu_set &set, uint32_t number)
{
	stk_jpeg_gpu_start start = v.starts[number];
	uint32_t bitstream = stk__jpeg_gpu_bitstream_of_subsequence(&v, number / STK_JPEG_GPU_PIECES), length = v.bit_length[bitstream];
	const stk_jpeg_gpu_bitstream &s = v.bitstreams[bitstream];
	const stk_jpeg_gpu_image &image = v.images[s.image];
	uint32_t begin = (number - s.subsequence0 * STK_JPEG_GPU_PIECES) * STK_JPEG_GPU_PIECE;
	piece own;
	own.state = stk__jpeg_gpu_unpack(start.state, begin);
	own.code = stk__jpeg_gpu_code(&image, &set);
	own.words = stk__jpeg_gpu_words(&v, &s);
	own.image = s.image;
	own.end = min(begin + STK_JPEG_GPU_PIECE, length);
	own.whole = s.last ? 0 : length;
	own.writer = writer_at(image, s.mcu0 * image.blocks_mcu + start.block, s.blocks - start.block);
	return own;
}

/* Stores the blocks of the lanes in mask `finished` in `coefficients`, each with the whole warp, and sets their memory to 0 for the next blocks. from:
 * this lane's word of the warp's first block; at: offset in bytes of this lane's word in a block; coef: index of this lane's block. */
static __device__ __forceinline__ void flush(uint32_t finished, uint32_t *from, int16_t *coefficients, uint32_t at, uint32_t coef)
{
	__syncwarp();
	while (finished) {
		int lane = __ffs(finished) - 1;
		uint32_t *word = from + lane * BLOCK_PITCH;
		*(uint32_t *)((char *)coefficients + ((size_t)__shfl_sync(~0u, coef, lane) * 128 + at)) = *word;
		*word = 0;
		finished &= finished - 1;
	}
	__syncwarp();
}

extern "C" __global__ void __launch_bounds__(STK_JPEG_GPU_COEFFICIENT_THREADS)
	jpeg_gpu_decode_coefficients(const __grid_constant__ stk_jpeg_gpu_view v)
{
	STK_SHARED_ARRAY(uint32_t, shared);
	uint32_t *blocks = shared + STK_JPEG_GPU_COEFFICIENT_THREADS * RING;
	uint16_t *lut = (uint16_t *)(blocks + STK_JPEG_GPU_COEFFICIENT_THREADS * BLOCK_PITCH);
	const stk_jpeg_gpu_work &work = v.coefficient_work[blockIdx.x];
	const stk_jpeg_gpu_set &set = v.sets[work.set];
	stk__cursor_load_tables(lut, v.lut + set.at, set.size * set.tables);
	for (uint32_t i = threadIdx.x; i < STK_JPEG_GPU_COEFFICIENT_THREADS * BLOCK_PITCH; i += STK_JPEG_GPU_COEFFICIENT_THREADS)
		blocks[i] = 0;
	__syncthreads();

	bool given = threadIdx.x < work.count && v.starts[work.first + threadIdx.x].block != STK_JPEG_GPU_NONE;
	piece own = given ? find_piece(v, set, work.first + threadIdx.x) : no_piece(v);
	writer w = own.writer;
	uint32_t flags = 0;
	bool run = own.state.p < own.end && w.dc < w.dc_end;
	if (!__any_sync(~0u, run))
		return;
	stk_cursor<WORDS> at;
	at.begin(shared, threadIdx.x * RING, own.words, lut, own.code, own.state);
	uint32_t *word = blocks + stk__keep(threadIdx.x / 32 * 32 * BLOCK_PITCH + threadIdx.x % 32),
		 in_block = stk__keep(threadIdx.x % 32 * 4);
	int16_t *mine = (int16_t *)(blocks + stk__keep(threadIdx.x * BLOCK_PITCH));
	bool begun = own.state.z != 0;         /* the block began in an earlier piece, whose thread stores it */
	bool keep = run && !begun && w.inside; /* true if this thread stores the coefficients of the block */
	int32_t dc = 0;
	while (__any_sync(~0u, run)) {
		uint32_t last = 0; /* table entry of the last symbol decoded in this turn of the loop; 0 if none was */
#pragma unroll
		for (int i = 0; i < STK_CURSOR_GROUP; i++) {
			uint32_t entry = at.look(at.over());
			int32_t value = stk__jpeg_gpu_value(entry, at.ahead);
			dc = at.z ? dc : value;
			last = entry ? entry : last;
			at.advance(entry);
			if (keep && entry >> 5 & 15)
				mine[(at.z - 1) & 63] = (int16_t)value;
		}
		uint32_t coef = w.coef, done = __ballot_sync(~0u, at.over() && keep);
		if (at.over()) {
			if (run) {
				flags |= last >> 13 & STK_JPEG_GPU_BAD_CODE; /* moves bit 14 of STK_JPEG_GPU_INVALID to bit 1 */
				if (at.z > 64 && stk__jpeg_gpu_entry_moves(last) < 64)
					flags |= STK_JPEG_GPU_OVERRUN;
				if (!begun)
					v.dc[w.dc] = (int16_t)dc;
				begun = false;
				w.next();
				if (w.dc == w.dc_end && own.whole >= at.p + 8)
					flags |= STK_JPEG_GPU_LEFTOVER;
				run = at.p < own.end && w.dc < w.dc_end;
				keep = run && w.inside;
			}
			at.next_block();
		}
		if (done)
			flush(done, word, v.coef, in_block, coef);
		at.refill<1>(run);
	}
	if (flags)
		atomicOr(&v.flags[own.image], flags);
}

#define DC_THREADS 256
#define COMPONENTS 3

/* Replaces each component's `sum` by `carry` plus the sum over the threads before this one. Then adds the sum over all threads to `carry`, for the next call.
 * All threads of the block must call this. sums: shared memory. */
static __device__ __forceinline__ void scan(int32_t sum[COMPONENTS], int32_t carry[COMPONENTS], int32_t (*sums)[DC_THREADS / 32])
{
	uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	int32_t own[COMPONENTS];
#pragma unroll
	for (int c = 0; c < COMPONENTS; c++) {
		own[c] = sum[c];
#pragma unroll
		for (int step = 1; step < 32; step <<= 1) {
			int32_t below = __shfl_up_sync(~0u, sum[c], step);
			sum[c] += lane >= step ? below : 0;
		}
		if (lane == 31)
			sums[c][warp] = sum[c];
	}
	__syncthreads();
#pragma unroll
	for (int c = 0; c < COMPONENTS; c++) {
		sum[c] += carry[c] - own[c];
#pragma unroll
		for (uint32_t i = 0; i < DC_THREADS / 32; i++) {
			sum[c] += i < warp ? sums[c][i] : 0;
			carry[c] += sums[c][i];
		}
	}
	__syncthreads();
}

/* Replaces a bitstream's differences by the DC coefficients, which are prefix sums for each component. A thread block takes 256 MCUs at a time. */
extern "C" __global__ void __launch_bounds__(DC_THREADS) jpeg_gpu_dc(const __grid_constant__ stk_jpeg_gpu_view v)
{
	__shared__ int32_t sums[COMPONENTS][DC_THREADS / 32];
	const stk_jpeg_gpu_bitstream &s = v.bitstreams[blockIdx.x];
	const stk_jpeg_gpu_image &image = v.images[s.image];
	uint32_t blocks = image.blocks_mcu, block_components = image.block_components, mcus = s.blocks / blocks;
	int16_t *dc = v.dc + image.dc0 + (size_t)s.mcu0 * blocks;
	int32_t carry[COMPONENTS] = {};
	bool outside = false;
	for (uint32_t first = 0; first < mcus; first += DC_THREADS) {
		uint32_t mcu = first + threadIdx.x;
		int32_t difference[STK_JPEG_MAX_BLOCKS], sum[COMPONENTS] = {};
#pragma unroll
		for (int b = 0; b < STK_JPEG_MAX_BLOCKS; b++)
			if (b < blocks && mcu < mcus) {
				difference[b] = dc[(size_t)mcu * blocks + b];
#pragma unroll
				for (int c = 0; c < COMPONENTS; c++)
					sum[c] += (block_components >> 2 * b & 3) == c ? difference[b] : 0;
			}
		scan(sum, carry, sums);
#pragma unroll
		for (int b = 0; b < STK_JPEG_MAX_BLOCKS; b++)
			if (b < blocks && mcu < mcus) {
				int32_t value = 0;
#pragma unroll
				for (int c = 0; c < COMPONENTS; c++) {
					bool it = (block_components >> 2 * b & 3) == c;
					sum[c] += it ? difference[b] : 0;
					value = it ? sum[c] : value;
				}
				outside |= value != (int16_t)value;
				dc[(size_t)mcu * blocks + b] = (int16_t)value;
			}
	}
	if (outside)
		atomicOr(&v.flags[s.image], STK_JPEG_GPU_DC_RANGE);
}
