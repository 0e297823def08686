/* The engine for small structures in one call each way: what `engine.py` does with several dozen calls of torch, in the same order.

A stack comes as an array of integers: T, L, K (tensors, levels, channels), row_ptr[T + 1], level_ptr[L + 1], num_slots[L], and the
addresses of bags_of_rows, bags_ptr, rows_of_bags, rows_ptr, and of the signs of bags_of_rows and rows_of_bags, 0 if there are none.
Products and partners come as the tables that `native.py` makes. Products of matrices are BLAS's, by the address that torch itself uses.
Everything is single precision, and nothing is allocated here. */

#include <stdint.h>
#include <string.h>

typedef void gemm_t(const char *, const char *, const int *, const int *, const int *, const float *, const float *, const int *,
                    const float *, const int *, const float *, float *, const int *);

static gemm_t *sgemm;

void set_gemm(void *address) { sgemm = (gemm_t *)address; }

typedef struct {
    int64_t T, L, K;
    const int64_t *row_ptr, *level_ptr, *num_slots;
    const int32_t *bags_of_rows, *bags_ptr, *rows_of_bags, *rows_ptr;
    const float *signs_of_rows, *signs_of_bags;
} stack_t_;

static stack_t_ stack_of(const int64_t *a) {
    stack_t_ s = {a[0], a[1], a[2], a + 3, 0, 0, 0, 0, 0, 0, 0, 0};
    s.level_ptr = s.row_ptr + s.T + 1;
    s.num_slots = s.level_ptr + s.L + 1;
    const int64_t *lists = s.num_slots + s.L;
    s.bags_of_rows = (const int32_t *)lists[0];
    s.bags_ptr = (const int32_t *)lists[1];
    s.rows_of_bags = (const int32_t *)lists[2];
    s.rows_ptr = (const int32_t *)lists[3];
    s.signs_of_rows = (const float *)lists[4];
    s.signs_of_bags = (const float *)lists[5];
    return s;
}

/* c = beta c + op(a) op(b), with c of shape (m, n), all row by row. */
static void multiply(int ta, int tb, int64_t m, int64_t n, int64_t k, const float *a, const float *b, float beta, float *c) {
    if (!m || !n) return;
    int M = (int)m, N = (int)n, K = (int)k, lda = ta ? M : K, ldb = tb ? K : N;
    float one = 1;
    if (K == 0) {
        if (beta == 0) memset(c, 0, sizeof(float) * m * n);
        return;
    }
    sgemm(tb ? "T" : "N", ta ? "T" : "N", &N, &M, &K, &one, b, &ldb, a, &lda, &beta, c, &N);
}

static void add(float *restrict to, const float *restrict from, int64_t count) {
    for (int64_t c = 0; c < count; c++) to[c] += from[c];
}

enum { WIDE = 32 }; /* channels that are added up in registers */

enum { ROWS = 256 }; /* rows that are added up at a time, so that sums of many keep their digits */

/* The sum of some rows of x, K channels each, each times its sign if there are signs: compiled once for either case. */
static inline __attribute__((always_inline)) void add_up(const float *restrict x, const int32_t *restrict rows, const float *restrict signs,
                                                         int64_t count, int64_t K, float *restrict to) {
    if (count == 0 || count > ROWS) memset(to, 0, sizeof(float) * K);
    for (int64_t first = 0; first < count; first += ROWS) {
        int64_t last = first + ROWS < count ? first + ROWS : count, c = 0;
        for (; c + WIDE <= K; c += WIDE) {
            float total[WIDE];
            memcpy(total, x + rows[first] * K + c, sizeof total);
            if (signs)
                for (int k = 0; k < WIDE; k++) total[k] *= signs[first];
            for (int64_t at = first + 1; at < last; at++) {
                const float *from = x + rows[at] * K + c;
                if (signs)
                    for (int k = 0; k < WIDE; k++) total[k] += signs[at] * from[k];
                else
                    for (int k = 0; k < WIDE; k++) total[k] += from[k];
            }
            if (count > ROWS) add(to + c, total, WIDE);
            else memcpy(to + c, total, sizeof total);
        }
        for (; c < K; c++) {
            float total = 0;
            for (int64_t at = first; at < last; at++) total += signs ? signs[at] * x[rows[at] * K + c] : x[rows[at] * K + c];
            to[c] = count > ROWS ? to[c] + total : total;
        }
    }
}

static void sum_rows(const float *x, const int32_t *rows, const float *signs, int64_t count, int64_t K, float *to) {
    if (signs) add_up(x, rows, signs, count, K, to);
    else add_up(x, rows, 0, count, K, to);
}

