/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Threads of a program reach their next barrier together only if those that wait take turns with
 * those that run, in steps that are short against a phase. sched_ext ends slices at ticks, 4 ms apart
 * with HZ=250, and the ticks of all CPUs come at once; nor do turns of serial tasks end at them. So while
 * tasks wait, and only then, one timer for the whole machine looks for CPUs whose tasks have to make way and
 * kicks them, when the next is due; the CPU's own dispatch does the rest.
 */
#ifndef TW_ROTATION_BPF_H
#define TW_ROTATION_BPF_H

#include "charge.bpf.h"
#include "crowd.bpf.h"
#include "idle.bpf.h"

struct rotation {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct rotation);
} rotations SEC(".maps");

/*
 * The timer's own, but for the look, which who is queued disturbs. They are no variables of its function
 * because the verifier would follow each of their values through the loops.
 */
static struct {
	/* When it began to look, by the scheduler's clock and by CLOCK_MONOTONIC. */
	u64 now;
	u64 began;
	/* Where it goes on with queues, and behind which CPU with those. */
	u32 queue_cursor;
	s32 last_cpu;
	struct tw_look look;
	/* The task at which it looks, and whether that may run only on its queue's CPU. */
	struct tw_task task;
	bool bound;
	/* And its program. */
	u32 tgid;
	/* The foremost of those that may run elsewhere, as far as it looked, and its queue, or -1. */
	struct tw_task first;
	s32 queue;
	/* Up to which hand-over it looked. */
	u32 handovers;
	/* TW_FAULT_LOST_TIMER happened. */
	bool lost;
} rotation_state;

/* The timer, as all CPUs see it. */
struct tw_timer rotation_timer;

/* Looks at what runs on a CPU for the one at hand (rotation_state.task), and when to look again. */
__noinline int look_whether_due(s32 cpu)
{
	struct tw_task task, waiting = rotation_state.task;
	struct tw_beside beside = { .waiting_bound = rotation_state.bound };
	u32 bound_tgid;
	bool found;
	u64 in_ns;

	bpf_rcu_read_lock();
	found = look_at_running(cpu, rotation_state.now, &task, &bound_tgid);
	bpf_rcu_read_unlock();
	if (!found)
		return TW_DUE_NOT;
	waiting.vtime = tw_vtime_seen(&waiting, NULL,
				      !rotation_state.bound && is_across(cpu, rotation_state.queue), tun());
	beside.running_bound = bound_tgid;
	beside.of_one_program = bound_tgid == rotation_state.tgid;
	in_ns = makes_way_in(&task, &waiting, &beside);
	return tw_look_due(&rotation_state.look, &task, &waiting, in_ns, tun());
}

