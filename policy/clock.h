/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A clock that is read late at times, beside one that is not. By how much it is ahead of that says which
 * readings are old: those that are ahead by less than before.
 */
#ifndef TW_CLOCK_H
#define TW_CLOCK_H

#include "types.h"

/* Readings that are older than this there are none: 1 s. */
#define TW_CLOCK_OLDEST_NS (1000LL * 1000 * 1000)

/*
 * By how much it is ahead, in nanoseconds: as read now, or as before, since_ns ago, if what was read is old.
 * Of the latter a 64th of the time is forgotten, for the two drift apart, and where CPUs read at once
 * since_ns may be less than 0. Whoever is behind by more than any reading is was set back.
 */
static inline s64 tw_clock_ahead(s64 before_ns, s64 since_ns, s64 read_ns)
{
	s64 least_ns = before_ns - (since_ns > 0 ? since_ns >> 6 : 0);

	return read_ns < least_ns && least_ns - read_ns < TW_CLOCK_OLDEST_NS ? least_ns : read_ns;
}

#endif /* TW_CLOCK_H */
