/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * scx_threadwise: the hooks. They gather state from the kernel, ask policy/, and apply the answer. What is
 * theirs is the order in which CPUs and queues are looked at.
 *
 * Each CPU has a queue ordered by key (policy/order.h). A task that wakes up goes straight to an
 * idle CPU if there is one. Otherwise a serial task replaces one that it goes before, one of the senior
 * program does so on its own CPU, and everything else waits in the queue of the CPU that it ran on. A CPU
 * whose queue is empty takes from the others; a CPU whose task used up its slice, or was kicked by the timer
 * (rotation.bpf.h), considers its own queue and one other.
 *
 * The wake-up path decides what a scheduler costs. For a program that can become parallel it looks up the
 * task's storage and the group's ready count, for others nothing, and vtime is charged only when somebody
 * has to wait: sum_exec_runtime remembers what a task ran until then.
 */
#include <scx/common.bpf.h>
#include "intf.h"
#include "../../../../policy/clock.h"
#include "../../../../policy/crowd.h"
#include "../../../../policy/exchange.h"
#include "../../../../policy/home.h"
#include "../../../../policy/look.h"
#include "../../../../policy/members.h"
#include "../../../../policy/seniority.h"
#include "../../../../policy/pairing.h"
#include "../../../../policy/preempt.h"
#include "../../../../policy/smt.h"
#include "../../../../policy/speed.h"
#include "../../../../policy/spread.h"
#include "../../../../policy/turn.h"
#include "state.bpf.h"
#include "rotation.bpf.h"
#include "smt.bpf.h"
#include "speed.bpf.h"
#include "home.bpf.h"
#include "preempt.bpf.h"
#include "spread.bpf.h"
#include "pairing.bpf.h"
#include "exchange.bpf.h"
#include "alternation.bpf.h"
#include "migrations.bpf.h"
#include "hotplug.bpf.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

/* A fault under which every task is queued. */
static bool queues_all(void)
{
	return fault == TW_FAULT_STALL || fault == TW_FAULT_ERROR;
}

/* Sends a task to a CPU that was claimed, or has to be `taken` from what runs there. */
static void insert_on(struct task_struct *p, s32 cpu, bool taken, u64 enq_flags)
{
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, free_slice(),
			   enq_flags | SCX_ENQ_IMMED | (taken ? SCX_ENQ_PREEMPT : 0));
}

/* Where CPUs differ in speed, sends a task that wakes up to the best of those to choose from, if one is for
 * it. Inlined always: from enqueue() on, stacks are large enough as they are. */
static __always_inline bool select_place(struct task_struct *p, s32 prev_cpu, s32 *cpu, u64 enq_flags)
{
	enum tw_class class = class_of(p);
	bool taken;

	*cpu = find_place(p, class, prev_cpu, false, &taken);
	if (*cpu < 0)
		return false;
	note_boost(p, class, is_fast(*cpu), taken);
	insert_on(p, *cpu, taken, enq_flags);
	return true;
}

/*
 * Claims an idle CPU for a task that wakes up, or -1. The kernel's own search begins with the CPU that it ran
 * on too, 110 instructions later, but for where siblings share cores: there it looks for a whole core first.
 */
static s32 claim_idle(struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 seat = has_mode   ? claim_spot(p, prev_cpu, false) :
		   hidden_smt ? claim_seat(p, prev_cpu, TW_SEAT_NONE) :
				-1;

	if (seat >= 0)
		return seat;
	if (!has_smt && bpf_cpumask_test_cpu(prev_cpu, p->cpus_ptr) &&
	    scx_bpf_test_and_clear_cpu_idle(prev_cpu))
		return prev_cpu;
	if (none_is_idle())
		return -1;
	seat = scx_bpf_select_cpu_and(p, prev_cpu, wake_flags, p->cpus_ptr, 0);
	/* Who is woken by one that sleeps at once may have been given the CPU of that. */
	if (seat < 0 || !has_smt || hidden_smt || has_mode || (wake_flags & SCX_WAKE_SYNC))
		return seat;
	return prefer_core(p, prev_cpu, seat);
}

