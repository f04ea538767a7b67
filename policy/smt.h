/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which idle CPU does a task get whose core may have other hardware threads? ht-scheduling: whole cores
 * come before siblings, and a task that runs again goes back to the core that it left, whose caches are warm,
 * while that costs nobody a core.
 */
#ifndef TW_SMT_H
#define TW_SMT_H

#include "task.h"

/* CPUs at which one wake-up looks for an idle core itself, at most. */
#define TW_IDLE_SCAN 64

/* A CPU on which nothing runs, as a task sees it. */
struct tw_seat {
	/* Another hardware thread of its core runs. */
	bool shared;
	/* What that runs is serial. */
	bool beside_serial;
	/* The task ran there last. */
	bool same_cpu;
	/* The task ran on its core last. */
	bool same_core;
	/* It is the one hardware thread by which its core is claimed, if that is idle. */
	bool first;
};

/* Ranks of seats: the best, the first of those on shared cores, the first of those beside a serial task, and
 * none. */
#define TW_SEAT_BEST	      0
#define TW_SEAT_SHARED	      3
#define TW_SEAT_BESIDE_SERIAL 6
#define TW_SEAT_NONE	      (~0U)

/*
 * In which order a task takes idle CPUs, the least first. Of an idle core that it did not leave it takes the
 * first hardware thread only: two tasks that look at the same time then want the same one, and not two of one
 * core. A serial task, for which its program waits, keeps its core for itself while others can go elsewhere.
 */
static inline u32 tw_seat_rank(const struct tw_seat *seat)
{
	u32 distance = seat->same_cpu ? 0 : seat->same_core ? 1 : 2;

	if (seat->shared)
		return (seat->beside_serial ? TW_SEAT_BESIDE_SERIAL : TW_SEAT_SHARED) + distance;
	return seat->same_core || seat->first ? distance : TW_SEAT_NONE;
}

/*
 * A task leaves its CPU for an idle one of less rank than this, TW_SEAT_BEST for none: a core that it shares
 * for one that is idle, and the core of a serial task for another that is shared.
 */
static inline u32 tw_leaves_seat_for(enum tw_class class, bool shared, bool beside_serial)
{
	if (!shared || class == TW_CLASS_KERNEL)
		return TW_SEAT_BEST;
	return beside_serial && class != TW_CLASS_SERIAL ? TW_SEAT_BESIDE_SERIAL : TW_SEAT_SHARED;
}

/*
 * The kernel's set of idle cores is changed by all CPUs at once and without a lock (update_builtin_idle(),
 * kernel/sched/ext_idle.c), and now and then lacks one after CPUs of several cores went idle at the same
 * moment, as at the end of a parallel phase. So who would share a core although the kernel knows of no idle
 * one looks for itself, but after a look in vain not again for so long.
 */
#define TW_CORE_LOOK_NS (1000 * 1000ULL)

/* Whether a task looks for a seat of less rank than this (tw_leaves_seat_for()), the last look in vain at all
 * cores being that of in_vain_at_ns. */
static inline bool tw_looks_for_seat(u32 limit, u64 now_ns, u64 in_vain_at_ns)
{
	if (limit == TW_SEAT_SHARED)
		return now_ns - in_vain_at_ns >= TW_CORE_LOOK_NS;
	return limit != TW_SEAT_BEST;
}

#endif /* TW_SMT_H */
