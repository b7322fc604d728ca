/* Memory in pages of 2 MB, of which Linux hands out 512 times fewer. */

#ifndef MXTRAIN_LARGE_PAGES_H
#define MXTRAIN_LARGE_PAGES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#define LARGE_PAGE ((size_t)1 << 21)
#define FEWEST_BYTES ((size_t)1 << 25) /* that no allocator keeps: glibc gives what is larger back to Linux each time */

/* Ask Linux for large pages behind so many bytes, where they are many and it has some; else nothing changes. */
static inline void ask_for_large_pages(void *memory, size_t bytes) {
#ifdef MADV_HUGEPAGE
    uintptr_t begin = ((uintptr_t)memory + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    uintptr_t end = ((uintptr_t)memory + bytes) / LARGE_PAGE * LARGE_PAGE;
    if (bytes >= FEWEST_BYTES) madvise((void *)begin, end - begin, MADV_HUGEPAGE);
#else
    (void)memory, (void)bytes;
#endif
}

#endif
