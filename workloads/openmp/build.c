// SPDX-License-Identifier: GPL-2.0-only
/*
 * A build, as make has compilers and then a linker do it: units of some functions each are written and
 * compiled, in parallel, to code for a stack machine, and then one thread lays them out, looks up each name
 * that is called, and patches the calls. Units differ in length, so that with --schedule static who had short
 * ones waits.
 *
 * The image is compared with code that is made of the functions' trees, without their text and without
 * linking; and some functions are run, and must return what their trees are worth.
 */
#include <stdlib.h>
#include <string.h>

#include "program.h"

/* Numbers have 28 bits, beside an operation's four in a word of code. */
#define MASK ((1u << 28) - 1)
/* Levels of operations in a function at most, and what it takes then: 32 leaves, 31 operations, and the call.
 */
#define DEPTH	   5
#define CODE_WORDS 80
#define TEXT_BYTES 768
/* Functions of a unit at most. */
#define UNIT_MOST 32
/* Functions that are run after the last iteration, at most. */
#define RUNS 64

enum operation { PUSH, ARGUMENT, CALL, RETURN, ADD, SUBTRACT, MULTIPLY, EXCLUSIVE_OR, AND };

static const char signs[] = "+-*^&";

/* A call that is not patched yet: the word of the unit's code, and where the name stands that is called. */
struct call {
	uint32_t at;
	const char *name;
};

/* The functions from `first` on; what was written for them, and what was made of it. */
struct unit {
	long first, count, nr_calls, length;
	char *text;
	const char *names[UNIT_MOST];
	uint32_t *code, starts[UNIT_MOST];
	struct call calls[UNIT_MOST];
};

/* A name and the address of its function. */
struct symbol {
	const char *name;
	uint32_t address;
};

static long n, nr_units, nr_symbols, nr_words;
static struct unit *units;
static struct symbol *symbols;
static uint32_t *image;
static uint64_t seed;

static bool setup(const struct options *options)
{
	char *text;
	uint32_t *code;

	n = options->size;
	seed = options->seed;
	for (nr_symbols = 2; nr_symbols < 2 * n;)
		nr_symbols *= 2;
	units = calloc((size_t)n, sizeof(*units));
	symbols = malloc((size_t)nr_symbols * sizeof(*symbols));
	text = malloc((size_t)n * TEXT_BYTES);
	code = malloc((size_t)n * CODE_WORDS * sizeof(*code));
	/* A word more, for an even number of them. */
	image = calloc((size_t)n * CODE_WORDS + 1, sizeof(*image));
	if (!units || !symbols || !text || !code || !image)
		return false;
	for (long first = 0; first < n; nr_units++) {
		struct unit *unit = &units[nr_units];
		long count = 1 + (long)(random_at(seed, (uint64_t)nr_units) % UNIT_MOST);

		unit->first = first;
		unit->count = count < n - first ? count : n - first;
		unit->text = text + first * TEXT_BYTES;
		unit->code = code + first * CODE_WORDS;
		first += unit->count;
	}
	return true;
}

/* What is at a node of a function's tree: the root is 1, the children of i are 2 i and 2 i + 1. */
static uint64_t node_at(long function, uint64_t node)
{
	return random_at(seed + (uint64_t)function * 0x10001, node);
}

/* How many levels of operations a function has, from two on. */
static int depth_of(long function)
{
	return 2 + (int)(node_at(function, 0) % (DEPTH - 1));
}

/* Whom a function calls: one of the lower half, so that calls are no deeper than the logarithm; -1 for
 * nobody. */
static long callee_of(long function)
{
	return function ? (long)(node_at(function, 0) / DEPTH % (uint64_t)((function + 1) / 2)) : -1;
}

static enum operation operation_of(uint64_t node)
{
	return ADD + node % (sizeof(signs) - 1);
}

static char *write_number(char *at, uint64_t number)
{
	char digits[20];
	int count = 0;

	do
		digits[count++] = (char)('0' + number % 10);
	while (number /= 10);
	while (count)
		*at++ = digits[--count];
	return at;
}

static char *write_tree(char *at, long function, uint64_t node, int depth)
{
	uint64_t key = node_at(function, node);

	if (!depth) {
		if (key % 3)
			return write_number(at, key >> 40);
		*at++ = 'x';
		return at;
	}
	*at++ = '(';
	at = write_tree(at, function, 2 * node, depth - 1);
	*at++ = signs[operation_of(key) - ADD];
	at = write_tree(at, function, 2 * node + 1, depth - 1);
	*at++ = ')';
	return at;
}