/* A better CPU than `cpu` to which a task of this class goes, or -1. It is claimed, or has to be `taken`. */
static s32 find_better(struct task_struct *p, enum tw_class class, s32 cpu, bool *taken)
{
	*taken = false;
	switch (tw_search(class, nr_faster, has_mode, has_smt)) {
	case TW_SEARCH_PLACE:
		return find_place(p, class, cpu, true, taken);
	case TW_SEARCH_SPOT:
		return claim_spot(p, cpu, true);
	case TW_SEARCH_SEAT:
		return find_better_seat(p, class, cpu);
	default:
		return -1;
	}
}

s32 BPF_STRUCT_OPS(threadwise_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 cpu;

	count_waking(p);
	if (wake_flags & SCX_WAKE_FORK)
		count_maker(p);
	if (held_as(p) >= 0)
		return prev_cpu;
	if (nr_faster && select_place(p, prev_cpu, &cpu, 0))
		return cpu;
	if (queues_all())
		return prev_cpu;
	cpu = claim_idle(p, prev_cpu, wake_flags);
	if (cpu < 0)
		return prev_cpu;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, free_slice(), SCX_ENQ_IMMED);
	return cpu;
}

/* Whether a task woke up, or is new: to the kernel a fork is no wake-up. */
static bool comes_to_run(const struct task_struct *p, u64 enq_flags)
{
	return (enq_flags & SCX_ENQ_WAKEUP) || !p->sched_info.last_arrival;
}

/* Whether select_cpu() was asked for it. For new ones the kernel does not say so. */
static bool was_selected(const struct task_struct *p, u64 enq_flags)
{
	return (enq_flags & SCX_ENQ_CPU_SELECTED) ||
	       (!(enq_flags & SCX_ENQ_WAKEUP) && p->nr_cpus_allowed > 1);
}

/*
 * Sends a task that goes before others to an idle CPU or to that of another task. Who wakes up or is new was
 * offered the idle ones; who lost its CPU, or has to leave it, was not. False if there is none for it.
 */
__noinline bool insert_first(struct task_struct *p __arg_trusted, struct cpu_ctx *cctx __arg_nonnull,
			     const struct tw_task *task __arg_nonnull, u64 enq_flags, u64 now)
{
	bool comes = comes_to_run(p, enq_flags);
	s32 victim, idle = -1;

	if (!comes && p->nr_cpus_allowed > 1 && may_move(p))
		idle = claim_any(p, now);
	if (idle >= 0) {
		insert_on(p, idle, false, enq_flags);
		return true;
	}
	/* Where idle CPUs are too far away, so are those of others. */
	victim = idle == TW_IDLE_LATER ? -1 : find_victim(p, task, comes, scx_bpf_task_cpu(p), now);
	if (victim < 0)
		return false;
	count(cctx, task->class == TW_CLASS_SERIAL ? TW_STAT_SERIAL_PREEMPTIONS : TW_STAT_SENIOR_PREEMPTIONS);
	note_boost(p, task->class, false, true);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | victim, tunables.slice_ns,
			   enq_flags | SCX_ENQ_PREEMPT | SCX_ENQ_IMMED);
	return true;
}

/* Whether this is the CPU at hand and runs a task, which the kernel need not be asked. */
static bool runs_here(s32 cpu)
{
	const struct task_struct *current = bpf_get_current_task_btf();

	return cpu == (s32)bpf_get_smp_processor_id() && current->pid;
}

/*
 * A task woke up, and select_cpu() was not asked: it may run on one CPU only, or was still switching away
 * from its own (SCX_OPS_ALLOW_QUEUED_WAKEUP). Does what that would have done; false if there is no CPU for
 * it.
 */
static bool enqueue_unselected(struct task_struct *p, s32 own, u64 enq_flags)
{
	s32 cpu = -1;

	if (queues_all())
		return false;
	if (nr_faster && select_place(p, own, &cpu, enq_flags))
		return true;
	if (p->nr_cpus_allowed > 1)
		cpu = claim_idle(p, own, 0);
	else if (!runs_here(own) && scx_bpf_test_and_clear_cpu_idle(own))
		cpu = own;
	if (cpu < 0)
		return false;
	insert_on(p, cpu, false, enq_flags);
	return true;
}

/*
 * Where CPUs differ, sends a task of this class to the CPU for which it left its own, or else to one that is
 * better than its own. False if there is none. Inlined never: the stack of enqueue() and what it calls is 512
 * bytes at most.
 */
