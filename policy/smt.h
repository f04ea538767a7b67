/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which idle CPU does a task get whose core may have other hardware threads? ht-scheduling: whole cores
 * come before siblings, and a task that runs again goes back to the core that it left, whose caches are warm,
 * while that costs nobody a core.
 */
#ifndef TW_SMT_H
#define TW_SMT_H

#include "types.h"

/* Idle CPUs that one wake-up looks at, at most, where the kernel does not know which share a core. */
#define TW_IDLE_SCAN 64

/*
 * What a hardware thread has of its core beside others that run: two together are about 1.24 times as fast
 * as one (smt_gain_percent in crates/machine).
 */
#define TW_SHARED_PERCENT 62

/* A CPU on which nothing runs, as a task sees it. */
struct tw_seat {
	/* Another hardware thread of its core runs. */
	bool shared;
	/* The task ran there last. */
	bool same_cpu;
	/* The task ran on its core last. */
	bool same_core;
};

/* In which order a task takes idle CPUs, the least first. */
static inline u32 tw_seat_rank(const struct tw_seat *seat)
{
	u32 distance = seat->same_cpu ? 0 : seat->same_core ? 1 : 2;

	return seat->shared ? 3 + distance : distance;
}

/* No seat is better. */
#define TW_SEAT_BEST 0

/* The capacity of a CPU whose core another hardware thread uses, or not. */
static inline u32 tw_capacity_beside(u32 capacity, bool shared)
{
	return shared ? capacity * TW_SHARED_PERCENT / 100 : capacity;
}

#endif /* TW_SMT_H */
