/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The governor's cache model without a governor: bytes, ways and one_in are its arguments, addresses come on
 * stdin as words of 64 bits. Says of each whether it was not looked at (0), hit (1) or missed (2).
 */
#include <stdio.h>
#include "cache.h"

int main(int argc, char **argv)
{
	struct cache cache;
	uint64_t address;

	if (argc != 4 ||
	    !cache_make(&cache, strtoull(argv[1], NULL, 10), (uint32_t)strtoul(argv[2], NULL, 10),
			(uint32_t)strtoul(argv[3], NULL, 10)))
		return 2;
	while (fread(&address, sizeof(address), 1, stdin) == 1) {
		uint64_t line = address / LINE_BYTES;
		int answer = 0;

		if (cache_is_sampled(address, cache.one_in))
			answer = cache_use(cache_set_of(&cache, line), cache.nr_ways, line) ? 1 : 2;
		putchar(answer);
	}
	return 0;
}