static __noinline bool enqueue_better(struct task_struct *p, struct cpu_ctx *cctx, struct task_ctx *tctx,
				      enum tw_class class, u64 enq_flags)
{
	/* What it decided before it slept is stale. */
	bool comes = comes_to_run(p, enq_flags), taken = tctx->takes;
	bool looked = tctx->leaves_for == LOOKED_IN_VAIN;
	s32 better = comes || looked ? -1 : (s32)tctx->leaves_for - 1, own = scx_bpf_task_cpu(p);
	bool exchanges = better >= 0 && taken;

	tctx->leaves_for = 0;
	/* Whoever claims an idle CPU has to go there. */
	if (better < 0 && tw_looks_for_better(comes, looked, nr_faster) && may_move(p))
		better = find_better(p, class, own, &taken);
	if (better < 0 || !bpf_cpumask_test_cpu(better, p->cpus_ptr) || !may_move(p))
		return false;
	if (exchanges)
		offer_own(own, better);
	count(cctx, TW_STAT_MOVED_UP);
	note_boost(p, class, is_fast(better), taken);
	insert_on(p, better, taken, enq_flags);
	return true;
}

void BPF_STRUCT_OPS(threadwise_enqueue, struct task_struct *p, u64 enq_flags)
{
	bool direct, unboosted, comes = comes_to_run(p, enq_flags);
	s32 cpu = scx_bpf_task_cpu(p), slower, slot = held_as(p);
	struct cpu_ctx *cctx;
	struct task_ctx *tctx;
	struct tw_task task;
	u64 key, now;

	if (comes && !(enq_flags & SCX_ENQ_REENQ) && !was_selected(p, enq_flags)) {
		count_waking(p);
		if (slot < 0 && enqueue_unselected(p, cpu, enq_flags))
			return;
	}
	cctx = cpu_ctx_of(cpu);
	tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);
	if (!cctx || !tctx) {
		scx_bpf_error("task %d on CPU %d without its context", p->pid, cpu);
		return;
	}
	if (fault == TW_FAULT_ERROR && attached)
		scx_bpf_error("injected fault");

	/* From another CPU, whose clock it would be. */
	now = cpu == (s32)bpf_get_smp_processor_id() ? scx_bpf_now() : clock_now();
	/* Who found an idle CPU and was sent back from there has not run since either. */
	tctx->woke = comes || ((enq_flags & SCX_ENQ_REENQ) && (tctx->woke || p->nvcsw != tctx->nr_sleeps));
	unboosted = charge(p, tctx, comes, now, &task);

	if (tw_runs_at_once(task.class) && fault != TW_FAULT_STALL && fault != TW_FAULT_DEMOTE) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, tunables.slice_ns, enq_flags | SCX_ENQ_PREEMPT);
		return;
	}
	if (alternate && slot >= 0) {
		/* Neither the CPU for which it was to leave its own gets it, nor that which wants another for
		 * it. */
		tctx->leaves_for = 0;
		cctx->swaps_with = 0;
		hold(p, slot, &task, enq_flags);
		return;
	}
	/* One that was sent back from a local queue would be sent to the same CPU again. */
	direct = !(enq_flags & SCX_ENQ_REENQ) && fault != TW_FAULT_STALL;
	if ((nr_faster || has_homes) && swap(p, cctx, &slower) && direct && !comes) {
		tctx->leaves_for = 0;
		insert_on(p, slower, false, enq_flags);
		return;
	}
	if (cpus_differ() && direct) {
		if (enqueue_better(p, cctx, tctx, task.class, enq_flags))
			return;
		if (enq_flags & SCX_ENQ_LAST) {
			scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, tunables.slice_ns, enq_flags);
			return;
		}
	}
	if (tw_may_preempt(task.class) && direct) {
		if (insert_first(p, cctx, &task, enq_flags, now))
			return;
		if (task.class == TW_CLASS_SERIAL)
			count(cctx, TW_STAT_SERIAL_QUEUED);
	}
	count(cctx, TW_STAT_QUEUED);
	tw_keys_begin(&cctx->keys, &task, crowd.boost_left);
	key = key_in(&cctx->keys, &task, unboosted);
	scx_bpf_dsq_insert_vtime(p, cpu, tw_slice_of(task.class, longer_look(), tun()), key, enq_flags);
	cctx->queued_most = task.nr_waiting + 1;
	mark_queued(cpu, p->nr_cpus_allowed > 1);
	arm_rotation(&task, comes && direct ? p->signal->nr_threads : 0, now);
	/* A CPU may have gone idle since select_cpu() looked. The kernel has its own look after this. */
	if (p->nr_cpus_allowed > 1)
		kick_idle_for(p, now);
}

