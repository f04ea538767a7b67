/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whole cores for tasks on machines whose hardware threads share cores. Where the kernel knows which do, its
 * own search finds them; where it does not (virtual machines that hide it), this does.
 */
#ifndef TW_SMT_BPF_H
#define TW_SMT_BPF_H

#include "idle.bpf.h"
#include "order.bpf.h"

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

/* What else runs on the core of a CPU. */
struct neighbours {
	/* Anything. */
	bool run;
	/* A serial task. */
	bool serial;
};

/* What runs on the other hardware threads of the CPU's core. */
__noinline int look_at_core(s32 cpu, const struct cpumask *idle __arg_trusted,
			    const struct cpumask *online __arg_trusted,
			    struct neighbours *neighbours __arg_nonnull)
{
	s32 other = cpu;
	u32 i;

	neighbours->run = neighbours->serial = false;
	bpf_for(i, 0, TW_SIBLINGS) {
		other = siblings[other & (TW_MAX_CPUS - 1)];
		if (other == cpu)
			break;
		/* One that is offline may have lost its mark of being idle, and has it back when it is
		 * online. */
		if (bpf_cpumask_test_cpu(other, idle) || !bpf_cpumask_test_cpu(other, online))
			continue;
		neighbours->run = true;
		neighbours->serial |= class_on(other) == TW_CLASS_SERIAL;
	}
	return 0;
}

/* The same of one CPU now. */
static struct neighbours neighbours_of(s32 cpu)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	struct neighbours beside;

	look_at_core(cpu, idle, online, &beside);
	scx_bpf_put_idle_cpumask(idle);
	scx_bpf_put_cpumask(online);
	return beside;
}

/* An idle CPU as a task sees it that ran on `prev`. */
static struct tw_seat seat_of(const struct task_struct *p, s32 cpu, s32 prev, const struct cpumask *idle,
			      const struct cpumask *online)
{
	s32 first = first_of_core(cpu);
	struct neighbours beside;

	look_at_core(cpu, idle, online, &beside);
	return (struct tw_seat){
		.shared = beside.run,
		.beside_serial = beside.serial,
		.same_cpu = cpu == prev,
		.same_core = first == first_of_core(prev),
		.first = cpu == first || !bpf_cpumask_test_cpu(first, p->cpus_ptr),
	};
}

/* The rank of a CPU for a task that ran on `prev`; of one that is not idle, or not for it, TW_SEAT_NONE. */
static u32 rank_of(const struct task_struct *p, s32 cpu, s32 prev, const struct cpumask *idle,
		   const struct cpumask *online)
{
	struct tw_seat seat;

	/* Those that are offline stay marked as idle. */
	if (!bpf_cpumask_test_cpu(cpu, idle) || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr) ||
	    !bpf_cpumask_test_cpu(cpu, online))
		return TW_SEAT_NONE;
	seat = seat_of(p, cpu, prev, idle, online);
	return tw_seat_rank(&seat);
}

/* The best of the idle CPUs of less rank than `limit` for a task that ran on `prev`, or -1. */
static s32 best_seat(const struct task_struct *p, s32 prev, const struct cpumask *idle, u32 limit)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	u32 i, nr = online_at_most(TW_IDLE_SCAN), best_rank = limit;
	s32 best = -1, at = prev;

	bpf_for(i, 0, nr) {
		s32 cpu = walk_online(&at);
		u32 rank = rank_of(p, cpu, prev, idle, online);

		if (rank >= best_rank)
			continue;
		best = cpu;
		best_rank = rank;
		if (rank == TW_SEAT_BEST)
			break;
	}
	scx_bpf_put_cpumask(online);
	return best;
}

/* The same, claimed. */
static s32 claim_seat(const struct task_struct *p, s32 prev, u32 limit)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	s32 best = bpf_cpumask_empty(idle) ? -1 : best_seat(p, prev, idle, limit);

	scx_bpf_put_idle_cpumask(idle);
	return best >= 0 && scx_bpf_test_and_clear_cpu_idle(best) ? best : -1;
}

/* A CPU of less rank than `limit`, which the kernel does not know or not care for, claimed, or -1. */
__noinline int claim_unknown_seat(const struct task_struct *p __arg_trusted, s32 prev, u32 limit)
{
	struct cpu_ctx *cctx = cpu_ctx_of(bpf_get_smp_processor_id());
	u64 now = scx_bpf_now();
	s32 cpu;

	if (!cctx || p->nr_cpus_allowed == 1 || !tw_looks_for_seat(limit, now, cctx->no_core_at))
		return -1;
	cpu = claim_seat(p, prev, limit);
	if (cpu < 0 && limit == TW_SEAT_SHARED)
		cctx->no_core_at = now;
	return cpu;
}

/* A CPU of an idle core, claimed, or -1. */
static s32 claim_whole_core(const struct task_struct *p, s32 prev)
{
	s32 cpu;

	if (hidden_smt)
		return claim_seat(p, prev, TW_SEAT_SHARED);
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, SCX_PICK_IDLE_CORE);
	return cpu >= 0 ? cpu : claim_unknown_seat(p, prev, TW_SEAT_SHARED);
}

/* Another CPU of the core that a task left, if that goes before `cpu`, which was claimed for it. Claimed, or
 * -1. */
__noinline int claim_own_core(const struct task_struct *p __arg_trusted, s32 prev, s32 cpu)
{
	const struct cpumask *online = scx_bpf_get_online_cpumask();
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	struct tw_seat seat = seat_of(p, cpu, prev, idle, online);
	u32 i, limit = tw_seat_rank(&seat);
	s32 other = prev, best = -1;

	bpf_for(i, 0, TW_SIBLINGS) {
		other = siblings[other & (TW_MAX_CPUS - 1)];
		if (other == prev)
			break;
		if (rank_of(p, other, prev, idle, online) < limit) {
			best = other;
			break;
		}
	}
	scx_bpf_put_idle_cpumask(idle);
	scx_bpf_put_cpumask(online);
	/* Its neighbour may have gone idle meanwhile. */
	return seat.shared && best >= 0 && scx_bpf_test_and_clear_cpu_idle(best) ? best : -1;
}

/*
 * The CPU for a task for which the kernel claimed this one: this, if its core is idle. Else the kernel, which
 * looks for idle cores first, knew of none: one of an idle core all the same, or not beside a serial task, or
 * of the core that it left.
 */
static s32 prefer_core(const struct task_struct *p, s32 prev, s32 cpu)
{
	struct neighbours beside = neighbours_of(cpu);
	s32 better;

	if (!beside.run)
		return cpu;
	better = claim_unknown_seat(p, prev, tw_leaves_seat_for(class_of(p), beside.run, beside.serial));
	if (better < 0 && first_of_core(cpu) != first_of_core(prev))
		better = claim_own_core(p, prev, cpu);
	if (better < 0)
		return cpu;
	/* Gives up the other claim: the CPU says again that it is idle. */
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return better;
}

/* An idle CPU for which a running task of this class leaves its own, claimed, or -1. */
static s32 find_better_seat(const struct task_struct *p, enum tw_class class, s32 cpu)
{
	struct neighbours beside;
	u32 limit;

	if (none_is_idle())
		return -1;
	beside = neighbours_of(cpu);
	limit = tw_leaves_seat_for(class, beside.run, beside.serial);
	if (limit == TW_SEAT_SHARED)
		return claim_whole_core(p, cpu);
	return claim_unknown_seat(p, cpu, limit);
}

#endif /* TW_SMT_BPF_H */
