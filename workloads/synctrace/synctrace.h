/* SPDX-License-Identifier: Apache-2.0
 *
 * synctrace: runs a program and notes each of its calls that make data durable, with its stack;
 * or drops those of one call site.
 *
 *     synctrace [dir=DIR] [drop=STACK] [path=PATH] [name=NAME] [log=FILE] -- PROGRAM...
 *
 * The program runs under ptrace(2); a filter of the kernel (filter.c) stops it at those calls
 * alone, so that all others cost what they did.  What forks, threads and execs is followed, and
 * dies with the tracer (PTRACE_O_EXITKILL).  Notes are lines, one write() each, to the descriptor
 * POWERCUT_FD or to the file LOG:
 *
 *     ~ KEY trace 1                              the first; KEY is 16 hexadecimal digits, drawn
 *     ~ KEY site N STACK CALL PATH FRAME...      call site N, when it is first seen
 *     ~ KEY begin N THREAD                       the call is about to be made
 *     ~ KEY end N THREAD RESULT                  it has returned: 0 or more, or -errno
 *     ~ KEY drop N THREAD                        it was not made, and the program told 0
 *     ~ KEY writes PROCESS                       its writes to files opened with O_SYNC or O_DSYNC
 *                                                are calls, too, and those of its children
 *     ~ KEY beyond TEXT                          something that the tracer does not follow
 *
 * Later lines have the KEY of the first, which was written before the program began: what else
 * begins with `~` is the program's.  STACK is a hash of CALL and FRAMEs.  PATH is of the file, with
 * `#` for each number in it, below DIR where it lies there; `-` if the call has none.  A FRAME is
 * MODULE+OFFSET, innermost first: the file, and the address as its symbols have it; of the function
 * that makes the system call (a C library's has two instructions for it, with threads and without),
 * then return addresses.  Blanks and what is not ASCII stand as %XX.
 */
#ifndef POWERCUT_SYNCTRACE_H
#define POWERCUT_SYNCTRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#define FRAMES_MAX 12
#define PATH_TEXT 512
#define PAGE_BYTES 4096

/* --- filter.c --- */

#define FILTER_FOREIGN 1 /* the event's message: a call that is numbered in another way */

/* Lets the kernel stop the calling process, and what it becomes, at the calls of calls.c. */
int filter_begin(void);

#define FILTER_RULE_BYTES 8

/* The rules of a filter that stops a process at its writes. */
const void *filter_of_writes(uint16_t *count);

/* --- calls.c --- */

enum call_kind {
    CALL_OTHER,  /* no sync, by its arguments */
    CALL_SYNC,   /* makes data durable: dropping it is not making it */
    CALL_OPEN,   /* opens a file such that writes to it are durable: dropping it clears flags */
    CALL_FLAGS,  /* writes such that data is durable: dropping it clears flags */
    CALL_WRITE,  /* writes to such a file: dropping it writes without */
    CALL_SUBMIT, /* submits such things (aio.c): dropping it submits others */
    CALL_EVENTS, /* fetches the results of what was submitted */
    CALL_BEYOND, /* what the tracer cannot see through */
};

struct call {
    enum call_kind kind;
    const char *name;           /* of a sync; why not, of CALL_BEYOND */
    char path[PATH_TEXT];       /* of the file, normalised and escaped; "-" if none */
    unsigned long long *flags;  /* of CALL_OPEN, CALL_FLAGS: the register with them, in the caller's copy */
    unsigned long long cleared; /* ... and its value without them */
};

/* What the call is that `task` is about to make with `regs`; `dir` as above, or NULL. */
void call_read(pid_t task, struct user_regs_struct *regs, bool foreign, const char *dir,
               struct call *call);

/* Whether the last part of the path `path` is `name`; "." stands for any. */
bool call_has_name(const char *path, const char *name);

/* Whether a write can be made on another descriptor of the same file, given as the first. */
bool call_is_plain_write(const struct user_regs_struct *regs);

/* --- task.c --- */

/* With which flags a descriptor was opened; 0 if there is none. */
unsigned descriptor_flags(pid_t task, int fd);

/* The process that a task is of. */
pid_t process_of(pid_t task);

/* --- writes.c --- */

/* Has the process of `task`, which stopped before opening a file, stop at its writes from now on.
 * Whether it is to run again, up to the same stop; false if its writes stop already. */
bool writes_begin(pid_t task);

/* Whether there is any such process. */
bool writes_any(void);

