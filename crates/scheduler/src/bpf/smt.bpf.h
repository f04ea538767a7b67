/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whole cores for tasks on machines whose hardware threads share cores. Where the kernel knows which do, its
 * own search finds them; where it does not (virtual machines that hide it), this does.
 */
#ifndef TW_SMT_BPF_H
#define TW_SMT_BPF_H

#include "state.bpf.h"

/* Hardware threads of a core that are looked at, at most. */
#define TW_SIBLINGS 8

/* Whether CPUs share cores, and the kernel takes them for cores of their own. */
const volatile bool hidden_smt = false;
/* For each CPU the next one of its core, itself if there is no other. */
const volatile u16 siblings[TW_MAX_CPUS];
/* For each CPU the first of its core, which stands for a core that is idle. */
const volatile u16 core_first[TW_MAX_CPUS];

static s32 first_of_core(s32 cpu)
{
	return core_first[cpu & (TW_MAX_CPUS - 1)];
}

/* Whether another hardware thread of the CPU's core runs. */
__noinline bool sibling_runs(s32 cpu, const struct cpumask *idle __arg_trusted)
{
	s32 other = cpu;
	u32 i;

	for (i = 0; i < TW_SIBLINGS; i++) {
		other = siblings[other & (TW_MAX_CPUS - 1)];
		if (other == cpu)
			return false;
		if (!bpf_cpumask_test_cpu(other, idle))
			return true;
	}
	return false;
}

/* The best of the idle CPUs for a task that ran on `prev`, or -1. With `whole` only one whose core is idle.
 */
static s32 best_seat(const struct task_struct *p, s32 prev, const struct cpumask *idle, bool whole)
{
	u32 i, nr = nr_cpus < TW_IDLE_SCAN ? nr_cpus : TW_IDLE_SCAN, best_rank = TW_SEAT_NONE;
	s32 best = -1;

	bpf_for(i, 0, nr) {
		s32 cpu = (prev + i) % nr_cpus, first = first_of_core(cpu);
		struct tw_seat seat = {};
		u32 rank;

		if (!bpf_cpumask_test_cpu(cpu, idle) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		seat.same_cpu = cpu == prev;
		seat.same_core = first == first_of_core(prev);
		seat.shared = sibling_runs(cpu, idle);
		seat.first = cpu == first || !bpf_cpumask_test_cpu(first, p->cpus_ptr);
		rank = tw_seat_rank(&seat, whole);
		if (rank >= best_rank)
			continue;
		best = cpu;
		best_rank = rank;
		if (rank == TW_SEAT_BEST)
			break;
	}
	return best;
}

/* The same, claimed. */
static s32 claim_seat(const struct task_struct *p, s32 prev, bool whole)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	s32 best = bpf_cpumask_empty(idle) ? -1 : best_seat(p, prev, idle, whole);

	scx_bpf_put_idle_cpumask(idle);
	return best >= 0 && scx_bpf_test_and_clear_cpu_idle(best) ? best : -1;
}

/* A CPU of an idle core, claimed, or -1. */
static s32 claim_whole_core(const struct task_struct *p, s32 prev)
{
	return hidden_smt ? claim_seat(p, prev, true) :
			    scx_bpf_pick_idle_cpu(p->cpus_ptr, SCX_PICK_IDLE_CORE);
}

/* The same for a task of this class that runs, if it leaves its core for that. */
static s32 find_whole_core(const struct task_struct *p, enum tw_class class, s32 cpu)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool leaves = tw_leaves_core(class, sibling_runs(cpu, idle));

	scx_bpf_put_idle_cpumask(idle);
	return leaves ? claim_whole_core(p, cpu) : -1;
}

#endif /* TW_SMT_BPF_H */