static const float *from_on(const float *signs, int64_t start) { return signs ? signs + start : 0; }

/* For every bag the sum of its rows, which are those of several tensors one below the other. */
static void pool(const stack_t_ *s, float *const *x, float *p) {
    int64_t bags = s->level_ptr[s->L], K = s->K;
    for (int64_t bag = 0; bag < bags; bag++) {
        const int32_t *rows = s->rows_of_bags + s->rows_ptr[bag];
        int64_t t = 0, count = s->rows_ptr[bag + 1] - s->rows_ptr[bag];
        while (count && rows[0] >= s->row_ptr[t + 1]) t++; /* all rows of a bag are of one tensor */
        sum_rows(x[t] - s->row_ptr[t] * K, rows, from_on(s->signs_of_bags, s->rows_ptr[bag]), count, K, p + bag * K);
    }
}

/* For every row the sum of its bags. */
static void read_back(const stack_t_ *s, const float *z, float *const *y) {
    int64_t K = s->K;
    for (int64_t t = 0; t < s->T; t++)
        for (int64_t row = s->row_ptr[t]; row < s->row_ptr[t + 1]; row++) {
            int32_t start = s->bags_ptr[row];
            sum_rows(z, s->bags_of_rows + start, from_on(s->signs_of_rows, start), s->bags_ptr[row + 1] - start, K,
                     y[t] + (row - s->row_ptr[t]) * K);
        }
}

/* Divides the rows of the bags of a level by the number of rows in each. */
static void divide(const stack_t_ *s, int64_t level, const float *from, float *to) {
    int64_t K = s->K, first = s->level_ptr[level];
    for (int64_t bag = first; bag < s->level_ptr[level + 1]; bag++) {
        int32_t count = s->rows_ptr[bag + 1] - s->rows_ptr[bag];
        float size = (float)(count > 1 ? count : 1);
        for (int64_t c = 0; c < K; c++) to[(bag - first) * K + c] = from[(bag - first) * K + c] / size;
    }
}

static int64_t num_keys(const stack_t_ *s, int64_t level) {
    return s->num_slots[level] ? (s->level_ptr[level + 1] - s->level_ptr[level]) / s->num_slots[level] : 0;
}

/* A product on a level: whether its rows are means, the level of the input and of the output, and where its matrix starts in Big. A
partner: input and output tensor, and where its matrix starts; and for the way there and the way back the number of pairs (-1 for all
rows) and the addresses of targets, sources (0 for the row itself) and signs (0 if there are none). */
enum { IS_MEAN, LEVEL_IN, LEVEL_OUT, MATRIX, PRODUCT };
enum { TENSOR_IN, TENSOR_OUT, PARTNER_MATRIX, PARTNER };
enum { COUNT, TARGETS, SOURCES, SIGNS, PAIRS };

/* The rows that a product starts from: pooled rows, or means, which are kept in the order of the products. */
static float *factor(const stack_t_ *in, const int64_t *products, int64_t n, float *pooled) {
    const int64_t *p = products + n * PRODUCT;
    if (!p[IS_MEAN]) return pooled + in->level_ptr[p[LEVEL_IN]] * in->K;
    float *means = pooled + in->level_ptr[in->L] * in->K;
    for (const int64_t *before = products; before < p; before += PRODUCT)
        if (before[IS_MEAN]) means += (in->level_ptr[before[LEVEL_IN] + 1] - in->level_ptr[before[LEVEL_IN]]) * in->K;
    return means;
}

/* The rows that are read by partners, one below the other: as they are, where that is what they are. */
static const float *gathered(const int64_t *pairs, int64_t rows, const float *x, int64_t K, float *room) {
    const int32_t *targets = (const int32_t *)pairs[TARGETS], *sources = (const int32_t *)pairs[SOURCES];
    const int32_t *from = sources ? sources : targets;
    const float *signs = (const float *)pairs[SIGNS];
    if (!from) return x;
    for (int64_t r = 0; r < rows; r++) {
        memcpy(room + r * K, x + (int64_t)from[r] * K, sizeof(float) * K);
        if (signs)
            for (int64_t c = 0; c < K; c++) room[r * K + c] *= signs[r];
    }
    return room;
}

