/* The checksum of records. */

#ifndef MXTRAIN_CHECKSUM_H
#define MXTRAIN_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* zlib.crc32(bytes, before) */
uint32_t checksum(const uint8_t *bytes, size_t num_bytes, uint32_t before);

#endif
