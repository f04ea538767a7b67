/* SPDX-License-Identifier: GPL-2.0-only */
/* Which CPUs' queues are worth a look. */
#ifndef TW_QUEUES_BPF_H
#define TW_QUEUES_BPF_H

#include "intf.h"

/*
 * A bit for each CPU whose queue may hold something, and one if that may hold a task that may run elsewhere.
 * They are set when a task is queued and cleared by that CPU's own dispatch when the queue is empty. Both
 * happen under its rq lock (the insertion itself comes only after ops.enqueue() returns), so a queued task is
 * never without its bits; for those that are let go without it (release_held()) the owner looks once more.
 * Bits may be set over a queue that others emptied, until that CPU's next dispatch, and the second over one
 * from which all went that may run elsewhere, until it is empty.
 */
struct marks {
	u64 queued;
	u64 movable;
};

struct marks marks[TW_MASK_WORDS];

/* The words that hold the CPU's bits, or NULL for what is no CPU. */
static struct marks *marks_of(u32 cpu)
{
	return ARRAY_ELEM_PTR(marks, cpu / 64, TW_MASK_WORDS);
}

static void mark_queued(s32 cpu, bool movable)
{
	struct marks *words = marks_of(cpu);
	u64 bit = 1ULL << (cpu & 63);

	if (!words)
		return;
	if (!(words->queued & bit))
		__sync_fetch_and_or(&words->queued, bit);
	if (movable && !(words->movable & bit))
		__sync_fetch_and_or(&words->movable, bit);
}

/* Whether the queue of this CPU may hold something. Who asks for another CPU may be a moment behind. */
static bool is_marked(s32 cpu)
{
	struct marks *words = marks_of(cpu);

	return words && (words->queued & (1ULL << (cpu & 63)));
}

/* Tasks that wait in this CPU's queue. The kernel finds queues in a hash table, 130 instructions away. */
static u32 nr_waiting_at(s32 cpu)
{
	s32 nr = is_marked(cpu) ? scx_bpf_dsq_nr_queued(cpu) : 0;

	return nr > 0 ? nr : 0;
}

static void unmark(s32 cpu)
{
	struct marks *words = marks_of(cpu);
	u64 others = ~(1ULL << (cpu & 63));

	if (!words)
		return;
	__sync_fetch_and_and(&words->queued, others);
	if (words->movable & ~others)
		__sync_fetch_and_and(&words->movable, others);
}

static void unmark_if_empty(s32 cpu)
{
	if (!is_marked(cpu) || scx_bpf_dsq_nr_queued(cpu))
		return;
	unmark(cpu);
	if (alternate && scx_bpf_dsq_nr_queued(cpu) > 0)
		mark_queued(cpu, true);
}

/* The bits of this CPU's word, without that of `self`; of CPUs whose queues hold somebody for others only. */
static u64 queued_bits(u32 cpu, s32 self, bool for_others)
{
	struct marks *words = marks_of(cpu);
	u64 bits = !words ? 0 : for_others ? words->movable : words->queued;

	return self >= 0 && (u32)self / 64 == cpu / 64 ? bits & ~(1ULL << (self & 63)) : bits;
}

/*
 * The next CPU after the cursor, but not `self`, whose queue may hold something (for others, or at all), or
 * -1. Looks at one turn of the mask.
 */
static s32 next_marked(u32 *cursor, s32 self, bool for_others)
{
	u32 nr_words = (nr_cpus + 63) / 64, from = *cursor < nr_cpus ? *cursor : 0, i, cpu = from;
	u64 own = queued_bits(from, self, for_others), bits = own & (~0ULL << (from & 63));

	/* With no more than 64 there is one word, and a loop that does not run is still dear. */
	if (nr_words > 1 && !bits) {
		bpf_for(i, 1, nr_words) {
			cpu = (from / 64 + i) % nr_words * 64;
			bits = queued_bits(cpu, self, for_others);
			if (bits)
				break;
		}
	}
	if (!bits) {
		cpu = from;
		bits = own;
	}
	if (!bits)
		return -1;
	cpu = cpu / 64 * 64 + ctzll(bits);
	*cursor = cpu + 1;
	return cpu;
}

/* The next CPU whose queue may hold something. */
static s32 next_queued_cpu(u32 *cursor)
{
	return next_marked(cursor, -1, false);
}

/* The next CPU but this one whose queue may hold a task that may run elsewhere. */
static s32 next_queue_for(u32 *cursor, s32 self)
{
	return next_marked(cursor, self, true);
}

#endif /* TW_QUEUES_BPF_H */
