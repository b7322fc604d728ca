/* Damages JPEGs, but not in the last round, has boxes of them decoded and all of them rewritten, and what was written
   damaged again and compared; built with sanitizers, which end it where memory is misused.

   boxes ROUNDS FILE... */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coefficients.h"
#include "crop.h"

static size_t random_below(size_t limit) { return (size_t)rand() % limit; }

/* A few bytes changed, most in the scan; sometimes cut short, with an end marker where the cut is. */
static size_t damage(uint8_t *bytes, size_t num_bytes) {
    size_t scan = 0;
    while (scan + 1 < num_bytes && !(bytes[scan] == 0xFF && bytes[scan + 1] == 0xDA)) scan++;
    for (size_t count = 1 + random_below(4); count; count--)
        bytes[random_below(3) ? scan + random_below(num_bytes - scan) : random_below(scan + 14)] = (uint8_t)rand();
    if (random_below(5)) return num_bytes;
    num_bytes = 4 + random_below(num_bytes - 4);
    memcpy(bytes + num_bytes - 2, "\xFF\xD9", 2);
    return num_bytes;
}

/* From a quarter of a side, which is less than can be resized to, to twice of it. */
static int other_side(int side) { return side / 4 + 1 + (int)random_below((size_t)(2 * side)); }

static int is_decoded(const uint8_t *bytes, size_t num_bytes) {
    Jpeg jpeg;
    if (parse_jpeg(bytes, num_bytes, &jpeg) || (long)jpeg.height * jpeg.width > 1 << 22) return 0;
    Box box = {.height = 1 + (int)random_below((size_t)jpeg.height),
               .width = 1 + (int)random_below((size_t)jpeg.width)};
    box.top = (int)random_below((size_t)(jpeg.height - box.height + 1));
    box.left = (int)random_below((size_t)(jpeg.width - box.width + 1));
    int is_resized = (int)random_below(2);
    int height = is_resized ? other_side(box.height) : box.height, width = is_resized ? other_side(box.width) : box.width;
    uint8_t *rgb = malloc((size_t)height * (size_t)width * 3);
    int failed = decode_box(&jpeg, &box, height, width, rgb);
    free(rgb);
    return !failed;
}

/* Pixels whose rows end where memory ends. */
static void resize_some(void) {
    size_t height = 1 + random_below(40), width = 1 + random_below(80);
    uint8_t *pixels = malloc(3 * height * width);
    memset(pixels, 1, 3 * height * width);
    Pixels image = {pixels, height, width, (ptrdiff_t)(3 * width)};
    Rows rows = {read_pixels, &image, (int)height, (int)width};
    int to_height = other_side((int)height), to_width = other_side((int)width);
    uint8_t *rgb = malloc((size_t)to_height * (size_t)to_width * 3);
    if (!resize(&rows, to_height, to_width, rgb))
        for (size_t byte = 0; byte < (size_t)to_height * (size_t)to_width * 3; byte++)
            if (rgb[byte] != 1) abort();
    free(rgb);
    free(pixels);
}

static int is_rewritten(const uint8_t *bytes, size_t num_bytes) {
    uint8_t *written;
    size_t num_written;
    return !rewrite(bytes, num_bytes, 1 + (int)random_below(5), &written, &num_written) && (free(written), 1);
}

/* Whether the comparison after rewriting notices a changed byte of the coded data; -1: it was not rewritten. */
static int is_noticed(const uint8_t *bytes, size_t num_bytes) {
    Coefficients picture, again;
    uint8_t *written = NULL;
    size_t num_written;
    int noticed = -1;
    if (!read_coefficients(bytes, num_bytes, NULL, &picture) &&
        !write_coefficients(&picture, 1 + (int)random_below(5), &written, &num_written)) {
        size_t scan = num_written;
        while (!(written[scan - 2] == 0xFF && written[scan - 1] == SCAN)) scan--;
        size_t at = scan + 12 + random_below(num_written - scan - 14);
        written[at] ^= (uint8_t)(1 + random_below(255));
        noticed = read_coefficients(written, num_written, &picture, &again) != NULL;
        release(&again);
    }
    free(written);
    release(&picture);
    return noticed;
}

int main(int num_arguments, char **arguments) {
    static uint8_t file[1 << 20];
    long num_tried = 0, num_decoded = 0, num_rewritten = 0, num_changed = 0, num_noticed = 0;
    for (int round = atoi(arguments[1]); round; round--) {
        for (int place = 2; place < num_arguments; place++, num_tried++) {
            FILE *opened = fopen(arguments[place], "rb");
            size_t num_bytes = fread(file, 1, sizeof file, opened);
            if (round > 1) num_bytes = damage(file, num_bytes);
            fclose(opened);
            uint8_t *exact = malloc(num_bytes); /* a byte past its end is noticed */
            memcpy(exact, file, num_bytes);
            num_decoded += is_decoded(exact, num_bytes);
            resize_some();
            if (round % 3 == 1) {
                num_rewritten += is_rewritten(exact, num_bytes);
                int noticed = is_noticed(exact, num_bytes);
                num_changed += noticed >= 0, num_noticed += noticed > 0;
            }
            free(exact);
        }
    }
    printf("%ld %ld %ld %ld %ld\n", num_tried, num_decoded, num_rewritten, num_changed, num_noticed);
    return 0;
}
