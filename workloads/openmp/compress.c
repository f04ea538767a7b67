// SPDX-License-Identifier: GPL-2.0-only
/*
 * Compression by blocks, as pigz does it: threads deflate blocks, of uneven cost, and write them in order, so
 * that a thread may have to wait for its turn; the check sum of the whole is serial. Threads take single
 * blocks under either schedule: an equal share each, in order, would let one thread run after the other.
 *
 * The output must inflate to the input.
 */
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "program.h"

#define BLOCK	 16384L
#define LEVEL	 6
#define NR_WORDS 4096
/* Where the check sum of the output is kept in it. */
#define TRAILER sizeof(uint32_t)

/* A thread's compressor. */
struct worker {
	z_stream stream;
	unsigned char *out;
};

static long bytes, nr_blocks, out_bytes, out_room;
static unsigned char *text, *output;
static struct worker *workers;
static unsigned long block_room;

/* Words of 2 to 9 letters; low numbers come often, and every third block is nothing but noise. */
static void make_text(uint64_t seed)
{
	uint64_t n = 0;

	for (long at = 0; at < bytes;) {
		double u = random_unit_at(seed, n++);
		uint64_t word = random_at(seed + 1, (uint64_t)(u * u * u * NR_WORDS));
		long letters = 2 + (long)(word % 8);

		if (at / BLOCK % 3 == 2) {
			text[at++] = (unsigned char)random_at(seed + 2, n);
			continue;
		}
		for (long i = 0; i < letters && at < bytes; i++)
			text[at++] = (unsigned char)('a' + (word >> (3 + 5 * i)) % 26);
		if (at < bytes)
			text[at++] = ' ';
	}
}

static bool setup(const struct options *options)
{
	bytes = options->size * 1024;
	nr_blocks = (bytes + BLOCK - 1) / BLOCK;
	text = malloc((size_t)bytes);
	workers = calloc((size_t)options->threads, sizeof(*workers));
	if (!text || !workers)
		return false;
	for (int i = 0; i < options->threads; i++) {
		if (deflateInit(&workers[i].stream, LEVEL) != Z_OK)
			return false;
		block_room = deflateBound(&workers[i].stream, BLOCK);
		if (!(workers[i].out = malloc(block_room)))
			return false;
	}
	out_room = nr_blocks * (long)(block_room + sizeof(uint32_t)) + (long)TRAILER;
	if (!(output = malloc((size_t)out_room)))
		return false;
	make_text(options->seed);
	return true;
}

static long block_bytes(long block)
{
	return block < nr_blocks - 1 ? BLOCK : bytes - block * BLOCK;
}

/* Returns the bytes in the worker's out. */
static uint32_t deflate_block(struct worker *worker, long block)
{
	z_stream *stream = &worker->stream;

	deflateReset(stream);
	stream->next_in = text + block * BLOCK;
	stream->avail_in = (unsigned int)block_bytes(block);
	stream->next_out = worker->out;
	stream->avail_out = (unsigned int)block_room;
	deflate(stream, Z_FINISH);
	return (uint32_t)(block_room - stream->avail_out);
}

static void append(const void *from, size_t count)
{
	memcpy(output + out_bytes, from, count);
	out_bytes += (long)count;
}

static uint64_t iterate(void)
{
	uint32_t sum;

	out_bytes = 0;
	parallel_begin();
#pragma omp parallel for ordered schedule(runtime)
	for (long block = 0; block < nr_blocks; block++) {
		struct worker *worker = &workers[omp_get_thread_num()];
		uint32_t deflated = deflate_block(worker, block);

#pragma omp ordered
		{
			append(&deflated, sizeof(deflated));
			append(worker->out, deflated);
		}
	}
	parallel_end();
	sum = (uint32_t)crc32(0, output, (unsigned int)out_bytes);
	append(&sum, TRAILER);
	return (uint64_t)bytes;
}

static void *result(size_t *nr_bytes)
{
	*nr_bytes = (size_t)out_bytes;
	return output;
}

static bool verify(void)
{
	unsigned char *inflated = malloc(BLOCK);
	long end = out_bytes - (long)TRAILER, at = 0, block = 0;
	uint32_t sum, deflated;
	bool right;

	memcpy(&sum, output + end, TRAILER);
	right = inflated && sum == (uint32_t)crc32(0, output, (unsigned int)end);
	for (; right && block < nr_blocks; block++) {
		uLongf expected = (uLongf)block_bytes(block);

		memcpy(&deflated, output + at, sizeof(deflated));
		at += (long)sizeof(deflated);
		right = uncompress(inflated, &expected, output + at, deflated) == Z_OK &&
			expected == (uLongf)block_bytes(block) &&
			!memcmp(inflated, text + block * BLOCK, expected);
		at += deflated;
	}
	free(inflated);
	return right && at == end;
}

int main(int argc, char **argv)
{
	static const struct program program = {
		.name = "compress",
		.about = "deflate by blocks: uneven work, written in order, and a serial check sum",
		.unit = "bytes",
		.size_means = "KiB of text",
		.size = 4096,
		.least = 1,
		.most = 1048576,
		.static_chunk = 1,
		.setup = setup,
		.iterate = iterate,
		.result = result,
		.verify = verify,
	};

	return run_program(&program, argc, argv);
}
