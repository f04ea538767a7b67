/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which phase is a thread group in? thread-essence, section VII: the scheduler counts the ready
 * (runnable or running) threads of each thread group, in O(1) whenever a thread changes its ready
 * state; a group with more than serial_threshold of them is parallel, else serial.
 *
 * The count shares one 64-bit word with the sum of the ready threads' ids, so that one atomic
 * addition keeps both and a reader always sees a count and a sum of the same instant. The sum
 * names the last ready thread of a group: when the count is one, the sum is that thread's id.
 *
 * Bounds: a thread id is below 2^22 (PID_MAX_LIMIT, include/linux/threads.h), so the sum of up to
 * 2^18 ready threads fits the low 40 bits and the count has 24.
 */
#ifndef TW_PHASE_H
#define TW_PHASE_H

#include "types.h"
#include "atomic.h"

#define TW_READY_SHIFT	40
#define TW_READY_ONE	(1ULL << TW_READY_SHIFT)
#define TW_TID_SUM_MASK (TW_READY_ONE - 1)

/* One per thread group. All zero: nothing is ready. */
struct tw_group {
	u64 ready;
};

enum tw_phase {
	TW_SERIAL = 0,
	TW_PARALLEL = 1,
};

/* The number of ready threads that a ready word holds. */
static inline u32 tw_nr_ready(u64 ready)
{
	return ready >> TW_READY_SHIFT;
}

/* A thread became runnable. Returns the word after it. */
static inline u64 tw_ready_add(struct tw_group *group, u32 tid)
{
	u64 delta = TW_READY_ONE + tid;

	return tw_fetch_add(&group->ready, delta) + delta;
}

/* A thread is no longer runnable. Returns the word after it. */
static inline u64 tw_ready_sub(struct tw_group *group, u32 tid)
{
	u64 delta = TW_READY_ONE + tid;

	return tw_fetch_add(&group->ready, -delta) - delta;
}

/* The id of the only ready thread, or 0 when none or several are ready. */
static inline u32 tw_last_ready(u64 ready)
{
	return tw_nr_ready(ready) == 1 ? (u32)(ready & TW_TID_SUM_MASK) : 0;
}

static inline enum tw_phase tw_phase_of(u64 ready, u32 serial_threshold)
{
	return tw_nr_ready(ready) > serial_threshold ? TW_PARALLEL : TW_SERIAL;
}

#endif /* TW_PHASE_H */
