/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What does a task weigh among those that run? By its weight vtime goes faster or slower than the work that
 * it does, while boosts, steps and spans are distances in vtime, meant for tasks of nice 0. Among such of
 * nice 19 a boost of 100 ms is over in one, and a step in ten microseconds. So where those that run weigh
 * less than half of nice 0 on the mean, each weighs so much more that the mean is half of it. Where they
 * weigh more, distances last for longer, and those that must not are scaled themselves (tw_scale_beyond()).
 */
#ifndef TW_WEIGHT_H
#define TW_WEIGHT_H

#include "boost.h"

/* What tasks weigh at least on the mean, in 65536ths: half of nice 0. */
#define TW_MEAN_WEIGHT_LEAST ((u32)TW_WEIGHT_ONE << 15)

/* Lighter tasks, those of nice 7 and more, are light beside nice 0. */
#define TW_WEIGHT_LIGHT (TW_WEIGHT_ONE / 4)

/* What counts of a task of this weight that ran for so long: its weight, but nice 0 at most, because all that
 * matters is whether the mean is less. A kernel thread of nice -20 that runs for a thousandth would make all
 * others light. */
static inline u64 tw_weighed_ns(u32 weight, u64 ran_ns)
{
	return ran_ns * tw_least(weight, TW_WEIGHT_ONE);
}

/*
 * The mean weight of those that run, in 65536ths, so much before: in the last in_ns they ran for so long in
 * sum, on all CPUs, and weighed so much (tw_weighed_ns()). It is counted like serial tasks
 * (tw_serial_ready()), a quarter of it new: so some 0.2 s after the last of nice 0 those of nice 19 are light
 * no more.
 */
static inline u32 tw_mean_weight(u32 before, u64 ran_ns, u64 weighed_ns, u64 in_ns)
{
	u64 now;

	if (!ran_ns)
		return before;
	/* Or what is shifted below would not fit: 18 minutes of CPUs' work. */
	if (ran_ns >> 40) {
		ran_ns >>= 20;
		weighed_ns >>= 20;
	}
	now = tw_least((weighed_ns << 16) / ran_ns, (u64)TW_WEIGHT_ONE << 16);
	return (u32)(in_ns > TW_CROWD_RECENTLY_NS ? now : (3 * (u64)before + now) / 4);
}

/* Whether a task that weighs so much among those that run (tw_weight_among()) is light beside them. */
static inline bool tw_is_light(u32 weight)
{
	return weight < TW_WEIGHT_LIGHT;
}

/* What a task of this weight weighs among such that weigh so much on the mean, in 65536ths: 1 to 10000. */
static inline u32 tw_weight_among(u32 weight, u32 mean)
{
	if (mean >= TW_MEAN_WEIGHT_LEAST || !mean)
		return weight;
	return (u32)tw_least(((u64)weight * TW_MEAN_WEIGHT_LEAST + mean / 2) / mean, TW_WEIGHT_MAX);
}

#endif /* TW_WEIGHT_H */
