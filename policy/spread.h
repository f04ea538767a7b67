/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Over the packages, or into one of them? multicore-scheduling, "power vs. performance": tasks that share a
 * package share its cache, its memory bandwidth and its power budget, so for performance they are spread; a
 * package that nobody uses may sleep, so for power they are packed.
 */
#ifndef TW_SPREAD_H
#define TW_SPREAD_H

#include "home.h"
#include "smt.h"

enum tw_mode {
	/* Idle CPUs as the kernel finds them: near the last one. */
	TW_MODE_NEAR = 0,
	/* Packages before last-level caches before cores. */
	TW_MODE_PERFORMANCE = 1,
	/* A package is filled before another is woken. */
	TW_MODE_POWERSAVE = 2,
};

/* CPUs of a package or cache that are told apart in a rank, of which the last bits are that of the seat. */
#define TW_BUSY_MOST 1023
#define TW_SEAT_BITS 4
#define TW_SEAT_MASK ((1U << TW_SEAT_BITS) - 1)

/* An idle CPU as a task sees it, and what it shares. */
struct tw_spot {
	struct tw_seat seat;
	/* tw_spill() of its last-level cache. */
	u8 spill;
	/* That is another than the one that the task left, and it rests (exchange.h). */
	bool away;
	/* CPUs that are not idle. */
	u32 nr_busy_package;
	u32 nr_busy_llc;
};

static inline u32 tw_at_most(u32 nr, u32 most)
{
	return nr < most ? nr : most;
}

/*
 * In which order a task takes idle CPUs, the least first: for performance whole cores before siblings, then
 * by spill, packages and last-level caches; for power by packages, then whole cores, spill and caches. A task
 * that wakes up is not counted where it was, so one of tasks that are spread evenly, or packed, stays where
 * it is.
 *
 * Threads that meet sleep and wake up one after the other, and each CPU that one leaves for a moment is the
 * better one for another. Two caches are cold after such a move, so who comes from another cache rests, as
 * after an exchange, and stays behind its own while that has an idle CPU.
 */
static inline u32 tw_spot_rank(const struct tw_spot *spot, enum tw_mode mode)
{
	u32 seat = tw_seat_rank(&spot->seat), busy_package, busy_llc;

	/* It decides between places that are equal otherwise. */
	if (seat == TW_SEAT_NONE || mode == TW_MODE_NEAR)
		return seat;
	busy_package = tw_at_most(spot->nr_busy_package, TW_BUSY_MOST);
	busy_llc = tw_at_most(spot->nr_busy_llc, TW_BUSY_MOST);
	if (mode == TW_MODE_PERFORMANCE)
		return (u32)spot->away << 31 | (u32)spot->seat.shared << 30 | (u32)spot->spill << 24 |
		       busy_package << 14 | busy_llc << TW_SEAT_BITS | seat;
	return (u32)spot->away << 31 | (TW_BUSY_MOST - busy_package) << 21 | (u32)spot->seat.shared << 20 |
	       (u32)spot->spill << 14 | (TW_BUSY_MOST - busy_llc) << TW_SEAT_BITS | seat;
}

/*
 * Whether a running task of this class leaves a CPU of this rank for an idle one, both counted without
 * itself: not for another core that is worth as much, but for one that is not a serial task's
 * (tw_leaves_seat_for()).
 */
static inline bool tw_leaves_spot(enum tw_class class, u32 own_rank, u32 rank)
{
	u32 own_seat = own_rank & TW_SEAT_MASK, seat = rank & TW_SEAT_MASK;

	if (rank >> TW_SEAT_BITS != own_rank >> TW_SEAT_BITS)
		return rank >> TW_SEAT_BITS < own_rank >> TW_SEAT_BITS;
	return seat <
	       tw_leaves_seat_for(class, own_seat >= TW_SEAT_SHARED, own_seat >= TW_SEAT_BESIDE_SERIAL);
}

#endif /* TW_SPREAD_H */