/* Kicks a CPU whose task is due to make way for the foremost, or for the first of its own queue. */
static void kick_due(s32 cpu, enum tw_due due, bool for_foremost)
{
	enum tw_kick kick = tw_look_kick(&rotation_state.look, due, for_foremost);
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	if (!cctx || kick == TW_KICK_NOT)
		return;
	if (kick == TW_KICK_AND_SEND)
		cctx->sent_to = rotation_state.queue + 1;
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/*
 * Kicks the CPUs whose tasks are due to make way for the foremost, first those that run one of a later class:
 * kicks are few, and turns of its own kind would use them up.
 */
static void rotate_for_first(void)
{
	struct task_struct *first = __COMPAT_scx_bpf_dsq_peek(rotation_state.queue);
	u32 i, nr = online_at_most(TW_ROTATION_CPUS), same = 0, earlier = 0;
	s32 from = next_cpu(rotation_state.last_cpu), at = from;

	if (!first)
		return;
	rotation_state.task = rotation_state.first;
	rotation_state.bound = false;
	rotation_state.last_cpu = from;
	bpf_for(i, 0, nr) {
		s32 cpu = walk_online(&at), due;

		/* With more than that it goes on behind them the next time. */
		if (nr < nr_online)
			rotation_state.last_cpu = cpu;

		if (!bpf_cpumask_test_cpu(cpu, first->cpus_ptr))
			continue;
		due = look_whether_due(cpu);
		if (due == TW_DUE_LATER)
			kick_due(cpu, due, true);
		else if (due == TW_DUE_SAME)
			same |= 1U << (i & 31);
		else if (due)
			earlier |= 1U << (i & 31);
	}
	at = from;
	bpf_for(i, 0, nr) {
		s32 cpu = walk_online(&at);

		if (same & (1U << (i & 31)))
			kick_due(cpu, TW_DUE_SAME, true);
		else if (earlier & (1U << (i & 31)))
			kick_due(cpu, TW_DUE_EARLIER, true);
	}
}

static struct tw_timer timer_now(void)
{
	struct tw_timer timer;

	/* In this order: one that was seen to run and has been started again since has its new time. */
	timer.armed = tw_read(&rotation_timer.armed);
	timer.until_ns = tw_read(&rotation_timer.until_ns);
	timer.key = rotation_timer.key;
	return timer;
}

/* Whether the timer has to be started to look by then, and nobody else is about to start it. */
static bool claim_timer(u64 now, u64 in_ns)
{
	/* Before the others: one that expired since does not count as running. */
	u64 until = tw_read(&rotation_timer.until_ns);
	struct tw_timer timer = timer_now();

	timer.until_ns = until;
	return tw_timer_starts(&timer, now, in_ns) &&
	       __sync_val_compare_and_swap(&rotation_timer.until_ns, until, now + in_ns) == until;
}

/*
 * Has the timer look in so long, if it does not look before. Says so before: a hypervisor may stop this CPU
 * in between, and if it said so only when the timer had expired on another one, nobody would start that
 * again. Of two CPUs that start it at once the one that wants it sooner prevails.
 */
static void start_timer(struct rotation *rotation, u64 key, u64 now, u64 in_ns)
{
	u64 until;

	/* Who was just faster may want it later. */
	if (!claim_timer(now, in_ns) && !claim_timer(now, in_ns))
		return;
	rotation_timer.key = key;
	rotation_timer.armed = true;
	if (bpf_timer_start(&rotation->timer, in_ns, 0))
		rotation_timer.armed = false;
	/* Who wants it sooner may have started it before that. */
	until = tw_read(&rotation_timer.until_ns);
	if (tw_before(until, now + in_ns))
		bpf_timer_start(&rotation->timer, since_ns(now, until), 0);
}

static void start_timer_for(u64 key, u64 now, u64 in_ns)
{
	u32 zero = 0;
	struct rotation *rotation = bpf_map_lookup_elem(&rotations, &zero);

	if (rotation)
		start_timer(rotation, key, now, in_ns);
}

/* A task stays for a moment although CPUs are idle behind another last-level cache: the timer looks when that
 * is over. */
static void look_when_it_leaves(u64 now)
{
	struct tw_timer timer = timer_now();

	if (tw_timer_starts(&timer, now, TW_LEAVES_CACHE_NS))
		start_timer_for(timer.key, now, TW_LEAVES_CACHE_NS);
}

/* Wakes an idle CPU on which a waiting task may run; it will look for that itself. */
static bool kick_idle_for(struct task_struct *p, u64 now)
{
	s32 idle = claim_any(p, now);
	struct cpu_ctx *cctx;

	if (idle == TW_IDLE_LATER)
		look_when_it_leaves(now);
	if (idle < 0)
		return false;
	cctx = has_caches ? cpu_ctx_of(idle) : NULL;
	if (cctx)
		cctx->sent_to = scx_bpf_task_cpu(p) + 1;
	scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
	return true;
}

/* Of those that wait behind the first of a queue, wakes an idle CPU for one that leaves its last-level cache
 * by now: when it was queued it did not. That CPU takes the first of the queue that may run there, unless the
 * very first stays behind its cache. */
__noinline bool kick_idle_behind_first(s32 queue, u64 now)
{
	struct task_struct *p;
	bool found = false;
	u32 nr = 0;

	if (none_is_idle() || nr_waiting_at(queue) < 2)
		return false;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue, 0) {
		if (nr++ >= TW_ROTATION_SORTED)
			break;
		found = nr > 1 && kick_idle_for(p, now);
		if (found)
			break;
	}
	bpf_rcu_read_unlock();
	return found;
}

