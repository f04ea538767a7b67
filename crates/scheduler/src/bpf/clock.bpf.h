/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel's scheduler's clock outside of its locks. Under a runqueue's lock scx_bpf_now() is the time at
 * which that was taken. Elsewhere, in a timer or in select_cpu(), it may be that of some lock before: the
 * kernel forgets it in rq_unpin_lock() (kernel/sched/sched.h), and what locks another CPU's runqueue without
 * pinning it leaves its time there until that CPU's next switch or tick. Timers read 2 to 4 ms ago again and
 * again.
 *
 * So this is CLOCK_MONOTONIC, plus by how much scx_bpf_now() has been ahead of that at most: a reading that
 * is old is ahead by less. The two drift apart by less than a thousandth, the least that is forgotten.
 */
#ifndef TW_CLOCK_BPF_H
#define TW_CLOCK_BPF_H

/* Further behind than this scx_bpf_now() is not old: the machine slept. */
#define TW_CLOCK_JUMP_NS (100LL * 1000 * 1000)

/* By how much scx_bpf_now() is ahead, and when that was read. Who writes at once loses a moment's drift. */
static s64 clock_ahead_ns;
static u64 clock_read_at;

static u64 clock_now(void)
{
	u64 monotonic = bpf_ktime_get_ns();
	s64 ahead_ns = (s64)(scx_bpf_now() - monotonic);
	s64 before_ns = clock_ahead_ns - (s64)((monotonic - clock_read_at) >> 10);

	if (fault == TW_FAULT_OLD_CLOCK)
		return monotonic + ahead_ns;
	if (ahead_ns < before_ns && before_ns - ahead_ns < TW_CLOCK_JUMP_NS)
		ahead_ns = before_ns;
	clock_ahead_ns = ahead_ns;
	clock_read_at = monotonic;
	return monotonic + ahead_ns;
}

#endif /* TW_CLOCK_BPF_H */
