/* SPDX-License-Identifier: Apache-2.0
 *
 * The assignment kernel. It is included once for each number of columns that a thread may own, so it has no include guard. The including file defines NAME,
 * KIND, and COLS (0: any number, with the state in memory).
 *
 * Most searches end with their first step, at a free column. That case has only one barrier, and reads costs that were fetched some rows before. */
#if COLS
#define PRICE(k) price[k]
#define CODE(k) code[k]
#define TIE(k) tie[k]
#define PATH(k) path[k]
#define OWNER(k) owner[k]
#define OWNED COLS
#else
#define PRICE(k) price[COLUMN(k)]
#define CODE(k) code[COLUMN(k)]
#define TIE(k) tie[COLUMN(k)]
#define PATH(k) m.path[COLUMN(k)]
#define OWNER(k) m.row_of[COLUMN(k)]
#define OWNED ((s.cols - tid + threads - 1) / threads)
#endif
#define COLUMN(k) (tid + (k)*threads)

STK_KERNEL void __launch_bounds__(1024) NAME(struct stk_assign_launch l)
{
	/* `none` is greater and `bad` less than any real entry */
	const struct found none = {NOTHING, NOTHING, NOTHING, -1}, bad = {0, 0, 0, BAD_COST};
	__shared__ struct found fixed[64 + 64];
	STK_SHARED_ARRAY(double, dynamic);
	int64_t p = blockIdx.x;
	struct problem s = find_problem(&l, p);
	int32_t threads = (int32_t)blockDim.x, tid = (int32_t)threadIdx.x, status = STK_ASSIGN_SOLVED, flip = 0;
#if COLS
	struct shared_state m = carve_shared((uint8_t *)dynamic, (uint8_t *)fixed, l.rows, l.cols);
	double price[COLS];
	uint64_t code[COLS];
	uint32_t tie[COLS];
	int32_t path[COLS], owner[COLS];
#else
	(void)dynamic;
	double *price = (double *)(l.state + p * l.state_bytes);
	uint64_t *code = (uint64_t *)(price + l.cols);
	struct shared_state m = carve_shared((uint8_t *)(code + l.cols), (uint8_t *)fixed, l.rows, l.cols);
	uint32_t *tie = (uint32_t *)(m.path + l.cols);
#endif
	for (int32_t i = tid; i < s.rows; i += threads) {
		m.row_dual[i] = 0;
		m.col_of[i] = -1;
	}
	for (int32_t j = tid; j < s.cols; j += threads)
		m.row_of[j] = -1;
	if (tid == 0)
		m.flags[0] = 0;
	for (int k = 0; k < OWNED; k++) {
		PRICE(k) = 0;
		OWNER(k) = -1;
	}
	if (KIND == COST_F32) {
		for (int32_t i = 0; i < STK_ASSIGN_AHEAD - 1; i++)
			fetch_row(&l, &s, &m, i);
	}
	__syncthreads();

	for (int32_t row = 0; row < s.rows; row++) {
		int32_t left = s.cols, sink = -1, gone = 0;
		double so_far;
		struct found best = none;
		if (KIND == COST_F32) {
			fetch_row(&l, &s, &m, row + STK_ASSIGN_AHEAD - 1);
			fetch_wait();
		}
		for (int k = 0; k < OWNED; k++) {
			int32_t j = COLUMN(k), inside = j < s.cols;
			double c = !inside ? 0 : KIND == COST_F32 && l.ahead ? fetched(&l, &s, &m, row, j) : load_cost(&s, KIND, row, j);
			if (!(c > -INFINITY))
				best = bad;
			TIE(k) = inside ? tie_code(OWNER(k), s.cols - 1 - j) : NOTHING;
			CODE(k) = order_code((c + 0.0) - PRICE(k));
			PATH(k) = row;
			best = lesser(best, CODE(k), TIE(k), j);
		}
		best = block_least(best, m.slots + 32 * flip);
		flip ^= 1;
		for (;;) {
			so_far = order_value(best.high, best.low);
			if (best.col == BAD_COST)
				status = STK_ASSIGN_INVALID;
			else if (best.tie == NOTHING || so_far == INFINITY)
				status = STK_ASSIGN_INFEASIBLE;
			if (status != STK_ASSIGN_SOLVED)
				break;
			sink = best.tie >> 31 ? -1 : best.col;
			if (sink >= 0 && left == s.cols)
				break;
			/* the column leaves the search; SciPy's list moves its last column into the gap */
			int32_t gap = tie_place(best.tie);
			left--;
			for (int k = 0; k < OWNED; k++) {
				if (COLUMN(k) == best.col) {
					TIE(k) = NOTHING;
					gone |= 1 << (k & 31);
					m.path[best.col] = PATH(k);
				} else if (TIE(k) != NOTHING && tie_place(TIE(k)) == left) {
					TIE(k) = tie_code(OWNER(k), gap);
				}
			}
			if (sink >= 0)
				break;
			int32_t i = m.row_of[best.col];
			double dual = m.row_dual[i];
			best = none;
			for (int k = 0; k < OWNED; k++) {
				if (TIE(k) == NOTHING)
					continue;
				uint64_t value = order_code(((so_far + load_cost(&s, KIND, i, COLUMN(k))) - dual) - PRICE(k));
				if (value < CODE(k)) {
					CODE(k) = value;
					PATH(k) = i;
				}
				best = lesser(best, CODE(k), TIE(k), COLUMN(k));
			}
			best = block_least(best, m.slots + 32 * flip);
			flip ^= 1;
		}
		if (status != STK_ASSIGN_SOLVED) {
			if (status == STK_ASSIGN_INFEASIBLE) {
				look_for_bad(&s, KIND, &m, row + 1);
				status = m.flags[0] ? STK_ASSIGN_INVALID : status;
			}
			break;
		}
		/* the path leads straight to a free column, so no price changes; the values written here are read after the next barrier */
		if (left == s.cols) {
			for (int k = 0; k < OWNED; k++) {
				if (COLUMN(k) == sink)
					m.row_of[sink] = OWNER(k) = row;
			}
			if (tid == 0) {
				m.col_of[row] = sink;
				m.row_dual[row] = so_far;
			}
			continue;
		}
		for (int k = 0; k < OWNED; k++) {
			if (TIE(k) != NOTHING || COLUMN(k) >= s.cols)
				continue;
			double saved = so_far - order_value((uint32_t)(CODE(k) >> 32), (uint32_t)CODE(k));
			PRICE(k) -= saved;
			if (COLUMN(k) != sink)
				m.row_dual[OWNER(k)] += saved;
		}
		__syncthreads();
		if (tid == 0) {
			m.row_dual[row] += so_far;
			augment(&m, row, sink);
		}
		__syncthreads();
#if COLS
		for (int k = 0; k < COLS; k++) {
			if (gone >> k & 1)
				owner[k] = m.row_of[COLUMN(k)];
		}
#endif
	}
	__syncthreads();
	give_pairs(&l.a, &s, &m, p, status);
}

#undef PRICE
#undef CODE
#undef TIE
#undef PATH
#undef OWNER
#undef OWNED
#undef COLUMN
#undef NAME
#undef COLS