/* Adds rows times a matrix to the rows that read them. */
static void add_partners(const int64_t *pairs, int64_t rows, const float *found, int64_t K, const float *w, int is_adjoint, int64_t N,
                         float *y, float *room) {
    const int32_t *targets = (const int32_t *)pairs[TARGETS];
    if (!targets) {
        multiply(0, is_adjoint, rows, N, K, found, w, 1, y);
        return;
    }
    multiply(0, is_adjoint, rows, N, K, found, w, 0, room);
    for (int64_t r = 0; r < rows; r++) add(y + (int64_t)targets[r] * N, room + r * N, N);
}

static int64_t num_pairs(const int64_t *pairs, const stack_t_ *s, int64_t tensor) {
    return pairs[COUNT] < 0 ? s->row_ptr[tensor + 1] - s->row_ptr[tensor] : pairs[COUNT];
}

/* The matrices, from the rows of the weights: a weight, a row and a sign for each, -1 for zeros. */
enum { WEIGHT, ROW, SIGN, PLACE };

static void gather_big(const int32_t *places, int64_t rows, int64_t N, float *const *weights, float *big) {
    for (int64_t r = 0; r < rows; r++) {
        const int32_t *p = places + PLACE * r;
        if (p[WEIGHT] < 0) {
            memset(big + r * N, 0, sizeof(float) * N);
            continue;
        }
        memcpy(big + r * N, weights[p[WEIGHT]] + (int64_t)p[ROW] * N, sizeof(float) * N);
        if (p[SIGN] < 0)
            for (int64_t c = 0; c < N; c++) big[r * N + c] = -big[r * N + c];
    }
}

/* sizes: how many products, partners, rows of Big, weights. kept: pooled rows, then means, then Big. */
void layer_forward(const int64_t *in_, const int64_t *out_, const int64_t *sizes, const int64_t *products, const int64_t *partners,
                   const int64_t *pairs, const int32_t *places, float *const *x, float *const *weights, const float *bias,
                   float *const *y, float *kept, int64_t num_means, float *room) {
    stack_t_ in = stack_of(in_), out = stack_of(out_);
    float *big = kept + in.level_ptr[in.L] * in.K + num_means, *z = room;
    float *rest = z + out.level_ptr[out.L] * out.K;
    gather_big(places, sizes[2], out.K, weights, big);
    pool(&in, x, kept);
    char is_blank[64];
    memset(is_blank, 1, sizeof is_blank);
    for (int64_t n = 0; n < sizes[0]; n++) {
        const int64_t *p = products + n * PRODUCT;
        int64_t i = p[LEVEL_IN], j = p[LEVEL_OUT];
        float *rows = factor(&in, products, n, kept);
        if (p[IS_MEAN]) divide(&in, i, kept + in.level_ptr[i] * in.K, rows);
        multiply(0, 0, num_keys(&in, i), out.num_slots[j] * out.K, in.num_slots[i] * in.K, rows, big + p[MATRIX],
                 is_blank[j] ? 0 : 1, z + out.level_ptr[j] * out.K);
        is_blank[j] = 0;
    }
    for (int64_t j = 0; j < out.L; j++)
        if (is_blank[j]) memset(z + out.level_ptr[j] * out.K, 0, sizeof(float) * (out.level_ptr[j + 1] - out.level_ptr[j]) * out.K);
    if (bias)
        for (int64_t bag = 0; bag < out.level_ptr[1]; bag++) add(z + bag * out.K, bias + bag % out.num_slots[0] * out.K, out.K);
    read_back(&out, z, y);
    for (int64_t n = 0; n < sizes[1]; n++) {
        const int64_t *p = partners + n * PARTNER, *there = pairs + 2 * n * PAIRS;
        int64_t rows = num_pairs(there, &out, p[TENSOR_OUT]);
        const float *found = gathered(there, rows, x[p[TENSOR_IN]], in.K, rest);
        add_partners(there, rows, found, in.K, big + p[PARTNER_MATRIX], 0, out.K, y[p[TENSOR_OUT]], rest + rows * in.K);
    }
}