/* The first task of a queue becomes the one at hand; false if no CPU has to be kicked for it. */
static bool look_at_first(s32 queue)
{
	struct task_struct *first = __COMPAT_scx_bpf_dsq_peek(queue);
	struct tw_task task;

	/* It may be about to be queued. */
	if (!first || !look_at_waiting(first, nr_waiting_at(queue), rotation_state.now, &task)) {
		tw_look_found(&rotation_state.look, false);
		return false;
	}
	tw_look_found(&rotation_state.look, true);
	tasks_wait = true;
	rotation_state.task = task;
	rotation_state.bound = first->nr_cpus_allowed == 1;
	rotation_state.tgid = first->tgid;
	/* A CPU may have gone idle just as this was queued. */
	if (!kick_idle_for(first, rotation_state.now) &&
	    !(has_caches && kick_idle_behind_first(queue, rotation_state.now)))
		return true;
	tw_look_disturb(&rotation_state.look);
	return false;
}

/* Looks at the first task of a queue. */
__noinline int look_at_queue(s32 queue)
{
	struct tw_task task, first;
	bool waits;
	s32 due;

	bpf_rcu_read_lock();
	waits = look_at_first(queue);
	bpf_rcu_read_unlock();
	if (!waits)
		return 0;
	tw_look_waits(&rotation_state.look);
	if (rotation_state.bound) {
		/* No CPU but this one, and nobody else, looks after it. */
		tw_look_disturb(&rotation_state.look);
		due = look_whether_due(queue);
		if (due)
			kick_due(queue, due, false);
		return 0;
	}
	task = rotation_state.task;
	first = rotation_state.first;
	if (rotation_state.queue < 0 || goes_first(&task, &first)) {
		rotation_state.queue = queue;
		rotation_state.first = task;
	}
	return 0;
}

/*
 * A task is about to be queued, because it woke up and found no CPU (its program has so many threads) or for
 * another reason (0): the timer looks after it, if it does not look before.
 */
static void arm_rotation(const struct tw_task *task, u32 nr_threads, u64 now)
{
	struct tw_timer timer;
	u64 in_ns;

	tw_look_expect(&rotation_state.look);
	timer = timer_now();
	in_ns = tw_timer_for(&timer, task, nr_threads, now, tun());
	if (in_ns)
		start_timer_for(timer.key, now, in_ns);
	/* After that, or a look that ends at this moment would take it back. */
	tasks_wait = true;
}

/* A task goes on waiting: the timer may have stopped, if the CPU that queued it was stopped by its hypervisor
 * between starting that and queueing it. */
static void keep_rotation(u64 now)
{
	struct tw_timer timer = timer_now();

	if (tw_timer_stopped(&timer, now))
		start_timer_for(timer.key, now, tunables.rotate_ns);
	tasks_wait = true;
}

/* Has the timer look before long, if it runs: a parallel phase ended, and of its last thread, which may wait,
 * all others wait. */
static void look_soon(void)
{
	u64 now = scx_bpf_now(), in_ns = shortest_step();
	struct tw_timer timer;

	tw_look_disturb(&rotation_state.look);
	timer = timer_now();
	if (tw_timer_hastens(&timer, now, in_ns))
		start_timer_for(timer.key, now, in_ns);
}

/*
 * A task was looked at. If its program, or another, has become senior since the timer looked, that looks at
 * once and has CPUs go over to it: threads that meet each other get on only while all of them run.
 */
