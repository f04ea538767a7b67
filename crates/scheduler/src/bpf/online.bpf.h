/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The CPUs that are online, as a ring. Looks at CPUs take in so many at a time; where ids of siblings that
 * are switched off lie behind all others (SMT off), every other look would see none that runs anything.
 */
#ifndef TW_ONLINE_BPF_H
#define TW_ONLINE_BPF_H

#include "intf.h"

/* As many ids as CPUs could have, offline ones included. */
const volatile u32 nr_cpus = 1;

/* How many are online; and for each id the next CPU that is, itself if it is the only one. */
u32 nr_online;
u16 next_online[TW_MAX_CPUS];

static s32 next_cpu(s32 cpu)
{
	return next_online[cpu & (TW_MAX_CPUS - 1)];
}

/* The CPU at which a walk is, which goes on to the next. It goes by ids that are online, but for the first.
 */
static s32 walk_online(s32 *at)
{
	s32 cpu = *at;

	*at = next_cpu(cpu);
	return cpu;
}

/* So many CPUs, or all. */
static u32 online_at_most(u32 most)
{
	return nr_online < most ? nr_online : most;
}

/*
 * Makes the ring anew. One CPU that comes or goes (-1: none) counts as if that was over: the kernel's mask
 * still has one that goes. Who looks meanwhile goes on from CPU to CPU by the old or by the new order.
 */
static void link_online(s32 changing, bool comes)
{
	const struct cpumask *online;
	u32 i, nr = 0;
	s32 next = -1;

	if (fault == TW_FAULT_UNLINKED && changing >= 0)
		return;
	online = scx_bpf_get_online_cpumask();
	/* Backwards, and twice around: what follows the last is found in the first round. */
	bpf_for(i, 0, 2 * nr_cpus) {
		s32 cpu = (2 * nr_cpus - 1 - i) % nr_cpus;

		if (i >= nr_cpus && next >= 0)
			next_online[cpu & (TW_MAX_CPUS - 1)] = next;
		if (cpu == changing ? !comes : !bpf_cpumask_test_cpu(cpu, online))
			continue;
		next = cpu;
		nr += i < nr_cpus;
	}
	scx_bpf_put_cpumask(online);
	nr_online = nr;
}

#endif /* TW_ONLINE_BPF_H */
