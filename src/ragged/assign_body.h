/* SPDX-License-Identifier: Apache-2.0
 *
 * The assignment kernel. It is included once for each number of columns that a thread may own, so it has no include guard. The including file defines NAME,
 * KIND, and COLS (0: any number, with the state in memory).
 */
#if COLS
#define PRICE(k) price[k]
#define LENGTH(k) length[k]
#define TIE(k) tie[k]
#define PATH(k) path[k]
#define OWNER(k) owner[k]
#define COST(k) cost[k]
#define OWNED COLS
#else
#define PRICE(k) price[COLUMN(k)]
#define LENGTH(k) length[COLUMN(k)]
#define TIE(k) tie[COLUMN(k)]
#define PATH(k) m.path[COLUMN(k)]
#define OWNER(k) m.row_of[COLUMN(k)]
#define COST(k) load_cost(&s, KIND, row_read, COLUMN(k))
#define OWNED ((s.cols - tid + threads - 1) / threads)
#endif
#define COLUMN(k) (tid + (k)*threads)

STK_KERNEL void __launch_bounds__(1024) NAME(struct stk_assign_launch l)
{
	const struct found none = {NOTHING, NOTHING, NOTHING, -1}; /* is greater than any real entry */
	__shared__ struct found fixed[64 + 64];
	STK_SHARED_ARRAY(double, dynamic);
	int64_t p = blockIdx.x;
	struct problem s = find_problem(&l, p);
	int32_t threads = (int32_t)blockDim.x, tid = (int32_t)threadIdx.x, status = STK_ASSIGN_SOLVED, flip = 0;
#if COLS
	struct shared_state m = carve_shared((uint8_t *)dynamic, (uint8_t *)fixed, &l);
	double price[COLS], length[COLS], cost[COLS];
	uint32_t tie[COLS];
	int32_t path[COLS], owner[COLS];
#else
	(void)dynamic;
	double *price = (double *)(l.state + p * l.state_bytes);
	double *length = price + l.cols;
	struct shared_state m = carve_shared((uint8_t *)(length + l.cols), (uint8_t *)fixed, &l);
	uint32_t *tie = (uint32_t *)(m.at + l.cols);
#endif
	for (int32_t j = tid; j < s.cols; j += threads)
		m.row_of[j] = -1;
	for (int k = 0; k < OWNED; k++)
		PRICE(k) = 0;
	least_of_rows(s, m, KIND, l.kept_rows, l.pitch);
	__syncthreads();

	for (int32_t row = 0;; row++) {
		int32_t left = s.cols, sink = -1;
		double so_far = 0;
		if (tid == 0)
			m.flags[0] = take_free_columns(&m, row, s.rows);
		__syncthreads();
		row = m.flags[0];
		if (row >= s.rows)
			break;
		int32_t row_read = row;
#if COLS
		read_row(&s, &m, KIND, l.kept_rows, l.pitch, row_read, COLS, cost);
		for (int k = 0; k < COLS; k++)
			owner[k] = COLUMN(k) < s.cols ? m.row_of[COLUMN(k)] : -1;
#endif
		for (int k = 0; k < OWNED; k++) {
			int32_t j = COLUMN(k), inside = j < s.cols, place = s.cols - 1 - j;
			TIE(k) = inside ? tie_code(OWNER(k), place) : NOTHING;
			LENGTH(k) = (COST(k) + 0.0) - PRICE(k);
			PATH(k) = row;
			if (inside)
				m.at[place] = j;
		}
		if (m.col_of[row] == BAD_COST)
			status = STK_ASSIGN_INVALID;
		while (status == STK_ASSIGN_SOLVED) {
			/* The high half of the length decides nearly always, so other parts are only compared by the lanes that have the least one. */
			uint32_t high = NOTHING;
			for (int k = 0; k < OWNED; k++) {
				uint32_t h = TIE(k) != NOTHING ? (uint32_t)(order_code(LENGTH(k)) >> 32) : NOTHING;
				high = h < high ? h : high;
			}
			struct found best = none;
			if (high == stk__warp_min(high)) {
				for (int k = 0; k < OWNED; k++)
					best = lesser(best, order_code(LENGTH(k)), TIE(k), COLUMN(k));
			}
			best = block_least(best, m.slots + 32 * flip);
			flip ^= 1;
			so_far = order_value(best.high, best.low);
			if (best.tie == NOTHING || so_far == INFINITY) {
				status = STK_ASSIGN_INFEASIBLE;
				break;
			}
			sink = best.tie >> 31 ? -1 : best.col;
			if (sink >= 0 && left == s.cols)
				break;
			/* the column leaves the search; SciPy's list moves its last column into the gap */
			int32_t gap = tie_place(best.tie), moved = m.at[--left];
			if (tid == 0)
				m.at[gap] = moved;
			for (int k = 0; k < OWNED; k++) {
				if (COLUMN(k) == moved)
					TIE(k) = tie_code(OWNER(k), gap);
				if (COLUMN(k) == best.col) {
					TIE(k) = NOTHING;
					m.path[best.col] = PATH(k);
				}
			}
			if (sink >= 0)
				break;
			row_read = m.row_of[best.col];
			double dual = m.row_dual[row_read];
#if COLS
			read_row(&s, &m, KIND, l.kept_rows, l.pitch, row_read, COLS, cost);
#endif
			for (int k = 0; k < OWNED; k++) {
				double value = ((so_far + COST(k)) - dual) - PRICE(k);
				int32_t nearer = TIE(k) != NOTHING && value < LENGTH(k);
				LENGTH(k) = nearer ? value : LENGTH(k);
				PATH(k) = nearer ? row_read : PATH(k);
			}
		}
		if (status != STK_ASSIGN_SOLVED) {
			if (status == STK_ASSIGN_INFEASIBLE && has_bad_row(&m, row + 1, s.rows))
				status = STK_ASSIGN_INVALID;
			break;
		}
		/* Only thread 0 writes and then reads the owners until the barrier after take_free_columns. */
		if (left == s.cols) { /* the path leads straight to a free column, so no price changes */
			if (tid == 0) {
				m.row_of[sink] = row;
				m.col_of[row] = sink;
				m.row_dual[row] = so_far;
			}
			continue;
		}
		for (int k = 0; k < OWNED; k++) {
			if (TIE(k) != NOTHING || COLUMN(k) >= s.cols)
				continue;
			double saved = so_far - LENGTH(k);
			PRICE(k) -= saved;
			if (COLUMN(k) != sink)
				m.row_dual[OWNER(k)] += saved;
		}
		__syncthreads();
		if (tid == 0) {
			m.row_dual[row] = so_far;
			augment(&m, row, sink);
		}
	}
	__syncthreads();
	give_pairs(&l.a, &s, &m, p, status);
}

#undef PRICE
#undef LENGTH
#undef TIE
#undef PATH
#undef OWNER
#undef COST
#undef OWNED
#undef COLUMN
#undef NAME
#undef COLS