/* fN=TREE; or fN=(TREE+fM(x)); */
static char *write_function(char *at, long function)
{
	long callee = callee_of(function);

	*at++ = 'f';
	at = write_number(at, (uint64_t)function);
	*at++ = '=';
	if (callee >= 0)
		*at++ = '(';
	at = write_tree(at, function, 1, depth_of(function));
	if (callee >= 0) {
		*at++ = '+';
		*at++ = 'f';
		at = write_number(at, (uint64_t)callee);
		memcpy(at, "(x))", 4);
		at += 4;
	}
	*at++ = ';';
	return at;
}

static uint32_t apply(enum operation operation, uint32_t left, uint32_t right)
{
	switch (operation) {
	case ADD:
		return (left + right) & MASK;
	case SUBTRACT:
		return (left - right) & MASK;
	case MULTIPLY:
		return (left * right) & MASK;
	case EXCLUSIVE_OR:
		return left ^ right;
	default:
		return left & right;
	}
}

static uint32_t word(enum operation operation, uint32_t operand)
{
	return (uint32_t)operation << 28 | operand;
}

/* Appends an operation to code of so many words, or folds it, if both operands are constants; the new length.
 */
static long append(uint32_t *code, long length, enum operation operation, long left, long right)
{
	if (right - left == 1 && length - right == 1 && code[left] >> 28 == PUSH &&
	    code[right] >> 28 == PUSH) {
		code[left] = word(PUSH, apply(operation, code[left] & MASK, code[right] & MASK));
		return right;
	}
	code[length] = word(operation, 0);
	return length + 1;
}

static uint32_t read_number(const char **at)
{
	uint32_t number = 0;

	for (; **at >= '0' && **at <= '9'; ++*at)
		number = number * 10 + (uint32_t)(**at - '0');
	return number & MASK;
}

static void compile_expression(struct unit *unit, const char **at)
{
	long left = unit->length, right;
	enum operation operation;

	if (**at == 'x') {
		++*at;
		unit->code[unit->length++] = word(ARGUMENT, 0);
	} else if (**at == 'f') {
		unit->calls[unit->nr_calls++] = (struct call){ (uint32_t)unit->length + 1, *at };
		++*at;
		read_number(at);
		++*at;
		compile_expression(unit, at);
		++*at;
		unit->code[unit->length++] = word(CALL, 0);
	} else if (**at == '(') {
		++*at;
		compile_expression(unit, at);
		operation = ADD + (strchr(signs, **at) - signs);
		++*at;
		right = unit->length;
		compile_expression(unit, at);
		++*at;
		unit->length = append(unit->code, unit->length, operation, left, right);
	} else {
		unit->code[unit->length++] = word(PUSH, read_number(at));
	}
}

static void compile(struct unit *unit)
{
	char *end = unit->text;
	const char *at = unit->text;

	for (long i = 0; i < unit->count; i++)
		end = write_function(end, unit->first + i);
	unit->length = 0;
	unit->nr_calls = 0;
	for (long i = 0; i < unit->count; i++) {
		unit->names[i] = at;
		unit->starts[i] = (uint32_t)unit->length;
		at = strchr(at, '=') + 1;
		compile_expression(unit, &at);
		unit->code[unit->length++] = word(RETURN, 0);
		at++;
	}
}

/* A name ends with the first sign that is no digit. */
static size_t length_of(const char *name)
{
	return 1 + strspn(name + 1, "0123456789");
}

/* Where a name is in the table, or is to be: by FNV-1a, and from there on. */
static struct symbol *find(const char *name)
{
	size_t length = length_of(name), place;
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ (uint8_t)name[i]) * 16777619u;
	for (place = hash;; place++) {
		struct symbol *symbol = &symbols[place & (size_t)(nr_symbols - 1)];

		if (!symbol->name ||
		    (length_of(symbol->name) == length && !memcmp(symbol->name, name, length)))
			return symbol;
	}
}

