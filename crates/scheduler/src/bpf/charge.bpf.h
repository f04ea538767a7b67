/* SPDX-License-Identifier: GPL-2.0-only */
/* Tasks are charged for what they ran, and looked at while they wait: programs compete by that. */
#ifndef TW_CHARGE_BPF_H
#define TW_CHARGE_BPF_H

#include "count.bpf.h"
#include "seniority.bpf.h"

/* Brings a task's vtime up to what it has run, and says what it is, and whether it has no boost although it
 * is serial. It competes for seniority. */
__noinline bool charge(struct task_struct *p __arg_trusted, struct task_ctx *tctx __arg_nonnull, bool waking,
		       u64 now, struct tw_task *task __arg_nonnull)
{
	struct look look = { .now = now, .waking = waking };
	struct tw_group *group = group_of(p->tgid);
	struct cpu_ctx *cctx = cpu_ctx_of(bpf_get_smp_processor_id());
	u64 ran_ns, waited_ns;
	bool unboosted;

	if (is_counted(p)) {
		look_at_share(p, &tctx->shared);
		count_ready(p, tctx);
		if (nr_shares)
			count_in_share(&tctx->shared, llc_at(scx_bpf_task_cpu(p)));
	}
	unboosted = look_at(p, tctx, &look, task);
	ran_ns = p->se.sum_exec_runtime - tctx->charged_ns;
	/* Also if it ran nothing: who makes way is charged as it is looked at and as it is queued, so that
	 * the clock follows it to where it left. */
	move_clock(p, tctx, task, ran_ns, now);
	if (ran_ns)
		tctx->waits_since = now;
	waited_ns = group ? tell_loss(p, tctx, group, task->class, ran_ns) : 0;
	count_ready_time(p, &tctx->in, ran_ns, waited_ns, now);
	if (cctx && task->class == TW_CLASS_SERIAL)
		cctx->serial_ns += tw_serial_ready_ns(ran_ns, waited_ns);
	tctx->nr_sleeps = p->nvcsw;
	/* In this order, or who looks at it from another CPU might miss what it ran (look_at()). */
	tw_write(&tctx->vtime, task->vtime);
	tw_write(&tctx->charged_ns, p->se.sum_exec_runtime);
	if (group && task->class >= TW_CLASS_SENIOR)
		tctx->phase = group->began;
	/* For others it would be a call in vain. */
	if (group && task->class == TW_CLASS_PARALLEL)
		claim_seniority(task, p->tgid, group);
	return unboosted;
}

/*
 * The first task of a queue in which so many wait, as things stand now. It may have been queued under another
 * key: its program was not senior then, or no longer is. If it can claim that place, it does.
 */
__noinline bool look_at_waiting(struct task_struct *p __arg_trusted, u32 nr_waiting, u64 now,
				struct tw_task *task __arg_nonnull)
{
	struct tw_group *group = group_of(p->tgid);
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);
	u64 queued_ns;

	if (!group || !tctx)
		return false;
	look_at_charged(p, tctx, nr_waiting, now, task);
	task->step_ns = step_of(task->class, group, now);
	/* 0 if another CPU has just taken it. */
	queued_ns = tw_read(&p->sched_info.last_queued);
	tell_waiting(p, tctx, group, queued_ns ? since_ns(queued_ns, now) : 0);
	claim_seniority(task, p->tgid, group);
	return true;
}

#endif /* TW_CHARGE_BPF_H */
