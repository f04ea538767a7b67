/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which tasks of different last-level caches change places, and how often, as two caches are cold each time:
 * those that come home (home.h), or that even out what is needed of the caches (pairing.h).
 */
#ifndef TW_EXCHANGE_H
#define TW_EXCHANGE_H

#include "home.h"
#include "pairing.h"
#include "smt.h"
#include "spread.h"

/* Whether tasks are spread over caches in this mode: who fills a package does not. */
static inline bool tw_spreads(enum tw_mode mode)
{
	return mode == TW_MODE_PERFORMANCE;
}

/*
 * Whether tasks are paired by what they need of caches (pairing.h), in this mode, on a machine of so many
 * last-level caches and CPUs. Where some CPUs are faster, tasks are exchanged for their sake alone.
 */
static inline bool tw_pairs(enum tw_mode mode, u32 nr_llcs, bool unequal, u32 nr_cpus)
{
	return tw_spreads(mode) && nr_llcs > 1 && !unequal && nr_cpus <= TW_IDLE_SCAN;
}

/* How often the task of a CPU is looked at for an exchange. */
#define TW_EXCHANGE_EVERY_NS (32ULL * 1000 * 1000)

/* No two exchanges or moves of a home follow each other sooner on a machine: the second would go by sums that
 * the first changes. */
#define TW_EXCHANGE_GAP_NS (10ULL * 1000 * 1000)

/*
 * Whether a CPU that keeps its task looks for an exchange, on a machine of so many CPUs: its last look and
 * the machine's last exchange are so long ago. Not while others wait: who runs is another one soon, and that
 * changes the sums. Nor with more CPUs than a look takes in, when sums and candidates would be those of
 * different CPUs.
 */
static inline bool tw_looks_for_exchange(u32 nr_cpus, bool others_wait, u64 looked_ago_ns,
					 u64 exchanged_ago_ns)
{
	return nr_cpus <= TW_IDLE_SCAN && !others_wait && looked_ago_ns >= TW_EXCHANGE_EVERY_NS &&
	       exchanged_ago_ns >= TW_EXCHANGE_GAP_NS;
}

/* How long a task rests that changed places once, in so long without an exchange. */
#define TW_EXCHANGE_REST_NS (64ULL * 1000 * 1000)

/* Each further exchange doubles that, up to so many times: 16 s. */
#define TW_EXCHANGE_DOUBLINGS 8

/* A while without an exchange, after which a rest is half as long again: the longest one. */
#define TW_EXCHANGE_QUIET_NS (TW_EXCHANGE_REST_NS << TW_EXCHANGE_DOUBLINGS)

/* When a task changed places last, and how often of late. All zero: never. */
struct tw_rest {
	u64 since_ns;
	u32 nr;
};

/*
 * Whether a task may change places again. Misses depend on the neighbour: of three tasks that need a cache
 * each, on two caches, the one that is alone seems to need nothing, and counters ask for an exchange after
 * each one. So who keeps changing places rests twice as long after each: in a while T that is log2(T)
 * exchanges, and with an exchange for each TW_EXCHANGE_QUIET_NS no more than TW_EXCHANGE_DOUBLINGS + 1 more,
 * whatever counters say.
 */
static inline bool tw_may_change(const struct tw_rest *rest, u64 now_ns)
{
	/* Another CPU's clock may be behind. */
	return !rest->nr || (s64)(now_ns - rest->since_ns) >= (s64)(TW_EXCHANGE_REST_NS << (rest->nr - 1));
}

/* A task changes places. */
static inline void tw_note_change(struct tw_rest *rest, u64 now_ns)
{
	s64 age_ns = (s64)(now_ns - rest->since_ns);
	u64 nr_quiet = age_ns > 0 ? (u64)age_ns / TW_EXCHANGE_QUIET_NS : 0;
	u32 nr = rest->nr - (u32)tw_least(nr_quiet, rest->nr);

	rest->nr = (u32)tw_least(nr + 1, TW_EXCHANGE_DOUBLINGS + 1);
	rest->since_ns = now_ns;
}

/* Whether a task may have anything of an exchange: one that is away from home, or has none and needs a cache.
 */
static inline bool tw_may_gain(const struct tw_stay *stay, u32 need)
{
	return stay->home ? stay->home != stay->here : need;
}

/* What two tasks gain that change places: tasks that come home, if one is away; else by pairing, where none
 * has a home. */
static inline u64 tw_exchange_gain(const struct tw_stay *own, const struct tw_stay *other,
				   const struct tw_pair *pair)
{
	if (own->home)
		return tw_home_gain(own, other);
	return other->home ? 0 : tw_pairing_gain(pair);
}

#endif /* TW_EXCHANGE_H */