static void follow_senior(u64 now)
{
	struct tw_timer timer;

	if (nr_handovers == rotation_state.handovers)
		return;
	timer = timer_now();
	if (tw_timer_hastens(&timer, now, 0))
		start_timer_for(timer.key, now, 0);
}

/*
 * Puts the first tasks of a queue in the order in which they go now. Another program has become senior, and
 * they were queued under keys by which the last one goes first: in a queue of two, where only the first is
 * looked at, a task of that would hide one of the new for a turn, and those that wait for it at a barrier run
 * in vain. Or boosts are not what the queue's keys go by (sort_if_stale()). Or only those go forward that
 * wait for long. The kernel moves a task under the lock of its CPU's runqueue, so that CPU never finds its
 * queue empty meanwhile (unmark_if_empty()).
 */
__noinline int sort_queue(s32 queue, bool all, u64 now)
{
	struct cpu_ctx *cctx = cpu_ctx_of(queue);
	u32 nr = 0, nr_waiting = nr_waiting_at(queue);
	struct task_struct *p;
	struct tw_keys keys;

	if (!cctx)
		return 0;
	keys = cctx->keys;
	if (all && keys.nr_looks)
		cctx->keys.nr_looks = keys.nr_looks - 1;
	bpf_rcu_read_lock();
	bpf_for_each(scx_dsq, p, queue, 0) {
		struct task_ctx *tctx = bpf_task_storage_get(&task_ctxs, p, 0, 0);
		struct tw_task task;
		bool unboosted;
		u64 key;

		if (nr++ >= TW_ROTATION_SORTED)
			break;
		if (!tctx)
			continue;
		unboosted = look_at_charged(p, tctx, nr_waiting, now, &task);
		key = key_in(&keys, &task, unboosted);
		if (!tw_moves_in_queue(&task, key, p->scx.dsq_vtime, all))
			continue;
		scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, key);
		scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, queue, 0);
	}
	bpf_rcu_read_unlock();
	return 0;
}

/* Whether no program became senior since this CPU's queue was put in order. */
static bool is_sorted(s32 cpu)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);

	return !cctx || cctx->sorted_for == nr_handovers;
}

/* Puts a CPU's queue in order if a program became senior since that was done last; false if not. */
static bool sort_for_senior(s32 cpu, u64 now)
{
	struct cpu_ctx *cctx = cpu_ctx_of(cpu);
	u32 handovers = nr_handovers;

	if (!cctx || is_sorted(cpu))
		return false;
	if (is_marked(cpu)) {
		tw_keys_renew(&cctx->keys, nr_waiting_at(cpu), crowd.boost_left);
		sort_queue(cpu, true, now);
	}
	/* Only now, or the CPU would not wait for the timer, nor that for the CPU. */
	cctx->sorted_for = handovers;
	return true;
}

/* Puts a queue in order whose keys go by what no longer holds, or are not all made anew yet; false if not. */
__noinline bool sort_if_stale(s32 queue, u64 now)
{
	struct cpu_ctx *cctx = cpu_ctx_of(queue);
	u32 nr_waiting = nr_waiting_at(queue);

	if (!cctx)
		return false;
	if (tw_keys_are_stale(&cctx->keys, nr_waiting, crowd.boost_left, tun()))
		tw_keys_renew(&cctx->keys, nr_waiting, crowd.boost_left);
	else if (!cctx->keys.nr_looks)
		return false;
	sort_queue(queue, true, now);
	return true;
}

/*
 * Looks at a few of the queues that may hold something, once at each. Where tasks rotate most marks are over
 * queues that others emptied: a look that counted those found nobody every other time.
 */
