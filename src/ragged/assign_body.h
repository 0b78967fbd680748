/* SPDX-License-Identifier: Apache-2.0
 * The assignment kernel, included once for each number of columns a thread owns. NAME, COLS (0: any, with its state in memory), KIND. No guard. */
#if COLS
#define PRICE(k) price[k]
#define PATH_COST(k) path_cost[k]
#define PLACE(k) place[k]
#define OWNER(k) owner[k]
#define OWNED COLS
#else
#define PRICE(k) price[(int32_t)threadIdx.x + (k) * threads]
#define PATH_COST(k) path_cost[(int32_t)threadIdx.x + (k) * threads]
#define PLACE(k) place[(int32_t)threadIdx.x + (k) * threads]
#define OWNER(k) m.row_of[(int32_t)threadIdx.x + (k) * threads]
#define OWNED ((s.cols - (int32_t)threadIdx.x + threads - 1) / threads)
#endif

STK_KERNEL void __launch_bounds__(1024) NAME(struct stk_assign_launch l)
{
	__shared__ struct found fixed[64 + 64];
	STK_SHARED_ARRAY(double, dynamic);
	int64_t p = blockIdx.x;
	struct problem s = find_problem(&l, p);
	int32_t threads = (int32_t)blockDim.x, tid = (int32_t)threadIdx.x, status = STK_ASSIGN_SOLVED, flip = 0;
#if COLS
	struct shared_state m = carve_shared((uint8_t *)dynamic, (uint8_t *)fixed, l.rows, l.cols);
	double price[COLS], path_cost[COLS], ahead[COLS];
	int32_t place[COLS], owner[COLS];
#else
	(void)dynamic;
	double *price = (double *)(l.state + p * l.state_bytes), *path_cost = price + l.cols;
	struct shared_state m = carve_shared((uint8_t *)(path_cost + l.cols), (uint8_t *)fixed, l.rows, l.cols);
	int32_t *place = m.path + l.cols;
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
#if COLS
		int32_t j = tid + k * threads;
		ahead[k] = s.rows && j < s.cols ? load_cost(&s, KIND, 0, j) : 0;
#endif
	}
	__syncthreads();

	for (int32_t row = 0; row < s.rows && status == STK_ASSIGN_SOLVED; row++) {
		int32_t left = s.cols, i = row, sink = -1;
		double so_far = 0;
		for (int k = 0; k < OWNED; k++) {
			int32_t j = tid + k * threads;
			PATH_COST(k) = INFINITY;
			PLACE(k) = j < s.cols ? s.cols - 1 - j : -1;
#if COLS
			OWNER(k) = j < s.cols ? m.row_of[j] : -1;
#endif
		}
		while (sink < 0) {
			struct found best = {NOTHING, NOTHING, NOTHING, -1};
			double least = INFINITY, dual = m.row_dual[i];
			for (int k = 0; k < OWNED; k++) {
				if (PLACE(k) < 0)
					continue;
				int32_t j = tid + k * threads;
#if COLS
				double c = left == s.cols ? ahead[k] : load_cost(&s, KIND, i, j);
#else
				double c = load_cost(&s, KIND, i, j);
#endif
				if (left == s.cols && !(c > -INFINITY))
					m.flags[0] = 1;
				double value = ((so_far + c) - dual) - PRICE(k);
				if (value < PATH_COST(k)) {
					PATH_COST(k) = value;
					m.path[j] = i;
				}
				uint32_t tie = tie_code(OWNER(k), PLACE(k));
				if (PATH_COST(k) < least || (PATH_COST(k) == least && tie < best.tie)) {
					least = PATH_COST(k);
					best.tie = tie;
					best.col = j;
				}
			}
			uint64_t code = order_code(least);
			best.high = (uint32_t)(code >> 32);
			best.low = (uint32_t)code;
			best = block_least(best, m.slots + 32 * flip);
			flip ^= 1;
			if (threads == 32)
				__syncthreads(); /* one warp: no barrier in block_least */
			if (m.flags[0]) {
				status = STK_ASSIGN_INVALID;
				break;
			}
			so_far = order_value(best.high, best.low);
			if (best.tie == NOTHING || so_far == INFINITY) {
				status = STK_ASSIGN_INFEASIBLE;
				break;
			}
			/* SciPy's list loses a column by moving its last one into the gap */
			int32_t gap = tie_place(best.tie);
			left--;
			for (int k = 0; k < OWNED; k++) {
				if (PLACE(k) == left && tid + k * threads != best.col)
					PLACE(k) = gap;
				if (tid + k * threads == best.col)
					PLACE(k) = -2;
			}
			if (best.tie >> 31)
				i = m.row_of[best.col];
			else /* free: and no more looked up, since augment() may be writing it already */
				sink = best.col;
		}
		if (status != STK_ASSIGN_SOLVED) {
			if (status == STK_ASSIGN_INFEASIBLE) {
				__syncthreads(); /* all have read the flag that this may set */
				look_for_bad(&s, KIND, &m, row + 1);
				status = m.flags[0] ? STK_ASSIGN_INVALID : status;
			}
			break;
		}
		for (int k = 0; k < OWNED; k++) {
			int32_t j = tid + k * threads;
#if COLS
			if (row + 1 < s.rows && j < s.cols)
				ahead[k] = load_cost(&s, KIND, row + 1, j);
#endif
			if (PLACE(k) != -2)
				continue;
			double saved = so_far - PATH_COST(k);
			PRICE(k) -= saved;
			if (j != sink)
				m.row_dual[OWNER(k)] += saved;
		}
#if !COLS
		__syncthreads(); /* owners are read above from the memory that augment() writes */
#endif
		if (tid == 0) {
			m.row_dual[row] += so_far;
			augment(&m, row, sink);
		}
		__syncthreads();
	}
	__syncthreads();
	give_pairs(&l.a, &s, &m, p, status);
}

#undef PRICE
#undef PATH_COST
#undef PLACE
#undef OWNER
#undef OWNED
#undef NAME
#undef COLS