/* d_x and d_bias may be null. block_rows, block_ptr: the rows of Big for every row of every weight, one weight after the other;
block_signs, which may be null, their signs. */
void layer_backward(const int64_t *in_, const int64_t *out_, const int64_t *sizes, const int64_t *products, const int64_t *partners,
                    const int64_t *pairs, const int32_t *block_rows, const int32_t *block_ptr, const float *block_signs,
                    const int64_t *weight_ptr, float *const *x, float *const *g, float *kept, int64_t num_means, float *const *d_x, float *const *d_weights, float *d_bias,
                    float *room) {
    stack_t_ in = stack_of(in_), out = stack_of(out_);
    const float *big = kept + in.level_ptr[in.L] * in.K + num_means;
    float *q = room, *d_big = q + out.level_ptr[out.L] * out.K, *d_p = d_big + sizes[2] * out.K;
    float *rest = d_p + in.level_ptr[in.L] * in.K;
    pool(&out, g, q);
    if (d_bias) {
        memset(d_bias, 0, sizeof(float) * out.num_slots[0] * out.K);
        for (int64_t bag = 0; bag < out.level_ptr[1]; bag++) add(d_bias + bag % out.num_slots[0] * out.K, q + bag * out.K, out.K);
    }
    for (int64_t n = 0; n < sizes[0]; n++) {
        const int64_t *p = products + n * PRODUCT;
        int64_t i = p[LEVEL_IN], j = p[LEVEL_OUT];
        multiply(1, 0, in.num_slots[i] * in.K, out.num_slots[j] * out.K, num_keys(&in, i), factor(&in, products, n, kept),
                 q + out.level_ptr[j] * out.K, 0, d_big + p[MATRIX]);
    }
    if (d_x) {
        memset(d_p, 0, sizeof(float) * in.level_ptr[in.L] * in.K);
        for (int is_mean = 1; is_mean >= 0; is_mean--) { /* means first, which are divided, then sums */
            for (int64_t n = 0; n < sizes[0]; n++) {
                const int64_t *p = products + n * PRODUCT;
                int64_t i = p[LEVEL_IN], j = p[LEVEL_OUT];
                if (p[IS_MEAN] != is_mean) continue;
                float *to = d_p + in.level_ptr[i] * in.K;
                multiply(0, 1, num_keys(&in, i), in.num_slots[i] * in.K, out.num_slots[j] * out.K, q + out.level_ptr[j] * out.K,
                         big + p[MATRIX], 1, to);
                if (is_mean) divide(&in, i, to, to);
            }
        }
        read_back(&in, d_p, d_x);
    }
    for (int64_t n = 0; n < sizes[1]; n++) {
        const int64_t *p = partners + n * PARTNER, *back = pairs + (2 * n + 1) * PAIRS;
        int64_t s = p[TENSOR_IN], t = p[TENSOR_OUT], rows = num_pairs(back, &in, s);
        const int64_t into[PAIRS] = {back[COUNT], 0, back[TARGETS], 0};
        const float *found = gathered(back, rows, g[t], out.K, rest);
        float *more = rest + rows * out.K;
        const float *own = gathered(into, rows, x[s], in.K, more);
        multiply(1, 0, in.K, out.K, rows, own, found, 0, d_big + p[PARTNER_MATRIX]);
        if (d_x) add_partners(back, rows, found, out.K, big + p[PARTNER_MATRIX], 1, in.K, d_x[s], more);
    }
    int64_t row = 0;
    for (int64_t w = 0; w < sizes[3]; w++)
        for (int64_t r = 0; row < weight_ptr[w + 1]; r++, row++) {
            int32_t start = block_ptr[row];
            sum_rows(d_big, block_rows + start, from_on(block_signs, start), block_ptr[row + 1] - start, out.K, d_weights[w] + r * out.K);
        }
}

/* Products of rows of two factors, added up at their targets: `joins.py`. A row has G groups of C channels; SHAPE says for each factor and
for the result how far rows, groups and channels are apart, 0 where one value serves all, or the result is their sum. */

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
static inline void add_product(const float *restrict a, int is_a_wide, const float *restrict b, int is_b_wide, float s, int64_t count,
                               float *restrict out, int is_wide) {
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
void join_rows(const int64_t *shape, const float *a, const float *b, const int32_t *rows_a, const int32_t *rows_b, const int8_t *sign,
               const int32_t *ptr, int64_t first, int64_t last, float *out) {
    const int64_t *of_a = shape + OF_A, *of_b = shape + OF_B, *of_out = shape + OF_OUT;
    for (int64_t t = first; t < last; t++) {
        float *to = out + t * of_out[0];
        memset(to, 0, sizeof(float) * of_out[0]);
        for (int32_t p = ptr[t]; p < ptr[t + 1]; p++) {
            const float *x = a + rows_a[p] * of_a[0], *y = b + rows_b[p] * of_b[0];
            float s = sign ? (float)sign[p] : 1;
            for (int64_t g = 0; g < shape[GROUPS]; g++)
                add_product(x + g * of_a[1], (int)of_a[2], y + g * of_b[1], (int)of_b[2], s, shape[CHANNELS], to + g * of_out[1],
                            (int)of_out[2]);
        }
    }
}