/*
 * Of two CPUs' queues, `own` and `other` (or -1), the one whose first task comes first and before prev, or
 * -1; then prev may go on for `due_ns`, if somebody waits there. A task that may run here only has no other
 * chance than this. Inlined always: BPF has no calls with more than five arguments.
 */
static __always_inline s32 queue_before(struct task_struct *prev, struct tw_task *task, s32 own, s32 other,
					u64 now, u64 *due_ns)
{
	struct task_struct *mine = is_marked(own) ? __COMPAT_scx_bpf_dsq_peek(own) : NULL;
	struct task_struct *theirs = other < 0 ? NULL : __COMPAT_scx_bpf_dsq_peek(other);
	bool first_is_bound = mine && mine->nr_cpus_allowed == 1;
	u32 first_tgid = mine ? mine->tgid : 0;
	struct tw_task first = {}, their_first = {};
	s32 from = own;

	*due_ns = 0;
	if (theirs && !bpf_cpumask_test_cpu(own, theirs->cpus_ptr))
		theirs = NULL;
	if (mine && makes_room(task, prev->nr_cpus_allowed == 1, first_is_bound))
		return own;
	if (mine && !look_at_waiting(mine, task->nr_waiting, now, &first))
		return -1;
	if (theirs && !look_at_waiting(theirs, nr_waiting_at(other), now, &their_first))
		return -1;
	if (theirs)
		their_first.vtime = vtime_seen(&their_first, &first, mine, is_across(own, other));
	/* One of these may have become senior in its place. */
	if (task->class == TW_CLASS_SENIOR)
		task->class = class_of(prev);
	if (theirs && (!mine || goes_first(&their_first, &first))) {
		first = their_first;
		first_tgid = theirs->tgid;
		first_is_bound = theirs->nr_cpus_allowed == 1;
		from = other;
	}
	if (mine || theirs) {
		struct tw_beside beside = {
			.running_bound = prev->nr_cpus_allowed == 1,
			.waiting_bound = first_is_bound,
			.of_one_program = first_tgid == prev->tgid,
		};

		*due_ns = makes_way_in(task, &first, &beside);
		if (!*due_ns) {
			/* For others it would be a call in vain. */
			if (task->class == TW_CLASS_SENIOR && first.class == TW_CLASS_PARALLEL)
				end_turn(prev, task, first_tgid, &first, now);
			return from;
		}
	}
	/* It goes on waiting here. A CPU may have gone idle without seeing it. */
	if (mine) {
		keep_rotation(now);
		kick_idle_for(mine, now);
	} else {
		unmark_if_empty(own);
	}
	return -1;
}

/* The slice of a task that goes on beside some that wait, the best of them due in due_ns; 0: nobody was seen.
 */
static u64 slice_beside(const struct task_struct *p, const struct task_ctx *tctx, enum tw_class class,
			u64 due_ns)
{
	u64 slice_ns;
	u32 weight;

	if (!tw_goes_on_until_due(due_ns, nr_faster))
		return free_slice();
	weight = weight_of(p, &tctx->in);
	slice_ns = tw_slice_beside(class, due_ns, weight, tun());
	record(TW_DECISION_SLICE_BESIDE, slice_ns, class, due_ns, weight);
	return slice_ns;
}

/* Whether the first that waits in a queue leaves its last-level cache for this CPU, or may not run here. */
static bool lets_leave(s32 queue, s32 cpu)
{
	u64 now = scx_bpf_now();
	struct task_struct *first;
	bool answer = true;

	bpf_rcu_read_lock();
	first = __COMPAT_scx_bpf_dsq_peek(queue);
	if (first && bpf_cpumask_test_cpu(cpu, first->cpus_ptr))
		answer = leaves_cache(first, now);
	if (!answer)
		look_when_it_leaves(now);
	bpf_rcu_read_unlock();
	return answer;
}

