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

#include "task.h"

/* What tasks weigh at least on the mean, in 65536ths: half of nice 0. */
#define TW_MEAN_WEIGHT_LEAST ((u32)TW_WEIGHT_ONE << 15)

/* Lighter tasks, those of nice 7 and more, are light beside nice 0. */
#define TW_WEIGHT_LIGHT (TW_WEIGHT_ONE / 4)

/* The mean is over so much work of each CPU: 64 ms. In the short turn that is due to a light program it
 * hardly changes; 0.3 s after the last of nice 0 those of nice 19 are light no more. */
#define TW_MEAN_WEIGHT_NS (64ULL * 1000 * 1000)

/* The mean weight of those that run, in 65536ths, after one of this weight, 1 to 10000, ran for so long on
 * one of so many CPUs. */
static inline u32 tw_mean_weight(u32 mean, u32 weight, u64 ran_ns, u32 nr_cpus)
{
	u64 all_ns = TW_MEAN_WEIGHT_NS * (nr_cpus ? nr_cpus : 1);
	/* A second at most, or the products below would not fit. */
	u64 part_ns = tw_least(tw_least(ran_ns, 1ULL << 30), all_ns);
	u32 own = weight << 16;

	/* Mostly, and without a division. */
	if (own == mean)
		return mean;
	return own > mean ? mean + (u32)((own - mean) * part_ns / all_ns) :
			    mean - (u32)((mean - own) * part_ns / all_ns);
}

/* What a task of this weight weighs among such that weigh so much on the mean, in 65536ths: 1 to 10000. */
static inline u32 tw_weight_among(u32 weight, u32 mean)
{
	if (mean >= TW_MEAN_WEIGHT_LEAST || !mean)
		return weight;
	return (u32)tw_least(((u64)weight * TW_MEAN_WEIGHT_LEAST + mean / 2) / mean, TW_WEIGHT_MAX);
}

#endif /* TW_WEIGHT_H */
