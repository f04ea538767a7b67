/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's scheduler's clock wherever this CPU's runqueue may not be locked. scx_bpf_now() is the time at
 * which that was locked last, until the kernel forgets it in rq_unpin_lock() (kernel/sched/sched.h); what
 * locks another CPU's runqueue without pinning it leaves its time there until that CPU's next switch or tick.
 * So in a timer, or as a task is queued from another CPU, it may be 4 ms old: looks again and again saw one
 * moment.
 *
 * So this is CLOCK_MONOTONIC, plus by how much scx_bpf_now() is ahead of it where it is not old
 * (policy/clock.h).
 */
#ifndef TW_CLOCK_BPF_H
#define TW_CLOCK_BPF_H

/* How long ago this was, on a CPU that may have its own clock. */
static u64 since_ns(u64 then_ns, u64 now)
{
	s64 ago_ns = (s64)(now - then_ns);

	return ago_ns > 0 ? (u64)ago_ns : 0;
}

/* By how much scx_bpf_now() is ahead, and when that was read. Of two CPUs that write at once one may be old
 * by as much as they are apart. */
static s64 clock_ahead_ns;
static u64 clock_read_at;

/* Not static: it is called in the midst of what the verifier follows on many paths. */
__noinline u64 clock_now(void)
{
	u64 monotonic = bpf_ktime_get_ns();
	s64 ahead_ns = (s64)(scx_bpf_now() - monotonic);

	if (fault == TW_FAULT_OLD_CLOCK)
		return monotonic + ahead_ns;
	ahead_ns = tw_clock_ahead(clock_ahead_ns, (s64)(monotonic - clock_read_at), ahead_ns);
	clock_ahead_ns = ahead_ns;
	clock_read_at = monotonic;
	return monotonic + ahead_ns;
}

#endif /* TW_CLOCK_BPF_H */
