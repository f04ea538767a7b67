/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How many serial tasks are ready, and what they leave of boosts (tw_boost_left()). To count them as they
 * come and go would cost each wake-up, on a cache line for all CPUs. Their time is charged anyway: each CPU
 * sums up what it charges, and while tasks wait the timer reads the sums. The mean is as good: what it is for
 * are tasks that stay.
 */
#ifndef TW_CROWD_BPF_H
#define TW_CROWD_BPF_H

#include "state.bpf.h"

/* How many serial tasks are ready, in 256ths; up to when and up to which sum they were counted. */
u32 nr_serial_ready;
u64 serial_counted_at, serial_counted_ns;

static u64 all_serial_ns(void)
{
	u64 sum_ns = 0;
	u32 i;

	bpf_for(i, 0, nr_cpus) {
		struct cpu_ctx *cctx = cpu_ctx_of(i);

		if (cctx)
			sum_ns += tw_read(&cctx->serial_ns);
	}
	return sum_ns;
}

/* Counts them, unless it did a moment ago. The timer alone does. */
__noinline int count_crowd(u64 now)
{
	u64 in_ns = since_ns(serial_counted_at, now), ready_ns;
	const struct cpumask *online;

	if (in_ns < TW_CROWD_PERIOD_NS || fault == TW_FAULT_AGELESS)
		return 0;
	ready_ns = all_serial_ns();
	nr_serial_ready = tw_serial_ready(nr_serial_ready, ready_ns - serial_counted_ns, in_ns);
	serial_counted_at = now;
	serial_counted_ns = ready_ns;
	online = scx_bpf_get_online_cpumask();
	boost_left = tw_boost_left(nr_serial_ready, bpf_cpumask_weight(online));
	scx_bpf_put_cpumask(online);
	return 0;
}

#endif /* TW_CROWD_BPF_H */
