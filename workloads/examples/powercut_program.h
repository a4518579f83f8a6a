/* SPDX-License-Identifier: Apache-2.0
 *
 * A program under test in C: sugar for the lines of docs/adding-a-program.md.
 *
 *     static int setup(const char *folder);
 *     static int run(const char *folder);
 *     static int check(const char *folder);
 *     POWERCUT_PROGRAM(setup, run, check)
 *
 * Each returns 0, or -1 with errno.  Every call below is one write(); all may be made by
 * several threads at the same time.
 */
#ifndef POWERCUT_PROGRAM_H
#define POWERCUT_PROGRAM_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((format(printf, 1, 2))) static inline void powercut_say(const char *format, ...)
{
    const char *fd = getenv("POWERCUT_FD");
    char line[256];
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (length < 0 || fd == NULL)
        abort();
    if ((size_t)length > sizeof line - 2)
        length = sizeof line - 2;
    line[length++] = '\n';
    if (write(atoi(fd), line, (size_t)length) != length)
        abort(); /* whoever listens is gone: nothing that follows would count */
}

/* run, before all others: an operation that was tried is there whole, or not at all. */
static inline void powercut_atomic(void) { powercut_say("atomic"); }

/* run, before all others: it keeps a "prefix" of what it acknowledges, or only "opens". */
static inline void powercut_promise(const char *less) { powercut_say("promise %s", less); }

/* run: work begins. */
static inline void powercut_ready(void) { powercut_say("ready"); }

/* run: `operation` may leave a trace from now on. */
static inline void powercut_trying(uint64_t operation)
{
    powercut_say("? %llu", (unsigned long long)operation);
}

/* run: `operation` is durable. */
static inline void powercut_durable(uint64_t operation)
{
    powercut_say("+ %llu", (unsigned long long)operation);
}

/* run: `operation` has failed, and may or may not be there. */
static inline void powercut_failed(uint64_t operation)
{
    powercut_say("- %llu", (unsigned long long)operation);
}

/* check: the operations `first` to `last` are there, and right. */
static inline void powercut_present(uint64_t first, uint64_t last)
{
    powercut_say("= %llu-%llu", (unsigned long long)first, (unsigned long long)last);
}

/* check: `operation` is there, and wrong. */
static inline void powercut_wrong(uint64_t operation, const char *reason)
{
    powercut_say("x %llu %s", (unsigned long long)operation, reason);
}

/* check: the store contradicts itself. */
static inline void powercut_bad(const char *reason) { powercut_say("bad %s", reason); }

/* Calls what the last two words of the command line ask for; the exit status. */
static inline int powercut_main(int count, char *words[], int (*setup)(const char *),
                                int (*run)(const char *), int (*check)(const char *))
{
    const char *verb = count < 3 ? "" : words[count - 2];
    int result;

    if (strcmp(verb, "setup") == 0)
        result = setup(words[count - 1]);
    else if (strcmp(verb, "run") == 0)
        result = run(words[count - 1]);
    else if (strcmp(verb, "check") == 0)
        result = check(words[count - 1]);
    else {
        fprintf(stderr, "usage: %s [SETTING...] setup|run|check DIR\n", words[0]);
        return 2;
    }
    if (result != 0)
        perror(verb);
    return result != 0;
}

#define POWERCUT_PROGRAM(setup, run, check)                       \
    int main(int count, char *words[])                            \
    {                                                             \
        return powercut_main(count, words, setup, run, check);    \
    }

#endif
