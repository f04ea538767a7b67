/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which phase is a thread group in? thread-essence, section VII: the scheduler counts the ready
 * (runnable or running) threads of each thread group, in O(1) whenever a thread changes its ready
 * state; a group with more than serial_threshold of them is parallel, else serial.
 */
#ifndef TW_PHASE_H
#define TW_PHASE_H

#include "types.h"
#include "atomic.h"

/* One per thread group. All zero: nothing is ready. */
struct tw_group {
	u64 nr_ready;
};

enum tw_phase {
	TW_SERIAL = 0,
	TW_PARALLEL = 1,
};

/* A thread became runnable. Returns how many are ready after it. */
static inline u64 tw_ready_add(struct tw_group *group)
{
	return tw_fetch_add(&group->nr_ready, 1) + 1;
}

/* A thread is no longer runnable. Returns how many are ready after it. */
static inline u64 tw_ready_sub(struct tw_group *group)
{
	return tw_fetch_add(&group->nr_ready, -1) - 1;
}

static inline enum tw_phase tw_phase_of(u64 nr_ready, u32 serial_threshold)
{
	return nr_ready > serial_threshold ? TW_PARALLEL : TW_SERIAL;
}

#endif /* TW_PHASE_H */
