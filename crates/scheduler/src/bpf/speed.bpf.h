/* SPDX-License-Identifier: GPL-2.0-only */
/* Finds faster CPUs on machines whose CPUs differ; on others it costs one comparison. */
#ifndef TW_SPEED_BPF_H
#define TW_SPEED_BPF_H

#include "state.bpf.h"

/* The CPUs that are faster than the slowest, the fastest first. */
const volatile u32 nr_faster = 0;
const volatile u16 faster_cpus[TW_MAX_CPUS];

/*
 * A CPU faster than one of capacity `here` to which a task of this class goes, or -1; `taken` says
 * whether it takes it from another. Changes nothing: two tasks may find the same idle CPU, and the
 * one that comes second is enqueued anew (SCX_ENQ_IMMED).
 */
static s32 find_faster(const struct task_struct *p, enum tw_class class, u32 here, bool *taken)
{
	const struct cpumask *idle;
	s32 found = -1;
	u32 i;

	idle = scx_bpf_get_idle_cpumask();
	bpf_for(i, 0, nr_faster < TW_FASTER_SCAN ? nr_faster : TW_FASTER_SCAN) {
		s32 cpu = faster_cpus[i & (TW_MAX_CPUS - 1)];
		struct tw_place there = { .capacity = capacity_of(cpu), .class = TW_CLASS_KERNEL };
		struct task_struct *running;

		if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		there.idle = bpf_cpumask_test_cpu(cpu, idle);
		running = there.idle ? NULL : running_on(cpu);
		if (running)
			there.class = class_of(running);
		if (tw_moves_up(class, here, &there)) {
			*taken = !there.idle;
			found = cpu;
			break;
		}
	}
	scx_bpf_put_idle_cpumask(idle);
	return found;
}

#endif /* TW_SPEED_BPF_H */
