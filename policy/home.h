/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The last-level cache in which a program is at home: its threads share data, and stay behind one cache while
 * they fit there (multicore-scheduling, "group scheduling").
 */
#ifndef TW_HOME_H
#define TW_HOME_H

#include "types.h"

/* Who lost its CPU waits for so long there before it leaves its last-level cache: 0.5 ms, what the kernel's
 * scheduler takes a migration to cost (sysctl_sched_migration_cost, kernel/sched/fair.c). */
#define TW_LEAVES_CACHE_NS (500ULL * 1000)

/*
 * Whether a program with so many ready threads is kept in the last-level cache with so many cores in which it
 * is at home: while they fit. One that has no other thread ready goes wherever there is room.
 */
static inline bool tw_keeps_home(u32 nr_ready, u32 nr_cores)
{
	return nr_ready > 1 && nr_ready <= nr_cores;
}

/* All caches of a program for which it does not matter, and all others of one that fits at home. */
#define TW_SPILL_NONE 63

/* Those of a package, and of the others, that are further are all as far. */
#define TW_SPILL_FAR 31

/*
 * The place of a last-level cache in the order in which a program takes those that have idle CPUs, the least
 * first; caches are numbers plus one, 0: nowhere. At home while all of it fits there, else anywhere. What
 * outgrows its home fills that first and spills into the others always in the same order, so that as few as
 * possible hold what its threads share: those of its package, then all, the next in number as in a tree.
 */
static inline u32 tw_spill(u32 home, u32 llc, bool same_package, u32 nr_ready, u32 nr_cores)
{
	u32 distance;

	if (!home || nr_ready < 2)
		return TW_SPILL_NONE;
	if (llc == home)
		return 0;
	if (tw_keeps_home(nr_ready, nr_cores))
		return TW_SPILL_NONE;
	distance = (llc - 1) ^ (home - 1);
	if (distance > TW_SPILL_FAR)
		distance = TW_SPILL_FAR;
	return same_package ? distance : TW_SPILL_FAR + distance;
}

/* Whether the last-level cache to which a thread goes becomes its program's home, of which so many are ready
 * beside it. */
static inline bool tw_founds_home(u32 nr_others)
{
	return !nr_others;
}

/* A last-level cache: its CPUs, and how many of the tasks that run are at home there, wherever they are. */
struct tw_llc {
	u32 nr_cpus;
	u32 nr_at_home;
};

/* Where a task is and where its program is at home: last-level caches, plus one; 0: nowhere. */
struct tw_stay {
	u32 home;
	u32 here;
};

/* Whether a task counts at its home: not if it is `bound` to one CPU elsewhere, and never comes. */
static inline bool tw_counts_at_home(const struct tw_stay *stay, bool bound)
{
	return stay->home && (stay->home == stay->here || !bound);
}

/*
 * Whether the program of a task, `bound` to one CPU or not, with `nr_ready` threads, is at home where that is
 * from now on: if more count at its home than can be there, and here is room for all of it. So fewer are
 * without room after each move. Two programs come to one home if their first threads began there and the
 * others found it full.
 */
static inline bool tw_moves_home(const struct tw_llc *home, const struct tw_llc *here, u32 nr_ready,
				 bool bound)
{
	return !bound && home->nr_at_home > home->nr_cpus && here->nr_at_home + nr_ready <= here->nr_cpus;
}

/* How many of two tasks of different caches come home if they change places; 0 if that drives one from home.
 */
static inline u32 tw_home_gain(const struct tw_stay *own, const struct tw_stay *other)
{
	if (own->home == own->here || other->home == other->here)
		return 0;
	return (own->home == other->here) + (other->home == own->here);
}

/*
 * Whether a task that has waited for so long goes to an idle CPU behind another last-level cache. One that
 * woke up goes at once. One that lost its CPU waits for that for a moment: mostly a kernel thread took it,
 * and has gone by then, and to fill another cache takes milliseconds.
 */
static inline bool tw_leaves_cache(bool woke, u64 waits_ns)
{
	return woke || waits_ns >= TW_LEAVES_CACHE_NS;
}

#endif /* TW_HOME_H */
