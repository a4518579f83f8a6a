/* SPDX-License-Identifier: Apache-2.0
 *
 * From the registers of a stopped task to the return addresses on its stack: by the compiler's
 * rules (cfi.c) where a module has them, else by frame pointers, which Go keeps.
 */
#include "synctrace.h"

#define FRAME_BYTES_MAX (1u << 24) /* a frame pointer that is farther off is none */

struct registers {
    uint64_t pc, rsp, rbp;
};

static bool word(pid_t task, uint64_t address, uint64_t *value)
{
    return memory_read(task, address, value, sizeof *value);
}

/* The caller's registers by a rule; false where the stack ends. */
static bool step_by_rule(pid_t task, const struct unwind_rule *rule, struct registers *now)
{
    uint64_t base = rule->from_rbp ? now->rbp : now->rsp;
    uint64_t cfa = base + (uint64_t)rule->offset, rbp = now->rbp;

    if (rule->indirect && !word(task, cfa, &cfa))
        return false;
    if (rule->rbp == SAVED_AT_CFA && !word(task, cfa + (uint64_t)rule->rbp_offset, &rbp))
        return false;
    if (rule->rbp == SAVED_AT_RBP && !word(task, now->rbp + (uint64_t)rule->rbp_offset, &rbp))
        return false;
    if (cfa <= now->rsp || !word(task, cfa - 8, &now->pc))
        return false;
    now->rsp = cfa;
    now->rbp = rbp;
    return true;
}

/* The caller's registers by the frame pointer. */
static bool step_by_pointer(pid_t task, struct registers *now)
{
    uint64_t frame = now->rbp;

    if (frame < now->rsp || frame - now->rsp > FRAME_BYTES_MAX || (frame & 7) != 0)
        return false;
    if (!word(task, frame + 8, &now->pc) || !word(task, frame, &now->rbp))
        return false;
    now->rsp = frame + 16;
    return true;
}

int stack_walk(pid_t task, const struct user_regs_struct *regs, struct place frames[FRAMES_MAX])
{
    struct registers now = {regs->rip, regs->rsp, regs->rbp};
    struct unwind_rule rule = {0};
    int count = 0;

    while (count < FRAMES_MAX && module_find(task, now.pc, &frames[count])) {
        struct place *place = &frames[count++];

        rule.known = false;
        place->function = place->address;
        /* A return address may stand behind its function: the call is what counts. */
        if (place->module != NULL)
            cfi_rule(place->module, place->address - 1, &rule);
        if (rule.known)
            place->function = rule.function;
        if (rule.known && rule.last)
            break;
        if (rule.known ? !step_by_rule(task, &rule, &now) : !step_by_pointer(task, &now))
            break;
    }
    return count;
}
