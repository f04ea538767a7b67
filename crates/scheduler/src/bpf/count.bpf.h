/* SPDX-License-Identifier: GPL-2.0-only */
/* Ready threads of programs, which tell their phases (policy/phase.h). */
#ifndef TW_COUNT_BPF_H
#define TW_COUNT_BPF_H

#include "state.bpf.h"

/*
 * Ready threads are counted where they are seen anyway: in select_cpu(), and, for those that it is not asked
 * about, when a task is charged. The kernel would call ops.runnable() for each, but that costs every wake-up
 * 140 instructions, which whoever waits for the woken task waits for too. So a few are counted late; the flag
 * says who is, so that each is counted once, and taken off once. It changes in one step: while who made a
 * thread is counted (count_maker()), another CPU may put it back with another affinity.
 */
static void count_ready(const struct task_struct *p, struct task_ctx *tctx)
{
	struct tw_group *group = tctx->ready ? NULL : group_of(p->tgid);
	u32 nr_ready;

	if (!group || __sync_val_compare_and_swap(&tctx->ready, 0, 1))
		return;
	if (nr_shares)
		count_in_share(&tctx->shared, llc_at(scx_bpf_task_cpu(p)));
	nr_ready = tw_ready_add(group);
	if (tw_phase_began(nr_ready, tunables.serial_threshold)) {
		__sync_fetch_and_add(&nr_parallel, 1);
		tw_phase_begin(group, clock_now(), vtime_now, senior_lost);
	}
	note_ready(p, nr_ready - 1, nr_ready);
}

/* Whether the parallel phase of its program ends thereby. */
static bool uncount_ready(const struct task_struct *p, struct task_ctx *tctx)
{
	struct tw_group *group = tctx->ready ? group_of(p->tgid) : NULL;
	u32 nr_ready;
	bool ended;

	if (!group || !__sync_val_compare_and_swap(&tctx->ready, 1, 0))
		return false;
	if (nr_shares)
		uncount_in_share(&tctx->shared);
	nr_ready = tw_ready_sub(group);
	ended = tw_phase_ended(nr_ready, tunables.serial_threshold);
	if (ended)
		__sync_fetch_and_add(&nr_parallel, -1);
	/* Another may have become senior in between. */
	if (ended && senior_tgid == p->tgid)
		__sync_val_compare_and_swap(&senior_tgid, (u32)p->tgid, 0);
	note_ready(p, nr_ready + 1, nr_ready);
	return ended;
}

/* Whether its ready threads are counted: with some options also those that are serial whatever these do, for
 * which nothing may be decided by that. */
static bool is_counted(const struct task_struct *p)
{
	return is_told(p) || nr_shares || tw_is_counted(p->signal->nr_threads, tunables.serial_threshold);
}

/* As many as decide where a program's threads are: 0 for one that is serial whatever they do. */
static u32 nr_ready_beside(const struct task_struct *p)
{
	return tw_is_counted(p->signal->nr_threads, tunables.serial_threshold) ? nr_ready_of(p->tgid) : 0;
}

static void count_waking(struct task_struct *p)
{
	struct task_ctx *tctx = is_counted(p) ? bpf_task_storage_get(&task_ctxs, p, 0, 0) : NULL;

	if (tctx) {
		look_at_share(p, &tctx->shared);
		count_ready(p, tctx);
	}
}

/*
 * A new thread wakes up. The one that made it runs here, and is not counted yet if its program had too few
 * threads until now.
 */
static void count_maker(const struct task_struct *p)
{
	struct task_struct *maker = bpf_get_current_task_btf();

	if (maker->tgid == p->tgid && (maker->scx.flags & SCX_TASK_QUEUED))
		count_waking(maker);
}

#endif /* TW_COUNT_BPF_H */
