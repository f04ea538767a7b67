/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A set-associative cache with LRU replacement, of which one set in N is modelled. It knows lines and nothing
 * of who runs, of time or of QEMU, so that the plugin and a native test (crates/lab/tests/cache.rs) have the
 * same code.
 *
 * Which sets are modelled is decided by the part of the line's number that lies within a page: it is the same
 * in virtual and physical addresses, so of most accesses no physical address has to be found. What a working
 * set loses is thereby estimated from the same N-th of the lines of each of its pages, which stands for all
 * (set sampling: Kessler, Hill and Wood, A Comparison of Trace-Sampling Techniques for Multi-Megabyte Caches,
 * IEEE Transactions on Computers 43(6), 1994). Only a program that touches some lines of its pages much more
 * than others is seen wrong.
 *
 * Not modelled: who wrote a line (no invalidations), prefetchers, what instructions are fetched.
 */
#ifndef THREADWISE_LAB_CACHE_H
#define THREADWISE_LAB_CACHE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 64
/* A page of 4 KiB has so many lines, so no more than so many sets can be told apart. */
#define LINES_OF_PAGE 64
#define MOST_WAYS     16
/* Which lines of a page are modelled: not the first, where much that is aligned begins. */
#define SAMPLED_LINE 45

/* Lines in the order of their last use, each as its number plus one; 0 where there is none. */
struct cache_set {
	uint32_t locked;
	uint64_t lines[MOST_WAYS];
};

struct cache {
	/* One set in so many is modelled: a power of two up to LINES_OF_PAGE. */
	uint32_t one_in;
	/* That are modelled. */
	uint32_t nr_sets;
	uint32_t nr_ways;
	struct cache_set *sets;
};

/* False if there is no memory for it. A cache smaller than its sampled part of a set has one set all the
 * same. */
static inline bool cache_make(struct cache *cache, uint64_t bytes, uint32_t nr_ways, uint32_t one_in)
{
	uint64_t nr_sets = bytes / LINE_BYTES / nr_ways / one_in;

	cache->one_in = one_in;
	cache->nr_ways = nr_ways;
	cache->nr_sets = nr_sets ? (uint32_t)nr_sets : 1;
	cache->sets = calloc(cache->nr_sets, sizeof(*cache->sets));
	return cache->sets != NULL;
}

/* Whether the line at this address, virtual or physical, is in a set that is modelled. */
static inline bool cache_is_sampled(uint64_t address, uint32_t one_in)
{
	return ((address / LINE_BYTES) & (one_in - 1)) == (SAMPLED_LINE & (one_in - 1));
}

/* The set of a line that is sampled, by its physical number. */
static inline struct cache_set *cache_set_of(const struct cache *cache, uint64_t line)
{
	return &cache->sets[line / cache->one_in % cache->nr_sets];
}

/* Uses a line of this set, and says whether it was there. */
static inline bool cache_use(struct cache_set *set, uint32_t nr_ways, uint64_t line)
{
	uint64_t wanted = line + 1;
	uint32_t way = 0;
	bool hit;

	while (way < nr_ways - 1 && set->lines[way] != wanted)
		way++;
	hit = set->lines[way] == wanted;
	/* The last one goes where nothing was found. */
	memmove(&set->lines[1], &set->lines[0], way * sizeof(set->lines[0]));
	set->lines[0] = wanted;
	return hit;
}

#endif
