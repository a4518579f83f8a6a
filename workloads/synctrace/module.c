/* SPDX-License-Identifier: Apache-2.0
 *
 * What lies where in the address spaces of the program: /proc/PID/maps, and the ELF files in it.
 *
 * The files are the program's, so nothing in them is believed: each offset is held against the
 * size.
 */
#include "synctrace.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

struct mapping {
    uint64_t begin, end, offset;
    struct module *module; /* NULL: no file */
};

struct space {
    pid_t task;
    struct mapping *mappings;
    size_t count;
    struct space *next;
};

static struct space *spaces;
static struct module *modules;

static const void *part(const struct module *module, uint64_t offset, uint64_t size)
{
    if (offset > module->size || size > module->size - offset)
        return NULL;
    return module->file + offset;
}

/* The same of a table; linkers align it. */
static const void *table(const struct module *module, uint64_t offset, uint64_t size)
{
    return offset % _Alignof(Elf64_Xword) == 0 ? part(module, offset, size) : NULL;
}

/* Finds .eh_frame by its name. */
static void find_frames(struct module *module)
{
    const Elf64_Ehdr *head = part(module, 0, sizeof *head);
    const Elf64_Shdr *sections, *names;
    const char *name;
    unsigned index;

    if (head == NULL || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
        head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_shentsize != sizeof *sections)
        return;
    sections = table(module, head->e_shoff, (uint64_t)head->e_shnum * sizeof *sections);
    if (sections == NULL || head->e_shstrndx >= head->e_shnum)
        return;
    names = &sections[head->e_shstrndx];
    for (index = 0; index < head->e_shnum; index++) {
        const Elf64_Shdr *section = &sections[index];

        name = part(module, names->sh_offset + section->sh_name, sizeof ".eh_frame");
        if (name == NULL || memcmp(name, ".eh_frame", sizeof ".eh_frame") != 0)
            continue;
        module->frame = part(module, section->sh_offset, section->sh_size);
        module->frame_size = module->frame == NULL ? 0 : section->sh_size;
        module->frame_address = section->sh_addr;
    }
}

static void map_file(struct module *module, pid_t task)
{
    char path[PATH_MAX + 64];
    struct stat about;
    void *file;
    int fd;

    snprintf(path, sizeof path, "/proc/%d/root%s", task, module->path);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return;
    if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_ino == module->inode &&
        about.st_size > 0) {
        file = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (file != MAP_FAILED) {
            module->file = file;
            module->size = (size_t)about.st_size;
            find_frames(module);
        }
    }
    close(fd);
}

static struct module *module_of(pid_t task, const char *path, uint64_t device, uint64_t inode)
{
    struct module *module;

    for (module = modules; module != NULL; module = module->next)
        if (module->device == device && module->inode == inode && strcmp(module->path, path) == 0)
            return module;
    module = calloc(1, sizeof *module);
    if (module == NULL || (module->path = strdup(path)) == NULL)
        abort();
    module->device = device;
    module->inode = inode;
    map_file(module, task);
    module->next = modules;
    modules = module;
    return module;
}

static void read_maps(struct space *space)
{
    char name[64], line[PATH_MAX + 128], rights[5], path[PATH_MAX];
    unsigned long begin, end, offset, inode;
    unsigned major, minor;
    struct mapping *mapping;
    FILE *maps;

    snprintf(name, sizeof name, "/proc/%d/maps", space->task);
    maps = fopen(name, "re");
    space->count = 0;
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        path[0] = '\0';
        if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %4095[^\n]", &begin, &end, rights, &offset,
                   &major, &minor, &inode, path) < 7 || strchr(rights, 'x') == NULL)
            continue;
        mapping = reallocarray(space->mappings, space->count + 1, sizeof *mapping);
        if (mapping == NULL)
            abort();
        space->mappings = mapping;
        mapping += space->count++;
        *mapping = (struct mapping){begin, end, offset, NULL};
        if (path[0] == '/')
            mapping->module = module_of(space->task, path, makedev(major, minor), inode);
    }
    if (maps != NULL)
        fclose(maps);
}

static const struct mapping *lookup(const struct space *space, uint64_t pc)
{
    size_t index;

    for (index = 0; index < space->count; index++)
        if (pc >= space->mappings[index].begin && pc < space->mappings[index].end)
            return &space->mappings[index];
    return NULL;
}

/* From an offset in the file to the address that its symbols use. */
static uint64_t symbol_address(const struct module *module, uint64_t offset)
{
    const Elf64_Ehdr *head = part(module, 0, sizeof *head);
    const Elf64_Phdr *parts;
    unsigned index;

    if (head == NULL || head->e_phentsize != sizeof *parts)
        return offset;
    parts = table(module, head->e_phoff, (uint64_t)head->e_phnum * sizeof *parts);
    for (index = 0; parts != NULL && index < head->e_phnum; index++)
        if (parts[index].p_type == PT_LOAD && offset >= parts[index].p_offset &&
            offset - parts[index].p_offset < parts[index].p_filesz)
            return parts[index].p_vaddr + (offset - parts[index].p_offset);
    return offset;
}

bool module_find(pid_t task, uint64_t pc, struct place *place)
{
    const struct mapping *found = NULL;
    struct space *space;

    for (space = spaces; space != NULL && space->task != task; space = space->next)
        ;
    if (space != NULL)
        found = lookup(space, pc);
    if (found == NULL) {
        if (space == NULL) {
            space = calloc(1, sizeof *space);
            if (space == NULL)
                abort();
            space->task = task;
            space->next = spaces;
            spaces = space;
        }
        read_maps(space);
        found = lookup(space, pc);
    }
    if (found == NULL)
        return false;
    *place = (struct place){found->module, 0, 0};
    if (found->module != NULL)
        place->address = symbol_address(found->module, pc - found->begin + found->offset);
    return true;
}

void module_forget(pid_t task)
{
    struct space **link, *gone;

    for (link = &spaces; *link != NULL; link = &(*link)->next)
        if ((*link)->task == task) {
            gone = *link;
            *link = gone->next;
            free(gone->mappings);
            free(gone);
            return;
        }
}
