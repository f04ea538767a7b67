/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which idle CPU does a task get whose core may have other hardware threads? ht-scheduling: whole cores
 * come before siblings, and a task that runs again goes back to the core that it left, whose caches are warm,
 * while that costs nobody a core.
 */
#ifndef TW_SMT_H
#define TW_SMT_H

#include "order.h"

/* Idle CPUs that one wake-up looks at, at most, where the kernel does not know which share a core. */
#define TW_IDLE_SCAN 64

/* A CPU on which nothing runs, as a task sees it. */
struct tw_seat {
	/* Another hardware thread of its core runs. */
	bool shared;
	/* The task ran there last. */
	bool same_cpu;
	/* The task ran on its core last. */
	bool same_core;
	/* It is the one hardware thread by which its core is claimed, if that is idle. */
	bool first;
};

/* No seat is better; none at all. */
#define TW_SEAT_BEST 0
#define TW_SEAT_NONE (~0U)

/*
 * In which order a task takes idle CPUs, the least first; with `whole` it takes none whose core is shared. Of
 * an idle core that it did not leave it takes the first hardware thread only: two tasks that look at the same
 * time then want the same one, and not two of one core.
 */
static inline u32 tw_seat_rank(const struct tw_seat *seat, bool whole)
{
	u32 distance = seat->same_cpu ? 0 : seat->same_core ? 1 : 2;

	if (seat->shared)
		return whole ? TW_SEAT_NONE : 3 + distance;
	return seat->same_core || seat->first ? distance : TW_SEAT_NONE;
}

/* Whether a task of this class leaves a core that it shares for one that is idle. */
static inline bool tw_leaves_core(enum tw_class class, bool shared)
{
	return shared && class != TW_CLASS_KERNEL;
}

#endif /* TW_SMT_H */
