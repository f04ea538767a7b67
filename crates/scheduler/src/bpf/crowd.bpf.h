/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How many serial tasks are ready, and what they leave of boosts (tw_boost_left()); and what those weigh that
 * run beside others (policy/weight.h). To count them as they come and go would cost each wake-up, on a cache
 * line for all CPUs. Their time is charged anyway: each CPU sums up what it charges, and while tasks wait the
 * timer reads the sums. The mean is as good: what it is for are tasks that stay.
 */
#ifndef TW_CROWD_BPF_H
#define TW_CROWD_BPF_H

#include "state.bpf.h"

/* How many serial tasks are ready, in 256ths; up to when and up to which sum they were counted. */
u32 nr_serial_ready;
u64 serial_counted_at, serial_counted_ns;

/* Up to which sums what runs was weighed. */
u64 beside_counted_ns, weighed_counted_ns;

/* What all CPUs charged. */
struct charged {
	u64 serial_ns;
	u64 beside_ns;
	u64 weighed_ns;
};

static void sum_charged(struct charged *all)
{
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		struct cpu_ctx *cctx = cpu_ctx_of(i);

		if (!cctx)
			continue;
		all->serial_ns += tw_read(&cctx->serial_ns);
		all->beside_ns += tw_read(&cctx->beside_ns);
		all->weighed_ns += tw_read(&cctx->weighed_ns);
	}
}

static void weigh(const struct charged *all, u64 in_ns)
{
	u64 ran_ns = all->beside_ns - beside_counted_ns, weighed_ns = all->weighed_ns - weighed_counted_ns;
	u32 before = mean_weight, mean = tw_mean_weight(before, ran_ns, weighed_ns, in_ns);

	record(TW_DECISION_MEAN_WEIGHT, mean, before, ran_ns, weighed_ns, in_ns);
	record(TW_DECISION_WEIGHT_AMONG, tw_weight_among(1, mean), 1, mean);
	mean_weight = mean;
	beside_counted_ns = all->beside_ns;
	weighed_counted_ns = all->weighed_ns;
}

/* Counts them, unless it did a moment ago. The timer alone does. */
__noinline int count_crowd(u64 now)
{
	u64 in_ns = since_ns(serial_counted_at, now);
	const struct cpumask *online;
	struct charged all = {};

	if (in_ns < TW_CROWD_PERIOD_NS || fault == TW_FAULT_AGELESS)
		return 0;
	sum_charged(&all);
	weigh(&all, in_ns);
	nr_serial_ready = tw_serial_ready(nr_serial_ready, all.serial_ns - serial_counted_ns, in_ns);
	serial_counted_at = now;
	serial_counted_ns = all.serial_ns;
	online = scx_bpf_get_online_cpumask();
	boost_left = tw_boost_left(nr_serial_ready, bpf_cpumask_weight(online));
	scx_bpf_put_cpumask(online);
	return 0;
}

#endif /* TW_CROWD_BPF_H */
