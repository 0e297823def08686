/* Products of rows of two factors, added up at their targets: see join.py.

   A row has G groups of C channels. `shape` has G and C, and then for each factor and for the
   result how far rows, groups and channels are apart; 0 where one value serves all, or where the
   result is a sum. Everything is single precision, and nothing is allocated. */

#include <stdint.h>
#include <string.h>

enum { GROUPS, CHANNELS, OF_A, OF_B = OF_A + 3, OF_OUT = OF_B + 3 };
enum { LANES = 16 }; /* sums of products that are taken side by side */

static inline float dot(const float *restrict a, const float *restrict b, int64_t count) {
    float part[LANES] = {0}, total = 0;
    int64_t c = 0;
    for (; c + LANES <= count; c += LANES)
        for (int k = 0; k < LANES; k++) part[k] += a[c + k] * b[c + k];
    for (; c < count; c++) total += a[c] * b[c];
    for (int k = 0; k < LANES; k++) total += part[k];
    return total;
}

/* out += s a b for one group; a and b have as many channels as the group, or one. */
static inline void add_product(const float *restrict a, int is_a_wide, const float *restrict b,
                               int is_b_wide, float s, int64_t count, float *restrict out,
                               int is_wide) {
    if (is_wide && is_a_wide && is_b_wide) {
        for (int64_t c = 0; c < count; c++) out[c] += s * a[c] * b[c];
    } else if (is_wide) {
        const float *v = is_a_wide ? a : b, w = s * (is_a_wide ? b[0] : a[0]);
        for (int64_t c = 0; c < count; c++) out[c] += w * v[c];
    } else if (is_a_wide && is_b_wide) {
        out[0] += s * dot(a, b, count);
    } else {
        const float *v = is_a_wide ? a : b, w = s * (is_a_wide ? b[0] : a[0]);
        float total = 0;
        for (int64_t c = 0; c < (is_a_wide || is_b_wide ? count : 1); c++) total += v[c];
        out[0] += w * total;
    }
}

/* For the targets from `first` to `last`: the sum of their products. */
void join_rows(const int64_t *shape, const float *a, const float *b, const int32_t *rows_a,
               const int32_t *rows_b, const int8_t *sign, const int32_t *ptr, int64_t first,
               int64_t last, float *out) {
    const int64_t *of_a = shape + OF_A, *of_b = shape + OF_B, *of_out = shape + OF_OUT;
    for (int64_t t = first; t < last; t++) {
        float *to = out + t * of_out[0];
        memset(to, 0, sizeof(float) * of_out[0]);
        for (int32_t p = ptr[t]; p < ptr[t + 1]; p++) {
            const float *x = a + rows_a[p] * of_a[0], *y = b + rows_b[p] * of_b[0];
            float s = sign ? (float)sign[p] : 1;
            for (int64_t g = 0; g < shape[GROUPS]; g++)
                add_product(x + g * of_a[1], (int)of_a[2], y + g * of_b[1], (int)of_b[2], s,
                            shape[CHANNELS], to + g * of_out[1], (int)of_out[2]);
        }
    }
}
