/* SPDX-License-Identifier: Apache-2.0
 *
 * The unwinding rules that compilers leave in .eh_frame (DWARF 5, section 6.4; Linux Standard Base
 * 5.0, chapter 10.6), as far as a stack of return addresses wants them: where the canonical frame
 * address is, and the caller's rbp.  A function that needs more is said to be unknown.
 */
#include "synctrace.h"

#include <stdlib.h>
#include <string.h>

enum { RBP = 6, RSP = 7, RETURN_ADDRESS = 16, REMEMBERED_MAX = 8 };

struct bytes {
    const uint8_t *at, *end;
    bool bad; /* something was to be read past the end */
};

/* What the entries of one compilation unit have in common. */
struct common {
    struct bytes program;
    uint64_t code_align;
    uint64_t data_align; /* a signed number: products are modulo 2^64, as a stranger's may be any */
    uint8_t encoding;
    bool augmented, known;
};

struct function {
    uint64_t begin, end;
    const uint8_t *entry, *common;
};

static uint64_t take(struct bytes *from, size_t size)
{
    uint64_t value = 0;

    if ((size_t)(from->end - from->at) < size) {
        from->bad = true;
        from->at = from->end;
        return 0;
    }
    memcpy(&value, from->at, size);
    from->at += size;
    return value;
}

static uint64_t take_uleb(struct bytes *from)
{
    uint64_t value = 0, byte;
    unsigned shift = 0;

    do {
        byte = take(from, 1);
        if (shift < 64)
            value |= (byte & 0x7f) << shift;
        shift += 7;
    } while ((byte & 0x80) != 0);
    return value;
}

static int64_t take_sleb(struct bytes *from)
{
    uint64_t value = 0, byte;
    unsigned shift = 0;

    do {
        byte = take(from, 1);
        if (shift < 64)
            value |= (byte & 0x7f) << shift;
        shift += 7;
    } while ((byte & 0x80) != 0);
    if ((byte & 0x40) != 0 && shift < 64)
        value |= ~(uint64_t)0 << shift;
    return (int64_t)value;
}

/* A pointer in one of the forms that linkers write; marks others as bad. */
static uint64_t take_pointer(struct bytes *from, uint8_t encoding, const struct module *module)
{
    uint64_t here = module->frame_address + (uint64_t)(from->at - module->frame), value;

    switch (encoding & 0x0f) {
    case 0x00: case 0x04: case 0x0c:
        value = take(from, 8);
        break;
    case 0x03:
        value = take(from, 4);
        break;
    case 0x0b:
        value = (uint64_t)(int64_t)(int32_t)take(from, 4);
        break;
    default:
        from->bad = true;
        return 0;
    }
    if ((encoding & 0x70) == 0x10)
        value += here;
    else if ((encoding & 0x70) != 0)
        from->bad = true;
    return value;
}

/* The next entry of the section; its first field (0: a common one) stands at `at`. */
static bool next_entry(struct bytes *section, struct bytes *entry)
{
    uint64_t length = take(section, 4);

    if (section->bad || length == 0 || length == 0xffffffff ||
        length > (uint64_t)(section->end - section->at))
        return false;
    *entry = (struct bytes){section->at, section->at + length, false};
    section->at += length;
    return true;
}

static void read_augmentation(struct bytes *entry, const char *letters, struct common *common,
                              const struct module *module)
{
    struct bytes data;
    uint64_t length;

    if (letters[0] != 'z') {
        common->known = letters[0] == '\0';
        return;
    }
    common->augmented = true;
    length = take_uleb(entry);
    if (length > (uint64_t)(entry->end - entry->at)) {
        entry->bad = true;
        return;
    }
    data = (struct bytes){entry->at, entry->at + length, false};
    entry->at += length;
    for (letters++; *letters != '\0'; letters++) {
        if (*letters == 'R') {
            common->encoding = (uint8_t)take(&data, 1);
        } else if (*letters == 'L') {
            take(&data, 1);
        } else if (*letters == 'P') {
            uint8_t encoding = (uint8_t)take(&data, 1);

            take_pointer(&data, encoding & 0x7f, module);
        } else { /* S, a frame of a signal, has registers elsewhere */
            common->known = false;
        }
    }
    common->known = common->known && !data.bad;
}

