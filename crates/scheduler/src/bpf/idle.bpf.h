/* SPDX-License-Identifier: GPL-2.0-only */
/* Idle CPUs for tasks that lost their own or wait for it, as the kernel keeps them. */
#ifndef TW_IDLE_BPF_H
#define TW_IDLE_BPF_H

#include "state.bpf.h"

/* Whether a waiting task goes to an idle CPU behind another last-level cache than that of its own. */
static bool leaves_cache(struct task_struct *p, u64 now)
{
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);

	return !tctx || tw_leaves_cache(tctx->woke, waits_ns(p, tctx, now));
}

/* There are idle CPUs, but none to which a task goes yet. */
#define TW_IDLE_LATER (-2)

/* Whether no CPU is idle, as mostly under load: each search of the kernel's for one takes several looks then.
 */
static bool none_is_idle(void)
{
	const struct cpumask *idle = scx_bpf_get_idle_cpumask();
	bool none = bpf_cpumask_empty(idle);

	scx_bpf_put_idle_cpumask(idle);
	return none;
}

/* Claims one of these idle CPUs for a task, behind the same last-level cache as `cpu`, or -1. */
static s32 claim_among(const struct task_struct *p, s32 cpu, const struct cpumask *idle)
{
	s32 at = cpu;
	u32 i;

	bpf_for(i, 0, nr_online) {
		s32 near = walk_online(&at);

		if (!is_across(cpu, near) && bpf_cpumask_test_cpu(near, idle) &&
		    bpf_cpumask_test_cpu(near, p->cpus_ptr) && scx_bpf_test_and_clear_cpu_idle(near))
			return near;
	}
	return -1;
}

/* Claims an idle CPU for a task that lost its own or waits for it, or -1 or TW_IDLE_LATER: first one behind
 * the same last-level cache. */
__noinline s32 claim_near(struct task_struct *p __arg_trusted, s32 cpu, u64 now)
{
	const struct cpumask *mask;
	s32 claimed = -1;
	bool any;

	bpf_rcu_read_lock();
	mask = scx_bpf_get_idle_cpumask();
	any = bpf_cpumask_intersects(mask, p->cpus_ptr);
	scx_bpf_put_idle_cpumask(mask);
	if (any) {
		/* The idle CPUs of idle cores first, which without shared cores are all. */
		mask = scx_bpf_get_idle_smtmask();
		claimed = claim_among(p, cpu, mask);
		scx_bpf_put_idle_cpumask(mask);
		if (claimed < 0 && has_smt) {
			mask = scx_bpf_get_idle_cpumask();
			claimed = claim_among(p, cpu, mask);
			scx_bpf_put_idle_cpumask(mask);
		}
		if (claimed < 0)
			claimed =
				leaves_cache(p, now) ? scx_bpf_pick_idle_cpu(p->cpus_ptr, 0) : TW_IDLE_LATER;
	}
	bpf_rcu_read_unlock();
	return claimed;
}

/* The same, where there may be one last-level cache only. */
static s32 claim_any(struct task_struct *p, u64 now)
{
	if (has_caches)
		return claim_near(p, scx_bpf_task_cpu(p), now);
	return has_smt && none_is_idle() ? -1 : scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
}

#endif /* TW_IDLE_BPF_H */
