/* SPDX-License-Identifier: GPL-2.0-only */
/* What all CPUs charged, of which the timer counts crowds (policy/crowd.h). */
#ifndef TW_CROWD_BPF_H
#define TW_CROWD_BPF_H

#include "state.bpf.h"

static void sum_charged(struct tw_charged *all)
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

/* Counts crowds, unless it did a moment ago. The timer alone does. */
__noinline int count_crowd(u64 now)
{
	u32 before = crowd.mean_weight, mean;
	struct tw_charged all = {};
	u64 ran_ns, weighed_ns, in_ns = now - crowd.counted_at;

	if (!tw_crowd_is_due(&crowd, now) || fault == TW_FAULT_AGELESS)
		return 0;
	sum_charged(&all);
	ran_ns = all.beside_ns - crowd.seen.beside_ns;
	weighed_ns = all.weighed_ns - crowd.seen.weighed_ns;
	tw_count_crowd(&crowd, &all, now, nr_online);
	mean = crowd.mean_weight;
	record(TW_DECISION_MEAN_WEIGHT, mean, before, ran_ns, weighed_ns, in_ns);
	record(TW_DECISION_WEIGHT_AMONG, tw_weight_among(1, mean), 1, mean);
	return 0;
}

#endif /* TW_CROWD_BPF_H */