/* A process has another as its child. */
void writes_inherit(pid_t parent, pid_t child);

/* A process has ended. */
void writes_forget(pid_t task);

/* Makes the plain write before which a task stopped, such that nothing is durable for it; the task
 * is to run on. */
void writes_drop(pid_t task, const struct user_regs_struct *regs, int site);

/* --- aio.c --- */

/* What of a submission is a sync, by its name, and its descriptor; NULL if nothing is. */
const char *aio_first_sync(pid_t task, uint64_t count, uint64_t list, int *fd);

/* A task is about to submit; `drop` takes from its blocks what makes them syncs, until it has. */
void aio_begin(pid_t task, const struct user_regs_struct *regs, int site, bool drop);

/* It has: so many blocks, or -errno. */
void aio_submitted(pid_t task, long long result);

/* Whether a submitted sync has no result yet. */
bool aio_any(void);

/* A task has fetched results. */
void aio_finished(pid_t task, uint64_t events, long long count);

/* --- inject.c --- */

struct injection {
    pid_t task;
    struct user_regs_struct before; /* when it stopped */
    uint64_t mask;                  /* of its signals */
    uint64_t page;                  /* of its memory, for us alone; 0 if there is none */
    int signal;                     /* one that came meanwhile; 0 if none */
    bool gone;
};

/* Makes a task that stopped before a call ready for calls of ours.  False if it was killed. */
bool injection_begin(struct injection *at, pid_t task);

/* Has it make a call; the result, or -errno. */
long long injection_call(struct injection *at, long number, uint64_t first, uint64_t second,
                         uint64_t third, uint64_t fourth, uint64_t fifth, uint64_t sixth);

/* Writes to our page. */
bool injection_put(struct injection *at, size_t offset, const void *data, size_t size);

/* Puts everything back; the task is about to make its call ... */
void injection_repeat(struct injection *at);
/* ... or has made it, with this result. */
void injection_return(struct injection *at, long long result);

/* --- memory.c --- */

/* Reads memory of a task; whether all of it was there. */
bool memory_read(pid_t task, uint64_t address, void *into, size_t size);

/* Writes it; whether all of it was there. */
bool memory_write(pid_t task, uint64_t address, const void *from, size_t size);

/* Appends `text` to what `into` holds, escaped; what does not fit is left out. */
void text_escaped(char *into, size_t size, const char *text);

/* --- module.c --- */

struct function; /* the unwinding rules of one */

struct module {
    char *path;
    uint64_t device, inode;
    const uint8_t *file; /* mapped; NULL if it could not be */
    size_t size;
    uint64_t frame_address; /* of .eh_frame */
    const uint8_t *frame;
    size_t frame_size;
    struct function *functions; /* sorted, by cfi.c */
    size_t function_count;
    struct module *next;
};

struct place {
    struct module *module; /* NULL: no file */
    uint64_t address;      /* as the module's symbols have it */
    uint64_t function;     /* where its function begins; the same if no rule says */
};

/* Where `pc` lies in `task`; false if nothing executable is there. */
bool module_find(pid_t task, uint64_t pc, struct place *place);

/* The task's address space is another one, or gone. */
void module_forget(pid_t task);

/* --- cfi.c --- */

enum saved { SAVED_NOT, SAVED_AT_CFA, SAVED_AT_RBP };

/* How to get from a frame to its caller's (DWARF 5, section 6.4). */
struct unwind_rule {
    bool known;
    bool last;        /* nobody called it */
    bool from_rbp;    /* the canonical frame address: rbp + offset, or rsp + offset */
    bool indirect;    /* ... stands in memory there */
    int64_t offset;
    enum saved rbp;   /* where the caller's rbp is */
    int64_t rbp_offset;
    uint64_t function; /* where it begins */
};

/* The rule at `address` of a module. */
void cfi_rule(struct module *module, uint64_t address, struct unwind_rule *rule);

/* --- stack.c --- */

/* The frames of a task that stopped with `regs`, innermost first; how many. */
int stack_walk(pid_t task, const struct user_regs_struct *regs, struct place frames[FRAMES_MAX]);

/* --- note.c --- */

/* Opens the channel for notes, and writes the first.  -1 and errno. */
int note_begin(const char *log);
/* Writes a note; format without KEY and newline. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct site {
    int number;
    uint64_t stack;
    char path[PATH_TEXT];
};

/* The site of a call; noted when it is new. */
const struct site *note_site(const struct call *call, const struct place *frames, int count);

#endif