/* Takes what waits elsewhere, behind the same last-level cache or `across`. */
static bool steal(struct cpu_ctx *cctx, s32 cpu, bool across)
{
	u64 before = cctx->stats[TW_STAT_STOLEN];
	u32 i, start = cctx->cursor;
	s32 last = -1;

	bpf_for(i, 0, nr_cpus) {
		s32 from = next_queue_for(&cctx->cursor, cpu), at = (from + nr_cpus - start) % nr_cpus;

		/* It has been around. That is not told by the first, whose mark may have gone. */
		if (from < 0 || at <= last)
			break;
		last = at;
		if (is_across(cpu, from) != across || (across && !lets_leave(from, cpu)))
			continue;
		if (scx_bpf_dsq_move_to_local(from, SCX_ENQ_IMMED)) {
			count(cctx, TW_STAT_STOLEN);
			break;
		}
	}
	/* A flag would be folded into what the verifier takes for arithmetic on a pointer. */
	return cctx->stats[TW_STAT_STOLEN] != before;
}

/*
 * A CPU took the first of its own queue. Only enqueue() adds to that, under this CPU's rq lock, and
 * release_held() where programs take turns; others only take. So queued_most is never too low, the mark goes
 * with the last, and who is queued next need not ask the kernel how many wait, which takes 130 instructions.
 */
static void took_own(struct cpu_ctx *cctx, s32 cpu)
{
	if (!alternate && cctx->queued_most && !--cctx->queued_most)
		unmark(cpu);
}

/* A CPU has nothing to run: it takes what waits, its own first, then for whom it was woken, and those of its
 * cache before others. */
static bool dispatch_idle(struct cpu_ctx *cctx, s32 cpu, s32 sent_to)
{
	if (is_marked(cpu)) {
		/* Mostly it is, and the clock need not be read. */
		if (!is_sorted(cpu))
			sort_for_senior(cpu, scx_bpf_now());
		if (scx_bpf_dsq_move_to_local(cpu, SCX_ENQ_IMMED)) {
			took_own(cctx, cpu);
			return true;
		}
		unmark_if_empty(cpu);
	}
	if (!tasks_wait)
		return false;
	/* Where it was woken for somebody that may be behind another cache. */
	if (has_caches && sent_to >= 0 && sent_to != cpu &&
	    (!is_across(cpu, sent_to) || lets_leave(sent_to, cpu)) &&
	    scx_bpf_dsq_move_to_local(sent_to, SCX_ENQ_IMMED)) {
		count(cctx, TW_STAT_STOLEN);
		return true;
	}
	return steal(cctx, cpu, false) || (has_caches && steal(cctx, cpu, true));
}

/* The queue that a CPU compares with its own: that to which it was sent, if any (-1), or the next. */
static s32 other_queue(struct cpu_ctx *cctx, s32 cpu, s32 sent_to)
{
	return sent_to >= 0 && sent_to != cpu ? sent_to : next_queue_for(&cctx->cursor, cpu);
}

/* Where a CPU was sent, or -1. */
static s32 take_sent_to(struct cpu_ctx *cctx)
{
	s32 sent_to = (s32)cctx->sent_to - 1;

	cctx->sent_to = 0;
	return sent_to;
}

/*
 * What runs on a CPU leaves that for a better one, or for one that called for it, whichever task it is by
 * now. False if it stays.
 */
static bool leave_for_better(struct cpu_ctx *cctx, s32 cpu, struct task_struct *prev, struct task_ctx *tctx,
			     enum tw_class class)
{
	bool taken;
	s32 better = find_better(prev, class, cpu, &taken), called_to = take_turn(cctx);

	if (better < 0 && called_to >= 0 && tw_answers_call(class) &&
	    bpf_cpumask_test_cpu(called_to, prev->cpus_ptr) && may_move(prev)) {
		better = called_to;
		taken = true;
	}
	if (better < 0) {
		tctx->leaves_for = LOOKED_IN_VAIN;
		return false;
	}
	/*
	 * Without a slice it is enqueued, and goes there, unless migration is disabled for it. The kick has a
	 * CPU that was claimed and gets nobody say again that it is idle.
	 */
	tctx->leaves_for = better + 1;
	tctx->takes = taken;
	scx_bpf_task_set_slice(prev, 0);
	if (!taken)
		scx_bpf_kick_cpu(better, SCX_KICK_IDLE);
	return true;
}

/*
 * A CPU looks whether what runs there goes on, makes way for the first of a queue, or leaves for another CPU,
 * and does what comes of it. True if the CPU has nothing to run then.
 */
