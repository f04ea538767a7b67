/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which hardware threads have their core for themselves. Where the kernel knows which of them share one, it
 * finds whole cores for tasks that wake up; where it does not (virtual machines that hide it), this does.
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

static bool shares_core(s32 cpu)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool shares = sibling_runs(cpu, idle);

	scx_bpf_put_idle_cpumask(idle);
	return shares;
}

/*
 * The best of the idle CPUs for a task that ran on `prev`, or -1. With `whole` only one whose core is idle.
 * Of another idle core the first hardware thread is taken: two that look at the same time want the same bit,
 * and do not both move to one core.
 */
static s32 best_seat(const struct task_struct *p, s32 prev, const struct cpumask *idle, bool whole)
{
	u32 i, nr = nr_cpus < TW_IDLE_SCAN ? nr_cpus : TW_IDLE_SCAN, best_rank = ~0U;
	s32 best = -1;

	bpf_for(i, 0, nr) {
		s32 cpu = (prev + i) % nr_cpus;
		struct tw_seat seat = {};
		u32 rank;

		if (!bpf_cpumask_test_cpu(cpu, idle) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		seat.same_cpu = cpu == prev;
		seat.same_core = first_of_core(cpu) == first_of_core(prev);
		seat.shared = sibling_runs(cpu, idle);
		if (seat.shared ? whole : !seat.same_core && first_of_core(cpu) != cpu)
			continue;
		rank = tw_seat_rank(&seat);
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

/*
 * A CPU of an idle core to which a task of this class goes that runs on a core that it shares, claimed, or
 * -1.
 */
static s32 find_whole_core(const struct task_struct *p, enum tw_class class, s32 cpu)
{
	struct tw_place whole = { .capacity = capacity_of(cpu), .idle = true };

	if (!shares_core(cpu) || !tw_moves_up(class, tw_capacity_beside(whole.capacity, true), &whole))
		return -1;
	return hidden_smt ? claim_seat(p, cpu, true) : scx_bpf_pick_idle_cpu(p->cpus_ptr, SCX_PICK_IDLE_CORE);
}

#endif /* TW_SMT_BPF_H */