static void look_at_queues(void)
{
	s32 queue, first = -1;
	bool ages;
	u32 i;

	rotation_state.queue = -1;
	/* Once more, to see that it has been at all of them. */
	bpf_for(i, 0, TW_ROTATION_MARKS + 1) {
		if (rotation_state.look.nr_held >= TW_ROTATION_QUEUES)
			return;
		queue = next_queued_cpu(&rotation_state.queue_cursor);
		if (queue < 0 || queue == first) {
			tw_look_has_all(&rotation_state.look);
			return;
		}
		if (first < 0)
			first = queue;
		ages = tw_look_ages(&rotation_state.look);
		if (!sort_for_senior(queue, rotation_state.now) &&
		    !sort_if_stale(queue, rotation_state.now) && ages)
			sort_queue(queue, false, rotation_state.now);
		look_at_queue(queue);
	}
}

/* Whether a CPU looks at its queue because a program has become senior. */
__noinline bool goes_over(s32 cpu)
{
	struct task_struct *running;
	bool answer;

	if (!is_marked(cpu))
		return false;
	bpf_rcu_read_lock();
	running = running_on(cpu);
	answer = running && tw_follows_senior(class_of(running));
	bpf_rcu_read_unlock();
	return answer;
}

/*
 * If a program has become senior since the last look, CPUs whose queues hold something go over to it at once.
 * Each puts its own queue in order as it looks; when the timer did that for all before the first was kicked,
 * a turn began 4.5 ms late at 20 million instructions a second.
 */
static bool go_over(void)
{
	s32 at = next_cpu(0);
	u32 i, handovers = nr_handovers;

	if (rotation_state.handovers == handovers)
		return false;
	rotation_state.handovers = handovers;
	bpf_for(i, 0, nr_online) {
		s32 cpu = walk_online(&at);

		if (goes_over(cpu))
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
	return true;
}

/* Nobody waits any more but who was queued during this look. That arms the timer before it says that tasks
 * wait: it is seen here, or says so after this. */
static void say_who_waits(void)
{
	__sync_lock_test_and_set(&tasks_wait, false);
	if (tw_read(&rotation_timer.armed))
		tasks_wait = true;
}

static int rotate(void *map, u32 *zero, struct rotation *rotation)
{
	u64 now, in_ns;
	bool went_over;

	if (fault == TW_FAULT_LOST_TIMER && attached && !rotation_state.lost) {
		rotation_state.lost = true;
		return 0;
	}
	/* Who is queued from here on arms the timer again. */
	rotation_timer.armed = false;
	rotation_state.began = bpf_ktime_get_ns();
	rotation_state.now = clock_now();
	if (tw_look_is_early(&rotation_state.look, go_over())) {
		start_timer(rotation, rotation_timer.key, rotation_state.now, shortest_step());
		return 0;
	}
	tw_look_begin(&rotation_state.look, rotation_state.now, nr_cpus);
	refresh_cgroups(rotation_state.now);
	count_crowd(rotation_state.now);
	look_at_queues();
	/* One of those that wait may have become senior. */
	went_over = go_over();
	if (!went_over && rotation_state.queue >= 0) {
		bpf_rcu_read_lock();
		rotate_for_first();
		bpf_rcu_read_unlock();
	}
	in_ns = tw_look_again(&rotation_state.look, shortest_step(), went_over, nr_online);
	if (!in_ns || tw_look_saw_nobody(&rotation_state.look, nr_online))
		say_who_waits();
	if (!in_ns)
		return 0;
	now = clock_now();
	note_look(&look_takes_ns, rotation_state.began);
	start_timer(rotation, rotation_state.queue < 0 ? vtime_now : tw_key(&rotation_state.first, tun()),
		    now, in_ns);
	/* Who became senior meanwhile found that the timer did not run. */
	follow_senior(now);
	return 0;
}

static int init_rotation(void)
{
	u32 zero = 0;
	struct rotation *rotation = bpf_map_lookup_elem(&rotations, &zero);

	if (!rotation)
		return -ENOENT;
	clock_now();
	bpf_timer_init(&rotation->timer, &rotations, CLOCK_MONOTONIC);
	return bpf_timer_set_callback(&rotation->timer, rotate);
}

#endif /* TW_ROTATION_BPF_H */