static __always_inline bool prev_leaves(struct cpu_ctx *cctx, s32 cpu, struct task_struct *prev, s32 sent_to)
{
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, prev, 0, 0);
	struct tw_task task;
	s32 from;
	u64 now, due_ns, began = 0;

	if (!tctx)
		return false;
	now = scx_bpf_now();
	if (nr_faster)
		began = bpf_ktime_get_ns();
	charge(prev, tctx, false, now, &task);
	/* The kernel may not have enqueued it when it was to leave. */
	tctx->leaves_for = 0;
	if (held_as(prev) >= 0) {
		/* Without a slice it is enqueued, which is how it gets to where it has to wait. */
		take_turn(cctx);
		scx_bpf_task_set_slice(prev, 0);
		return true;
	}
	/* One that is exiting would not be enqueued. */
	if (cpus_differ() && !(prev->flags & PF_EXITING) &&
	    leave_for_better(cctx, cpu, prev, tctx, task.class))
		return true;
	sort_for_senior(cpu, now);
	from = queue_before(prev, &task, cpu, other_queue(cctx, cpu, sent_to), now, &due_ns);
	follow_senior(now);
	if (from >= 0 && scx_bpf_dsq_move_to_local(from, SCX_ENQ_IMMED)) {
		/* With a slice left it would stay at the head of the local queue. */
		scx_bpf_task_set_slice(prev, 0);
		if (from != cpu)
			count(cctx, TW_STAT_REBALANCED);
		else
			took_own(cctx, cpu);
		return false;
	}
	count(cctx, TW_STAT_KEPT);
	scx_bpf_task_set_slice(prev, slice_beside(prev, tctx, task.class, due_ns));
	if (nr_faster)
		give_turn(cpu, prev, &task);
	else if (has_homes)
		exchange(cctx, cpu, prev, now);
	if (began)
		note_look(&cpu_look_takes_ns, began);
	return false;
}

void BPF_STRUCT_OPS(threadwise_dispatch, s32 cpu, struct task_struct *prev)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	bool running = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	s32 sent_to;

	if (!cctx || fault == TW_FAULT_STALL)
		return;
	sent_to = take_sent_to(cctx);
	if (!running) {
		learn_disabled();
		/* What was called for is gone. */
		if (cpus_differ())
			take_turn(cctx);
	} else if (!prev_leaves(cctx, cpu, prev, sent_to)) {
		return;
	}
	/* In one place: the verifier follows it wherever it is called. */
	if ((running || tasks_wait || is_marked(cpu)) && dispatch_idle(cctx, cpu, sent_to))
		return;
	if (!running)
		pull_from_slower(cpu);
}

/* A task sleeps, or leaves its queue to be put back at once with another priority or affinity. */
void BPF_STRUCT_OPS(threadwise_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct task_ctx *tctx;

	if (!(deq_flags & SCX_DEQ_SLEEP) || !nr_ready_of(p->tgid) || fault == TW_FAULT_MISCOUNT)
		return;
	tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);
	if (tctx && uncount_ready(p, tctx) && tasks_wait)
		look_soon();
}

/* Only there where programs are told apart, as is exit_task. */
void BPF_STRUCT_OPS(threadwise_running, struct task_struct *p)
{
	note_running(p);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(threadwise_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *tctx;

	/* Somebody raised kernel.pid_max. Failing would fail the fork; the loader starts anew instead. */
	if (!group_of(p->tgid))
		scx_bpf_exit(SCX_ECODE_ACT_RESTART, "tgid %d is beyond the kernel.pid_max at loading",
			     p->tgid);
	tctx = bpf_task_storage_get(&task_ctxs, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!tctx)
		return -ENOMEM;
	if (has_cgroups)
		tctx->in.slot = slot_of(args->cgroup);
	note_birth(p, args->fork);
	return 0;
}

void BPF_STRUCT_OPS(threadwise_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	note_death(p);
}

/* A task comes to sched_ext: what it ran in another class is not charged. */
void BPF_STRUCT_OPS(threadwise_enable, struct task_struct *p)
{
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);

	if (tctx) {
		tctx->vtime = vtime_now;
		tctx->charged_ns = p->se.sum_exec_runtime;
		tctx->waits_since = scx_bpf_now();
		tctx->nr_sleeps = p->nvcsw;
		tctx->waited_ns = p->sched_info.run_delay;
		tctx->told_ns = 0;
		tctx->in.charged_at_ns = 0;
		if (p->on_rq && is_counted(p))
			count_ready(p, tctx);
	}
}

