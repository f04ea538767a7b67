/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How many serial tasks are ready, and what do those weigh that run? To count them as they come and go would
 * cost each wake-up, on a cache line for all CPUs. Their time is charged anyway: each CPU sums up what it
 * charges, and while tasks wait the timer looks at the sums. The mean is as good: what it is for are tasks
 * that stay.
 */
#ifndef TW_CROWD_H
#define TW_CROWD_H

#include "weight.h"

/* What all CPUs charged. */
struct tw_charged {
	/* For how long serial tasks were ready (tw_serial_ready_ns()). */
	u64 serial_ns;
	/* For how long those ran that were beside others, and what they weighed (tw_weighed_ns()). */
	u64 beside_ns;
	u64 weighed_ns;
};

/* What it was counted to come to. */
struct tw_crowd {
	/* Up to which sums it is counted, and up to when; 0: never. */
	struct tw_charged seen;
	u64 counted_at;
	/* How many serial tasks are ready, in 256ths (tw_serial_ready()). */
	u32 nr_serial_ready;
	/* What they leave of boosts (tw_boost_left()). */
	u32 boost_left;
	/* What tasks that run beside others weigh, in 65536ths (tw_mean_weight()). */
	u32 mean_weight;
	u32 unused;
};

/* As long as nothing is counted. */
#define TW_CROWD_NOBODY { .boost_left = TW_BOOST_WHOLE, .mean_weight = TW_WEIGHT_ONE << 16 }

/* Whether it was not counted for so long that it is now. */
static inline bool tw_crowd_is_due(const struct tw_crowd *crowd, u64 now_ns)
{
	/* Another CPU's clock may be behind. */
	return (s64)(now_ns - crowd->counted_at) >= (s64)TW_CROWD_PERIOD_NS;
}

/* Counts it where it is due: so many CPUs are online. */
static inline void tw_count_crowd(struct tw_crowd *crowd, const struct tw_charged *sums, u64 now_ns,
				  u32 nr_cpus)
{
	u64 in_ns = now_ns - crowd->counted_at;

	crowd->mean_weight = tw_mean_weight(crowd->mean_weight, sums->beside_ns - crowd->seen.beside_ns,
					    sums->weighed_ns - crowd->seen.weighed_ns, in_ns);
	crowd->nr_serial_ready =
		tw_serial_ready(crowd->nr_serial_ready, sums->serial_ns - crowd->seen.serial_ns, in_ns);
	crowd->boost_left = tw_boost_left(crowd->nr_serial_ready, nr_cpus);
	crowd->seen = *sums;
	crowd->counted_at = now_ns;
}

#endif /* TW_CROWD_H */
