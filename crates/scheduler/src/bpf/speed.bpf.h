/* SPDX-License-Identifier: GPL-2.0-only */
/* Finds faster CPUs on machines whose CPUs differ; on others it costs one comparison. */
#ifndef TW_SPEED_BPF_H
#define TW_SPEED_BPF_H

#include "state.bpf.h"

/* The capacity of the slowest CPU. */
const volatile u32 slowest = TW_CAPACITY_ONE;

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

/* When a CPU that is not the fastest last kept its task. */
u64 slower_kept_at;

/* What runs on a CPU that is slower than `fast`, if it may go there, and its program. */
__noinline bool look_at_slower(s32 cpu, s32 fast, struct tw_task *task __arg_nonnull, u32 *tgid __arg_nonnull)
{
	struct task_struct *running;
	bool found, bound;

	if (!tw_is_faster(capacity_of(fast), capacity_of(cpu)))
		return false;
	bpf_rcu_read_lock();
	running = running_on(cpu);
	found = running && bpf_cpumask_test_cpu(fast, running->cpus_ptr) &&
		look_at_running(cpu, scx_bpf_now(), task, &bound);
	*tgid = running ? running->tgid : 0;
	bpf_rcu_read_unlock();
	return found;
}

/* By how much more the program of a serial task has lost than that of another, of which it is near then. */
static s32 lost_more(u32 tgid, u32 than)
{
	struct tw_group *group = group_of(tgid), *other = group_of(than);

	if (!group || !other)
		return 0;
	group->lost = tw_lost_near(group, other, tun());
	return tw_lost_more(group, other);
}

/* Whether a task of a slower CPU takes a faster one over from `running`. */
static bool takes_turn(const struct tw_task *task, u32 tgid, const struct tw_task *running, u32 than)
{
	/* Parallel ones do not go by it, and it changes what their programs have lost. */
	bool both_serial = task->class == TW_CLASS_SERIAL && running->class == TW_CLASS_SERIAL;

	return tw_takes_turn(task, running, both_serial ? lost_more(tgid, than) : 0, tun());
}

/*
 * Asks the slower CPU whose task goes first for it: in exchange for `running` of program `than`, which has
 * had its turn on this one, or, if that is 0, to have something to do.
 */
__noinline int call_from_slower(s32 fast, u32 than, const struct tw_task *running __arg_nonnull)
{
	u32 i, tgid, nr = nr_cpus < TW_CALL_SCAN ? nr_cpus : TW_CALL_SCAN;
	struct tw_task first = {}, task;
	struct cpu_ctx *cctx;
	s32 cpu, from = -1;

	bpf_for(i, 1, nr) {
		cpu = (fast + i) % nr_cpus;
		if (!look_at_slower(cpu, fast, &task, &tgid) ||
		    (than && !takes_turn(&task, tgid, running, than)))
			continue;
		if (from >= 0 && !tw_goes_first(&task, &first, tun()))
			continue;
		from = cpu;
		first = task;
	}
	cctx = cpu_ctx_of(from);
	if (from < 0 || !cctx)
		return 0;
	cctx->called_to = than ? fast + 1 : 0;
	scx_bpf_kick_cpu(from, SCX_KICK_PREEMPT);
	return 0;
}

/* Whether a CPU is faster than the slowest. */
static bool is_fast(s32 cpu)
{
	return nr_faster && tw_is_faster(capacity_of(cpu), slowest);
}

/* A CPU has nothing to do: if it is a fast one, it gets what runs on a slower one. */
static void pull_from_slower(s32 cpu)
{
	struct tw_task nothing = {};

	if (fault == TW_FAULT_ALOOF)
		return;
	if (is_fast(cpu) && tw_kept_recently(since_ns(slower_kept_at, scx_bpf_now()), longer_look(), tun()))
		call_from_slower(cpu, 0, &nothing);
}

/* A CPU keeps its task. If it is a fast one, that may have had its turn there. */
static void give_turn(s32 cpu, const struct task_struct *p, const struct tw_task *task)
{
	if (capacity_of(cpu) < TW_CAPACITY_ONE)
		slower_kept_at = scx_bpf_now();
	if (is_fast(cpu) && task->class != TW_CLASS_KERNEL && p->nr_cpus_allowed > 1)
		call_from_slower(cpu, p->tgid, task);
}

/* The faster CPU that asked for what runs here, or -1. */
static s32 take_turn(struct cpu_ctx *cctx)
{
	s32 fast = (s32)cctx->called_to - 1;

	cctx->called_to = 0;
	return fast;
}

/* Notes who has the place of a task that leaves this CPU in exchange. */
static void offer_own(s32 cpu, s32 to)
{
	struct cpu_ctx *there = cpu_ctx_of(to);

	if (there)
		there->swaps_with = cpu + 1;
}

/*
 * A task that was driven off its CPU in exchange goes to the one that its successor left, a slower one
 * mostly, which has nothing else.
 */
static bool swap(struct task_struct *p, struct cpu_ctx *cctx, s32 *to)
{
	*to = (s32)cctx->swaps_with - 1;
	cctx->swaps_with = 0;
	return *to >= 0 && bpf_cpumask_test_cpu(*to, p->cpus_ptr) && may_move(p);
}

#endif /* TW_SPEED_BPF_H */