/* A task leaves sched_ext. One that sleeps is not counted any more, or the check at the end shall see it. */
void BPF_STRUCT_OPS(threadwise_disable, struct task_struct *p)
{
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);

	/* One that select_cpu() was asked for may not be queued yet. */
	if (tctx && (p->on_rq || p->__state == TASK_WAKING))
		uncount_ready(p, tctx);
}

/* The loader leaves these out where the kernel does not have them. */
s32 BPF_STRUCT_OPS_SLEEPABLE(threadwise_cgroup_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	bool idle = bpf_core_field_exists(args->sched_idle) && args->sched_idle;

	return add_cgroup(cgrp, args->weight, idle);
}

void BPF_STRUCT_OPS(threadwise_cgroup_exit, struct cgroup *cgrp)
{
	remove_cgroup(cgrp);
}

void BPF_STRUCT_OPS(threadwise_cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);

	if (tctx)
		tctx->in.slot = slot_of(to);
}

void BPF_STRUCT_OPS(threadwise_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	struct cgroup_ctx *cctx = cgroup_ctx_of(cgrp);

	if (cctx)
		cctx->weight = weight;
}

void BPF_STRUCT_OPS(threadwise_cgroup_set_idle, struct cgroup *cgrp, bool idle)
{
	struct cgroup_ctx *cctx = cgroup_ctx_of(cgrp);

	if (cctx)
		cctx->idle = idle;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(threadwise_init)
{
	s32 cpu, err;

	bpf_for(cpu, 0, nr_cpus) {
		err = scx_bpf_create_dsq(cpu, -1);
		if (err) {
			scx_bpf_error("cannot create the queue of CPU %d: %d", cpu, err);
			return err;
		}
	}
	link_online(-1, false);
	err = init_rotation();
	err = err ?: init_hotplug();
	return err ?: init_alternation();
}

/*
 * Of what a CPU shares that was offline when this was loaded nothing is known, and the loader starts anew
 * once it has come (newcomers.rs). Without these two hooks the kernel would throw the scheduler out at each
 * change.
 */
void BPF_STRUCT_OPS(threadwise_cpu_online, s32 cpu)
{
	/* One that was plugged in has no queue. */
	if ((u32)cpu >= nr_cpus)
		scx_bpf_error("CPU %d was not there when the scheduler was loaded: start it again", cpu);
	came_online[cpu & (TW_MAX_CPUS - 1)] = true;
	note_announced(cpu, true);
}

/* The CPU looks at no queue any more, and some that wait for it may run nowhere else. Newer kernels have done
 * so by now. */
void BPF_STRUCT_OPS(threadwise_cpu_offline, s32 cpu)
{
	s32 slot;

	note_announced(cpu, false);
	send_on(cpu, cpu);
	bpf_for(slot, 0, alternate ? TW_ALTERNATION_PROGRAMS : 0)
		send_on(TW_HELD_QUEUE + slot, cpu);
	unmark_if_empty(cpu);
}

void BPF_STRUCT_OPS(threadwise_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

/* clang-format off */
SCX_OPS_DEFINE(threadwise_ops,
	       .select_cpu	= (void *)threadwise_select_cpu,
	       .enqueue		= (void *)threadwise_enqueue,
	       .dispatch	= (void *)threadwise_dispatch,
	       .quiescent	= (void *)threadwise_quiescent,
	       .running		= (void *)threadwise_running,
	       .enable		= (void *)threadwise_enable,
	       .disable		= (void *)threadwise_disable,
	       .init_task	= (void *)threadwise_init_task,
	       .cgroup_init	= (void *)threadwise_cgroup_init,
	       .cgroup_exit	= (void *)threadwise_cgroup_exit,
	       .cgroup_move	= (void *)threadwise_cgroup_move,
	       .cgroup_set_weight = (void *)threadwise_cgroup_set_weight,
	       .cgroup_set_idle	= (void *)threadwise_cgroup_set_idle,
	       .exit_task	= (void *)threadwise_exit_task,
	       .cpu_online	= (void *)threadwise_cpu_online,
	       .cpu_offline	= (void *)threadwise_cpu_offline,
	       .init		= (void *)threadwise_init,
	       .exit		= (void *)threadwise_exit,
	       .timeout_ms	= WATCHDOG_MS,
	       .name		= "threadwise");
