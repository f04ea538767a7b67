/* SPDX-License-Identifier: GPL-2.0-only */
/* What programs lose, and which of them is senior (policy/seniority.h, policy/turn.h). */
#ifndef TW_SENIORITY_BPF_H
#define TW_SENIORITY_BPF_H

#include "order.bpf.h"

static bool counts_loss(const struct task_struct *p)
{
	return tw_counts_loss(p->signal->nr_threads, nr_faster, tun());
}

/* What its program loses while a task waits for so long. */
static u32 loss_of(const struct task_struct *p, const struct tw_group *group, u32 weight, u64 waited_ns)
{
	return tw_loss(waited_ns, weight, tw_read(&group->nr_ready), p->signal->nr_threads, nr_online);
}

/* Another program becomes the senior one in place of this, if that still is. */
static bool hand_over(u32 senior, u32 tgid, const struct tw_group *group)
{
	/* Before: another CPU that found the new one beside the old time would end its turn at once. */
	senior_since = clock_now();
	if (__sync_val_compare_and_swap(&senior_tgid, senior, tgid) != senior)
		return false;
	senior_lost = group->lost;
	if (last_senior_tgid != tgid)
		__sync_fetch_and_add(&nr_handovers, 1);
	last_senior_tgid = tgid;
	count_here(TW_STAT_HANDOVERS);
	note_stat(tgid, TW_PROGRAM_TURNS);
	return true;
}

/* A parallel task competes for seniority. */
static void claim_seniority(struct tw_task *task, u32 tgid, struct tw_group *mine)
{
	u32 senior = senior_tgid;
	struct tw_group *first;

	if (task->class != TW_CLASS_PARALLEL)
		return;
	first = senior ? group_of(senior) : NULL;
	if (!tw_claims(mine, first, tun()))
		return;
	if (hand_over(senior, tgid, mine))
		task->class = TW_CLASS_SENIOR;
}

/* A task is to make way for one that waits, of another program: the turn of its own may be over
 * (policy/turn.h). */
__noinline int end_turn(const struct task_struct *p __arg_trusted, const struct tw_task *task __arg_nonnull,
			u32 other_tgid, const struct tw_task *waiting __arg_nonnull, u64 now)
{
	struct tw_group *senior = group_of(p->tgid), *other = group_of(other_tgid);
	struct tw_ages ages = { .turn_ns = since_ns(tw_read(&senior_since), now) };
	bool over;

	if (!senior || !other)
		return 0;
	ages.phases_ns = tw_least(tw_phase_age_ns(senior, now), tw_phase_age_ns(other, now));
	over = tw_is_used_up(task, waiting, &ages, tun());
	record(TW_DECISION_USED_UP, over, task_in(task), task_in(waiting), ages.turn_ns, ages.phases_ns);
	if (!over || !hand_over(p->tgid, other_tgid, other))
		return 0;
	/* What another CPU adds meanwhile is forgotten, which is rare and little. */
	senior->lost = tw_lost_after(senior, other, tun());
	count_here(TW_STAT_USED_UP);
	return 0;
}

/* A task of this class ran for so long. Its program is told what it lost thereby, and while it waited, which
 * is returned. */
static u64 tell_loss(const struct task_struct *p, struct task_ctx *tctx, struct tw_group *group,
		     enum tw_class class, u64 ran_ns)
{
	u64 waited_ns = p->sched_info.run_delay - tctx->waited_ns, told_ns = tctx->told_ns;
	u32 weight, loss;

	tctx->waited_ns += waited_ns;
	/* It may have been put back with another affinity, or sent back, and goes on waiting. */
	if (waited_ns)
		tctx->told_ns = 0;
	if ((waited_ns <= told_ns && !(nr_faster && ran_ns)) || !counts_loss(p))
		return waited_ns;
	weight = weight_of(p, &tctx->in);
	loss = loss_of(p, group, weight, waited_ns > told_ns ? waited_ns - told_ns : 0);
	if (nr_faster)
		loss += tw_loss_of_speed(class, ran_ns, capacity_of(scx_bpf_task_cpu(p)), weight);
	if (loss)
		tw_fetch_add(&group->lost, loss);
	return waited_ns;
}

/*
 * A task has been waiting for so long. If its program were told only when it runs, the one that goes first
 * would have its turn until some of the others' tasks outrun their boosts, and threads that meet would run a
 * few at a time.
 */
static void tell_waiting(const struct task_struct *p, struct task_ctx *tctx, struct tw_group *group,
			 u64 waiting_ns)
{
	u64 told_ns = tctx->told_ns;
	u32 loss;

	if (waiting_ns <= told_ns || !counts_loss(p))
		return;
	loss = loss_of(p, group, weight_of(p, &tctx->in), waiting_ns - told_ns);
	/* Several CPUs may look at it. What is too little to count is told later. */
	if (loss && __sync_val_compare_and_swap(&tctx->told_ns, told_ns, waiting_ns) == told_ns)
		tw_fetch_add(&group->lost, loss);
}

#endif /* TW_SENIORITY_BPF_H */
