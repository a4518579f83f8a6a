/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: the ELF files of programs and the rules in their .eh_frame, as the tracer of
 * syncs reads them.
 */
#include "../../../workloads/synctrace/module.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint64_t addresses[] = {0, 1, 0x1000, 0x1010, 0x401000, 1ull << 63, UINT64_MAX};
    struct module module = {.size = size};
    struct unwind_rule rule;
    void *file; /* mapped, it begins at a page */

    if (posix_memalign(&file, 16, size ? size : 1) != 0)
        return 0;
    memcpy(file, data, size);
    module.file = file;
    find_frames(&module);
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        symbol_address(&module, addresses[i]);
        cfi_rule(&module, addresses[i], &rule);
    }
    free(module.functions);
    free(file);
    return 0;
}