/* Reads the common entry whose length field stands at `at`. */
static void read_common(const struct module *module, const uint8_t *at, struct common *common)
{
    struct bytes section = {at, module->frame + module->frame_size, false}, entry;
    const char *letters;
    uint8_t version;

    memset(common, 0, sizeof *common);
    if (!next_entry(&section, &entry) || take(&entry, 4) != 0)
        return;
    version = (uint8_t)take(&entry, 1);
    letters = (const char *)entry.at;
    while (!entry.bad && take(&entry, 1) != 0)
        ;
    if (entry.bad || (version != 1 && version != 3))
        return;
    common->known = true;
    common->code_align = take_uleb(&entry);
    common->data_align = (uint64_t)take_sleb(&entry);
    if ((version == 1 ? take(&entry, 1) : take_uleb(&entry)) != RETURN_ADDRESS)
        common->known = false;
    read_augmentation(&entry, letters, common, module);
    common->known = common->known && !entry.bad;
    common->program = entry;
}

static int by_address(const void *one, const void *other)
{
    const struct function *a = one, *b = other;

    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

/* Lists the functions of a module, once. */
static void list_functions(struct module *module)
{
    struct bytes section = {module->frame, module->frame + module->frame_size, false}, entry;
    struct function *grown, *functions = NULL;
    const uint8_t *field, *start;
    size_t count = 0, room = 0;
    struct common common;
    uint64_t id;

    for (start = section.at; next_entry(&section, &entry); start = section.at) {
        field = entry.at;
        id = take(&entry, 4);
        if (entry.bad || id == 0 || id > (uint64_t)(field - module->frame))
            continue;
        read_common(module, field - id, &common);
        if (!common.known)
            continue;
        if (count == room) {
            room = room == 0 ? 256 : 2 * room;
            grown = reallocarray(functions, room, sizeof *functions);
            if (grown == NULL)
                abort();
            functions = grown;
        }
        functions[count].begin = take_pointer(&entry, common.encoding, module);
        functions[count].end = functions[count].begin + take_pointer(&entry, common.encoding & 0x0f, module);
        functions[count].entry = start;
        functions[count].common = field - id;
        count += !entry.bad;
    }
    if (count > 0)
        qsort(functions, count, sizeof *functions, by_address);
    module->functions = functions;
    module->function_count = count;
    module->frame_size = count > 0 ? module->frame_size : 0;
}

static const struct function *find_function(struct module *module, uint64_t address)
{
    size_t low = 0, high, middle;

    if (module->functions == NULL && module->frame_size > 0)
        list_functions(module);
    high = module->function_count;
    while (low < high) {
        middle = low + (high - low) / 2;
        if (module->functions[middle].begin <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || address >= module->functions[low - 1].end)
        return NULL;
    return &module->functions[low - 1];
}

/* A block of one expression: `length` bytes, of which only two forms are known. */
static struct bytes take_block(struct bytes *from)
{
    uint64_t length = take_uleb(from);
    struct bytes block = {from->at, from->at, false};

    if (length > (uint64_t)(from->end - from->at)) {
        from->bad = true;
        return block;
    }
    from->at += length;
    block.end = from->at;
    return block;
}

/* DW_CFA_def_cfa_expression: DW_OP_breg6 N, DW_OP_deref (a stack that was aligned anew). */
static void define_by_expression(struct bytes *program, struct unwind_rule *rule)
{
    struct bytes block = take_block(program);
    bool rbp = take(&block, 1) == 0x76;

    rule->from_rbp = rule->indirect = true;
    rule->offset = take_sleb(&block);
    rule->known = rbp && take(&block, 1) == 0x06 && block.at == block.end && !block.bad;
}

/* DW_CFA_expression of rbp: DW_OP_breg6 N. */
static void save_by_expression(struct bytes *program, struct unwind_rule *rule)
{
    uint64_t which = take_uleb(program);
    struct bytes block = take_block(program);

    if (which != RBP)
        return;
    rule->rbp = SAVED_AT_RBP;
    rule->known = rule->known && take(&block, 1) == 0x76;
    rule->rbp_offset = take_sleb(&block);
}

static void define(struct unwind_rule *rule, uint64_t which)
{
    rule->known = which == RBP || which == RSP;
    rule->from_rbp = which == RBP;
    rule->indirect = false;
}

static void save(struct unwind_rule *rule, uint64_t which, int64_t offset)
{
    if (which == RBP) {
        rule->rbp = SAVED_AT_CFA;
        rule->rbp_offset = offset;
    } else if (which == RETURN_ADDRESS && offset != -8) {
        rule->known = false;
    }
}

static void restore(struct unwind_rule *rule, uint64_t which, const struct unwind_rule *initial)
{
    if (which == RBP) {
        rule->rbp = initial->rbp;
        rule->rbp_offset = initial->rbp_offset;
    }
}

/* Runs the instructions of `program` that hold at `address`; `at` is where they begin. */
static void run(struct bytes program, const struct common *common, const struct module *module,
                uint64_t at, uint64_t address, struct unwind_rule *rule)
{
    struct unwind_rule remembered[REMEMBERED_MAX], initial = *rule;
    unsigned depth = 0;
    uint64_t which;

    while (program.at < program.end && !program.bad) {
        uint8_t code = (uint8_t)take(&program, 1), low = code & 0x3f;

        switch ((code & 0xc0) != 0 ? code & 0xc0 : code) {
        case 0x40: at += low * common->code_align; break;
        case 0x80: save(rule, low, (int64_t)(take_uleb(&program) * common->data_align)); break;
        case 0xc0: restore(rule, low, &initial); break;
        case 0x00: break;
        case 0x01: at = take_pointer(&program, common->encoding, module); break;
        case 0x02: at += take(&program, 1) * common->code_align; break;
        case 0x03: at += take(&program, 2) * common->code_align; break;
        case 0x04: at += take(&program, 4) * common->code_align; break;
        case 0x05: which = take_uleb(&program); save(rule, which, (int64_t)(take_uleb(&program) * common->data_align)); break;
        case 0x11: which = take_uleb(&program); save(rule, which, (int64_t)((uint64_t)take_sleb(&program) * common->data_align)); break;
        case 0x06: restore(rule, take_uleb(&program), &initial); break;
        case 0x07: rule->last |= take_uleb(&program) == RETURN_ADDRESS; break;
        case 0x08: take_uleb(&program); break;
        case 0x0a: if (depth < REMEMBERED_MAX) remembered[depth++] = *rule; else program.bad = true; break;
        case 0x0b: if (depth > 0) *rule = remembered[--depth]; else program.bad = true; break;
        case 0x0c: define(rule, take_uleb(&program)); rule->offset = (int64_t)take_uleb(&program); break;
        case 0x0d: define(rule, take_uleb(&program)); break;
        case 0x0e: rule->offset = (int64_t)take_uleb(&program); break;
        case 0x0f: define_by_expression(&program, rule); break;
        case 0x10: save_by_expression(&program, rule); break;
        case 0x2e: take_uleb(&program); break;
        default: program.bad = true;
        }
        if (at > address)
            break;
    }
    rule->known = rule->known && !program.bad;
}

void cfi_rule(struct module *module, uint64_t address, struct unwind_rule *rule)
{
    const struct function *function = find_function(module, address);
    struct bytes section, entry;
    struct common common;

    memset(rule, 0, sizeof *rule);
    if (function == NULL)
        return;
    read_common(module, function->common, &common);
    section = (struct bytes){function->entry, module->frame + module->frame_size, false};
    if (!common.known || !next_entry(&section, &entry))
        return;
    take(&entry, 4);
    take_pointer(&entry, common.encoding, module);
    take_pointer(&entry, common.encoding & 0x0f, module);
    if (common.augmented)
        take_block(&entry);
    rule->known = !entry.bad;
    rule->function = function->begin;
    run(common.program, &common, module, 0, UINT64_MAX, rule);
    if (rule->known)
        run(entry, &common, module, function->begin, address, rule);
}