static void link_units(void)
{
	long base = 0;

	memset(symbols, 0, (size_t)nr_symbols * sizeof(*symbols));
	for (long u = 0; u < nr_units; u++) {
		for (long i = 0; i < units[u].count; i++)
			*find(units[u].names[i]) =
				(struct symbol){ units[u].names[i], (uint32_t)base + units[u].starts[i] };
		memcpy(image + base, units[u].code, (size_t)units[u].length * sizeof(*image));
		base += units[u].length;
	}
	nr_words = base + base % 2;
	image[base] = 0;
	base = 0;
	for (long u = 0; u < nr_units; u++) {
		for (long i = 0; i < units[u].nr_calls; i++)
			image[base + units[u].calls[i].at] |= find(units[u].calls[i].name)->address;
		base += units[u].length;
	}
}

static uint64_t iterate(void)
{
	seed++;
	parallel_begin();
#pragma omp parallel for schedule(runtime)
	for (long u = 0; u < nr_units; u++)
		compile(&units[u]);
	parallel_end();
	link_units();
	return (uint64_t)n;
}

static void *result(size_t *bytes)
{
	*bytes = (size_t)nr_words * sizeof(*image);
	return image;
}

/* Code of a function's tree, with what is called still to be filled in; its length. */
static long code_of_tree(uint32_t *code, long length, long function, uint64_t node, int depth)
{
	uint64_t key = node_at(function, node);
	long left = length, right;

	if (!depth) {
		code[length] = key % 3 ? word(PUSH, (uint32_t)(key >> 40)) : word(ARGUMENT, 0);
		return length + 1;
	}
	right = code_of_tree(code, length, function, 2 * node, depth - 1);
	length = code_of_tree(code, right, function, 2 * node + 1, depth - 1);
	return append(code, length, operation_of(key), left, right);
}

static long code_of(uint32_t *code, long function, const uint32_t *starts)
{
	long callee = callee_of(function), length;

	length = code_of_tree(code, 0, function, 1, depth_of(function));
	if (callee >= 0) {
		code[length++] = word(ARGUMENT, 0);
		code[length++] = word(CALL, starts[callee]);
		code[length++] = word(ADD, 0);
	}
	code[length++] = word(RETURN, 0);
	return length;
}

static uint32_t value_of_tree(long function, uint64_t node, int depth, uint32_t x)
{
	uint64_t key = node_at(function, node);

	if (!depth)
		return key % 3 ? (uint32_t)(key >> 40) : x;
	return apply(operation_of(key), value_of_tree(function, 2 * node, depth - 1, x),
		     value_of_tree(function, 2 * node + 1, depth - 1, x));
}

static uint32_t value_of(long function, uint32_t x)
{
	long callee = callee_of(function);
	uint32_t value = value_of_tree(function, 1, depth_of(function), x);

	return callee < 0 ? value : apply(ADD, value, value_of(callee, x));
}

/* What the linked function returns. */
static uint32_t run(uint32_t address, uint32_t x)
{
	uint32_t stack[DEPTH + 4];
	int top = -1;

	for (;; address++) {
		enum operation operation = image[address] >> 28;
		uint32_t operand = image[address] & MASK;

		if (operation == RETURN)
			return stack[top];
		if (operation == PUSH || operation == ARGUMENT) {
			stack[++top] = operation == PUSH ? operand : x;
		} else if (operation == CALL) {
			stack[top] = run(operand, stack[top]);
		} else {
			stack[top - 1] = apply(operation, stack[top - 1], stack[top]);
			top--;
		}
	}
}

static bool verify(void)
{
	uint32_t *starts = malloc((size_t)n * sizeof(*starts)), code[CODE_WORDS];
	long at = 0;
	bool is_right = starts != NULL;

	for (long i = 0; is_right && i < n; i++) {
		long length;

		starts[i] = (uint32_t)at;
		length = code_of(code, i, starts);
		is_right =
			at + length <= nr_words && !memcmp(code, image + at, (size_t)length * sizeof(*code));
		at += length;
	}
	is_right = is_right && nr_words == at + at % 2 && (at == nr_words || !image[at]);
	for (long i = 0; is_right && i < n; i += 1 + n / RUNS)
		is_right = run(starts[i], (uint32_t)i & MASK) == value_of(i, (uint32_t)i & MASK);
	free(starts);
	return is_right;
}

int main(int argc, char **argv)
{
	static const struct program program = {
		.name = "build",
		.about = "a build: units compiled in parallel, then a serial link",
		.unit = "functions",
		.size_means = "functions",
		.size = 20000,
		.least = 1,
		.most = 200000,
		.setup = setup,
		.iterate = iterate,
		.result = result,
		.verify = verify,
	};

	return run_program(&program, argc, argv);
}
