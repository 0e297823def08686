/* Products of rows of two factors, added up at their targets: see join.py and dense.py.

   In join_rows a row has G groups of C channels. `shape` has G and C, and then for each factor and for the
   result how far rows, groups and channels are apart; 0 where one value serves all, or where the
   result is a sum. Everything is single precision, and nothing is allocated. */

#include <stdint.h>
#include <string.h>

enum { GROUPS, CHANNELS, OF_A, OF_B = OF_A + 3, OF_OUT = OF_B + 3 };
enum { SIDES = 16 }; /* sums of products that are taken side by side */

static inline float dot(const float *restrict a, const float *restrict b, int64_t count) {
    float part[SIDES] = {0}, total = 0;
    int64_t c = 0;
    for (; c + SIDES <= count; c += SIDES)
        for (int k = 0; k < SIDES; k++) part[k] += a[c + k] * b[c + k];
    for (; c < count; c++) total += a[c] * b[c];
    for (int k = 0; k < SIDES; k++) total += part[k];
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

/* ---- products of matrices: see dense.py

   The elements of a matrix are rows of channels. A list says which row is in every cell, -1 where
   there is none, and signs say which of them are negated. Channels are taken CELL_LANES at a time.
   A part of the second factor is packed in strips of STRIP columns, so that it stays in the cache;
   the first factor is packed MOST_TILE rows at a time. */

#ifdef __AVX512F__
enum { CELL_LANES = 16, MOST_TILE = 6, STRIP = 4 };
#else
enum { CELL_LANES = 8, MOST_TILE = 3, STRIP = 3 };
#endif
enum { MOST_COLUMNS = 24 * STRIP, MOST_INNER = 40 };
typedef float cell __attribute__((vector_size(CELL_LANES * 4)));
typedef float loose_cell __attribute__((vector_size(CELL_LANES * 4), aligned(4), may_alias));

typedef struct {
    float *x;             /* rows of `width` channels */
    const int32_t *rows;  /* of the cells of a matrix */
    const int8_t *sign;   /* of the cells, or 0 */
    int64_t row, column;  /* how far cells are apart */
} matrix;

static const cell no_row = {0};

/* The cells at `at`, `at + step` and so on, of the channels from `first`. */
static inline void get_cells(const matrix *m, int64_t at, int64_t step, int64_t count,
                             int64_t width, int64_t first, cell *to) {
    if (width - first >= CELL_LANES && !m->sign) {
        for (int64_t k = 0; k < count; k++, at += step) {
            int32_t row = m->rows[at];
            to[k] = *(const loose_cell *)(row < 0 ? (const float *)&no_row
                                                  : m->x + row * width + first);
        }
        return;
    }
    int64_t most = width - first < CELL_LANES ? width - first : CELL_LANES;
    for (int64_t k = 0; k < count; k++, at += step) {
        int32_t row = m->rows[at];
        float s = m->sign && m->sign[at] < 0 ? -1 : 1;
        to[k] = no_row;
        if (row >= 0)
            for (int64_t c = 0; c < most; c++) to[k][c] = s * m->x[row * width + first + c];
    }
}

static inline void add_cell(const matrix *m, int64_t at, int64_t width, int64_t first, cell v) {
    int32_t row = m->rows[at];
    if (row < 0) return;
    float *x = m->x + row * width + first;
    if (m->sign && m->sign[at] < 0) v = -v;
    if (width - first >= CELL_LANES) *(loose_cell *)x += v;
    else for (int64_t c = 0; c < width - first; c++) x[c] += v[c];
}

/* M rows of packed x times a strip of packed y, added to cells of out. */
#define CELLS_TIMES(NAME, M)                                                                       \
    static inline void NAME(const cell *x, const cell *y, int64_t inner, const matrix *out,        \
                            int64_t p, int64_t q, int64_t columns, int64_t width, int64_t first) { \
        cell sum[M][STRIP] = {{{0}}};                                                              \
        for (int64_t m = 0; m < inner; m++, x += M, y += STRIP)                                    \
            for (int i = 0; i < M; i++)                                                            \
                for (int j = 0; j < STRIP; j++) sum[i][j] += x[i] * y[j];                          \
        for (int i = 0; i < M; i++)                                                                \
            for (int j = 0; j < STRIP; j++)                                                        \
                if (j < columns)                                                                   \
                    add_cell(out, (p + i) * out->row + (q + j) * out->column, width, first,        \
                             sum[i][j]);                                                           \
    }

CELLS_TIMES(six_times, 6)
CELLS_TIMES(three_times, 3)
CELLS_TIMES(two_times, 2)
CELLS_TIMES(one_times, 1)

/* How many rows are taken at a time, where so many are left. */
static inline int64_t tile_of(int64_t left) {
    return left >= MOST_TILE ? MOST_TILE : left >= 3 ? 3 : left;
}

/* out (p_count, q_count) += x (p_count, m_count) y (m_count, q_count), for all channels. */
static void multiply_cells(const matrix *x, const matrix *y, const matrix *out, int64_t p_count,
                           int64_t m_count, int64_t q_count, int64_t width) {
    const int64_t blocks = (m_count + MOST_INNER - 1) / MOST_INNER;
    const int64_t block = blocks ? (m_count + blocks - 1) / blocks : 0;
    cell right[MOST_INNER * MOST_COLUMNS], left[MOST_INNER * MOST_TILE];
    for (int64_t c = 0; c < width; c += CELL_LANES)
        for (int64_t q0 = 0; q0 < q_count; q0 += MOST_COLUMNS)
            for (int64_t m0 = 0; m0 < m_count; m0 += block) {
                int64_t columns = q_count - q0 < MOST_COLUMNS ? q_count - q0 : MOST_COLUMNS;
                int64_t inner = m_count - m0 < block ? m_count - m0 : block;
                for (int64_t q = 0; q < columns; q += STRIP)
                    for (int64_t m = 0; m < inner; m++) {
                        cell *to = right + q * inner + m * STRIP;
                        int64_t count = columns - q < STRIP ? columns - q : STRIP;
                        get_cells(y, (m0 + m) * y->row + (q0 + q) * y->column, y->column, count,
                                  width, c, to);
                        for (int64_t j = count; j < STRIP; j++) to[j] = no_row;
                    }
                for (int64_t p = 0, tile; p < p_count; p += tile) {
                    tile = tile_of(p_count - p);
                    for (int64_t m = 0; m < inner; m++)
                        get_cells(x, p * x->row + (m0 + m) * x->column, x->row, tile, width, c,
                                  left + m * tile);
                    for (int64_t q = 0; q < columns; q += STRIP) {
                        const cell *strip = right + q * inner;
                        int64_t count = columns - q < STRIP ? columns - q : STRIP, at = q0 + q;
                        if (tile == 6)
                            six_times(left, strip, inner, out, p, at, count, width, c);
                        else if (tile == 3)
                            three_times(left, strip, inner, out, p, at, count, width, c);
                        else if (tile == 2)
                            two_times(left, strip, inner, out, p, at, count, width, c);
                        else
                            one_times(left, strip, inner, out, p, at, count, width, c);
                    }
                }
            }
}

/* For the structures from `first` to `last`, one role of a step: the target, or the gradient of a
   factor. What has the other roles is x and y, in order. */
void join_cells(const int64_t *sizes, int64_t num_structures, int64_t role, int64_t width,
                float *x, float *y, float *out, const int32_t *rows_x, const int8_t *sign_x,
                const int32_t *rows_y, const int8_t *sign_y, const int32_t *rows_out,
                const int8_t *sign_out, int64_t first, int64_t last) {
    int64_t target = 0, left_cells = 0, right_cells = 0;
    for (int64_t s = 0; s < last; s++) {
        const int64_t outer = sizes[s], left = sizes[num_structures + s],
                      inner = sizes[2 * num_structures + s], right = sizes[3 * num_structures + s];
        for (int64_t o = 0; o < outer; o++) {
            if (s >= first) {
                int64_t x_at = role == 0 ? left_cells : target;
                int64_t y_at = role == 2 ? left_cells : right_cells;
                int64_t out_at = role == 0 ? target : role == 1 ? left_cells : right_cells;
                matrix a = {x, rows_x + x_at, sign_x ? sign_x + x_at : 0, 0, 0};
                matrix b = {y, rows_y + y_at, sign_y ? sign_y + y_at : 0, 0, 0};
                matrix c = {out, rows_out + out_at, sign_out ? sign_out + out_at : 0, 0, 0};
                if (role == 0) { /* target (left, right) = x (left, inner) y (inner, right) */
                    a.row = inner, a.column = 1, b.row = right, b.column = 1;
                    c.row = right, c.column = 1;
                    multiply_cells(&a, &b, &c, left, inner, right, width);
                } else if (role == 1) { /* (left, inner) = target (left, right) y transposed */
                    a.row = right, a.column = 1, b.row = 1, b.column = right;
                    c.row = inner, c.column = 1;
                    multiply_cells(&a, &b, &c, left, right, inner, width);
                } else { /* transposed (right, inner) = target transposed x (left, inner) */
                    a.row = 1, a.column = right, b.row = inner, b.column = 1;
                    c.row = 1, c.column = right;
                    multiply_cells(&a, &b, &c, right, left, inner, width);
                }
            }
            target += left * right, left_cells += left * inner, right_cells += inner * right;
        }
    }
}
