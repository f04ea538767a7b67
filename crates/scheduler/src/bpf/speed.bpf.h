/* SPDX-License-Identifier: GPL-2.0-only */
/* Finds faster CPUs on machines whose CPUs differ; on others it costs one comparison. */
#ifndef TW_SPEED_BPF_H
#define TW_SPEED_BPF_H

#include "state.bpf.h"

/*
 * A CPU faster than one of capacity `here` to which a task of this class goes, or -1. An idle one is
 * claimed, so that of all the CPUs whose ticks come at once only one sends its task there.
 */
static s32 find_faster(const struct task_struct *p, enum tw_class class, u32 here, bool *taken)
{
	u32 i;

	bpf_for(i, 0, nr_faster < TW_FASTER_SCAN ? nr_faster : TW_FASTER_SCAN) {
		s32 cpu = faster_cpus[i & (TW_MAX_CPUS - 1)];
		struct tw_place there = { .capacity = capacity_of(cpu), .class = TW_CLASS_KERNEL };
		struct task_struct *running;

		if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		there.idle = true;
		if (tw_moves_up(class, here, &there) && scx_bpf_test_and_clear_cpu_idle(cpu)) {
			*taken = false;
			return cpu;
		}
		there.idle = false;
		running = running_on(cpu);
		if (running)
			there.class = class_of(running);
		if (tw_moves_up(class, here, &there)) {
			*taken = true;
			return cpu;
		}
	}
	return -1;
}

#endif /* TW_SPEED_BPF_H */
