/* SPDX-License-Identifier: Apache-2.0
 * Declarations that the files of the ring share. Call these functions without the ring's lock unless a comment says otherwise. */
#ifndef STK_TENSOR_SLOT_IMPL_H
#define STK_TENSOR_SLOT_IMPL_H

#include "tensor/slot.h"

/* slot.c */
struct stk_slot *stk__slot_make(struct stk_ring *ring); /* returns a slot without blocks and face; NULL: memory is short */
void stk__slot_destroy(struct stk_slot *slot);
/* Gives the slot the parts that it lacks, and memory for the expected samples. Returns false if memory is short; the caller holds all parts even then. */
bool stk__slot_lay_out(struct stk_slot *slot);
void stk__face_free(struct stk_face *face);

/* ring.c */
void stk__blocks_free(struct stk_ring *r, struct stk_block *list); /* frees a list of spare blocks */
/* Moves the spare blocks of a value to the front of *list. Call with the ring's lock held. */
void stk__take_spare_blocks(struct stk_ring *ring, int32_t value, struct stk_block **list);

#endif
