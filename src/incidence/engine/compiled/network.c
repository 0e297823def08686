/* A network in one call each way: the steps that program.py writes down, in single precision.

   A program is an array of integers, step after step: its kind, its length, and its fields, in the
   order of the enums below. It speaks of four tables:

     values   matrices of floats, (rows, width) each, in one arena or in memory of the caller
     numbers  integers of a batch, such as how many rows there are
     places   addresses: index lists of a batch, parameters, masks
     grads    the gradients of values, laid out as the values are

   Everything that is laid out here is explained in README.md. Nothing is allocated. */

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef int64_t word;

typedef struct {
    const word *place, *rows, *width, *grad_place, *number, *address;
    float *arena, *grads, *scratch;
    int32_t *indices;
    uint8_t *written; /* whether the gradient of a value was written already */
    word read_cost;   /* `READ_COST` of engine/layer.py */
} frame;

static float *at(word place, float *arena, const word *address) {
    return place >= 0 ? arena + place : (float *)address[-place - 1];
}

static inline float *value(const frame *f, word v) { return at(f->place[v], f->arena, f->address); }
static inline float *grad(const frame *f, word v) { return at(f->grad_place[v], f->grads, f->address); }
static inline int wants_grad(const frame *f, word v) { return f->grad_place[v] != INT64_MIN; }
static inline float *param(const frame *f, word slot) { return slot < 0 ? 0 : (float *)f->address[slot]; }

/* ---- rows of floats */

static inline void row_add(float *restrict to, const float *restrict x, word n) {
    for (word c = 0; c < n; c++) to[c] += x[c];
}

static inline void row_add_scaled(float *restrict to, const float *restrict x, float s, word n) {
    for (word c = 0; c < n; c++) to[c] += s * x[c];
}

/* ---- products of matrices

   C (m, n) = or += op(A) B. B is small: it is packed into panels of LANES columns, filled up with
   zeros. A has rows a[r] (or columns, where it is transposed). Rows of A and C may be some of those
   of a larger matrix, by a list of indices. */

#define LANES 16
typedef float lanes __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
#ifdef __AVX512F__
enum { TILE = 12 };
#else
enum { TILE = 4 };
#endif
enum { MOST_ROWS = 256 }; /* of a tall product that are taken at a time: they stay in the cache */

static void pack(const float *b, word ldb, int is_transposed, word k, word n, float *to) {
    for (word j = 0; j < n; j += LANES) {
        word width = n - j < LANES ? n - j : LANES;
        for (word p = 0; p < k; p++, to += LANES) {
            for (word c = 0; c < width; c++) to[c] = is_transposed ? b[(j + c) * ldb + p] : b[p * ldb + j + c];
            for (word c = width; c < LANES; c++) to[c] = 0;
        }
    }
}

static inline void store(float *c, lanes v, word width, int adds) {
    if (width == LANES) {
        if (adds) v += *(lanes *)c;
        *(lanes *)c = v;
    } else {
        for (word k = 0; k < width; k++) c[k] = adds ? c[k] + v[k] : v[k];
    }
}

/* Some rows of C: those of A times all panels of B. */
#define ROWS_TIMES(NAME, M)                                                                        \
    static inline void NAME(const float *const *a, const float *packed, word k, word n,            \
                            float *const *c, int adds) {                                           \
        word j = 0;                                                                                \
        for (; j + LANES < n; j += 2 * LANES, packed += 2 * k * LANES) {                           \
            lanes sum[M][2];                                                                       \
            for (int i = 0; i < M; i++) sum[i][0] = sum[i][1] = (lanes){0};                        \
            const float *one = packed, *two = packed + k * LANES;                                  \
            for (word p = 0; p < k; p++, one += LANES, two += LANES) {                             \
                lanes b0 = *(const lanes *)one, b1 = *(const lanes *)two;                          \
                for (int i = 0; i < M; i++) {                                                      \
                    float x = a[i][p];                                                             \
                    sum[i][0] += x * b0;                                                           \
                    sum[i][1] += x * b1;                                                           \
                }                                                                                  \
            }                                                                                      \
            word width = n - j - LANES < LANES ? n - j - LANES : LANES;                            \
            for (int i = 0; i < M; i++) {                                                          \
                store(c[i] + j, sum[i][0], LANES, adds);                                           \
                store(c[i] + j + LANES, sum[i][1], width, adds);                                   \
            }                                                                                      \
        }                                                                                          \
        if (j < n) {                                                                               \
            lanes sum[M];                                                                          \
            for (int i = 0; i < M; i++) sum[i] = (lanes){0};                                       \
            for (word p = 0; p < k; p++, packed += LANES) {                                        \
                lanes b = *(const lanes *)packed;                                                  \
                for (int i = 0; i < M; i++) sum[i] += a[i][p] * b;                                 \
            }                                                                                      \
            for (int i = 0; i < M; i++) store(c[i] + j, sum[i], n - j, adds);                      \
        }                                                                                          \
    }

ROWS_TIMES(tile_times, TILE)
ROWS_TIMES(pair_times, 2)
ROWS_TIMES(row_times, 1)

static inline word row_of(const int32_t *rows, word r) { return rows ? rows[r] : r; }

/* C (m rows, n) = or += A (m rows, k) B; a list of rows stands for those of A and of C. */
static void multiply(const float *a, word lda, const float *b, word ldb, int is_transposed,
                     float *c, word ldc, const int32_t *rows, word m, word k, word n, int adds,
                     float *packed) {
    if (!m || !n) return;
    pack(b, ldb, is_transposed, k, n, packed);
    const float *from[TILE];
    float *to[TILE];
    word r = 0;
    while (r < m) {
        word count = m - r >= TILE ? TILE : m - r >= 2 ? 2 : 1;
        for (word i = 0; i < count; i++) {
            from[i] = a + row_of(rows, r + i) * lda;
            to[i] = c + row_of(rows, r + i) * ldc;
        }
        if (count == TILE) tile_times(from, packed, k, n, to, adds);
        else if (count == 2) pair_times(from, packed, k, n, to, adds);
        else row_times(from, packed, k, n, to, adds);
        r += count;
    }
}

/* Part of C (k, n) += A^T B over some rows: M columns of A from i on, LANES columns of B from j on. */
#define COLUMNS_TIMES(NAME, M)                                                                     \
    static inline void NAME(const float *a, word lda, const float *b, word ldb,                    \
                            const int32_t *rows, word first, word last, float *c, word ldc,        \
                            word width) {                                                          \
        lanes sum[M];                                                                              \
        for (int i = 0; i < M; i++) sum[i] = (lanes){0};                                           \
        for (word r = first; r < last; r++) {                                                      \
            const float *x = a + row_of(rows, r) * lda;                                            \
            lanes y = *(const lanes *)(b + row_of(rows, r) * ldb);                                 \
            for (int i = 0; i < M; i++) sum[i] += x[i] * y;                                        \
        }                                                                                          \
        for (int i = 0; i < M; i++) store(c + i * ldc, sum[i], width, 1);                          \
    }

COLUMNS_TIMES(tile_columns, 16)
COLUMNS_TIMES(four_columns, 4)
COLUMNS_TIMES(one_column, 1)

/* C (k, n) = A^T B over the rows of A (m, k) and B (m, n). A row of B may be read up to LANES - 1
   floats too far, so it must lie in an arena. */
static void multiply_transposed(const float *a, word lda, const float *b, word ldb,
                                const int32_t *rows, word m, word k, word n, float *c) {
    memset(c, 0, sizeof(float) * k * n);
    for (word first = 0; first < m; first += MOST_ROWS) {
        word last = m - first < MOST_ROWS ? m : first + MOST_ROWS;
        for (word j = 0; j < n; j += LANES) {
            word width = n - j < LANES ? n - j : LANES, i = 0;
            for (; i + 16 <= k; i += 16)
                tile_columns(a + i, lda, b + j, ldb, rows, first, last, c + i * n + j, n, width);
            for (; i + 4 <= k; i += 4)
                four_columns(a + i, lda, b + j, ldb, rows, first, last, c + i * n + j, n, width);
            for (; i < k; i++)
                one_column(a + i, lda, b + j, ldb, rows, first, last, c + i * n + j, n, width);
        }
    }
}

/* ---- bags: see engine/bags.py */

enum { BAG_ROWS, BAG_BAGS, BAG_LEVELS };                                    /* numbers of a tensor */
enum { ROW_BAGS, ROW_PTR, ROW_SIGNS, BAG_MEMBERS, BAG_PTR, BAG_SIGNS };     /* its lists */

typedef struct {
    word rows, bags, num_levels;
    const word *level_ptr, *slots;
    const int32_t *of_rows, *row_ptr, *of_bags, *bag_ptr;
    const float *row_signs, *bag_signs;
} bags;

static bags bags_at(const frame *f, word numbers, word lists, word num_levels, const word *slots) {
    const word *n = f->number + numbers, *a = f->address + lists;
    bags b = {n[BAG_ROWS], n[BAG_BAGS], num_levels, n + BAG_LEVELS, slots,
              (const int32_t *)a[ROW_BAGS], (const int32_t *)a[ROW_PTR],
              (const int32_t *)a[BAG_MEMBERS], (const int32_t *)a[BAG_PTR],
              (const float *)a[ROW_SIGNS], (const float *)a[BAG_SIGNS]};
    return b;
}

static inline word num_keys(const bags *b, word level) {
    return b->slots[level] ? (b->level_ptr[level + 1] - b->level_ptr[level]) / b->slots[level] : 0;
}

/* The sum of some members of x, each with its sign; members follow each other. */
static inline void sum_of(const float *x, const int32_t *members, const float *signs, word count,
                          word n, float *restrict to, int adds) {
    word k = 0;
    if (!adds) {
        if (count && !signs) memcpy(to, x + members[k++] * n, sizeof(float) * n);
        else memset(to, 0, sizeof(float) * n);
    }
    for (; k < count; k++) {
        const float *row = x + members[k] * n;
        if (signs) row_add_scaled(to, row, signs[k], n);
        else row_add(to, row, n);
    }
}

static void sums(const float *x, const int32_t *members, const int32_t *ptr, const float *signs,
                 word first, word last, word n, float *to, int adds) {
    for (word b = first; b < last; b++)
        sum_of(x, members + ptr[b], signs ? signs + ptr[b] : 0, ptr[b + 1] - ptr[b], n, to + b * n,
               adds);
}

/* The rows of the bags of one level, from x to p, both of width n. */
static void pool_level(const bags *b, word level, const float *x, word n, float *p) {
    sums(x, b->of_bags, b->bag_ptr, b->bag_signs, b->level_ptr[level], b->level_ptr[level + 1], n,
         p, 0);
}

static void read_bags(const bags *b, const float *z, word n, float *y, int adds) {
    sums(z, b->of_rows, b->row_ptr, b->row_signs, 0, b->rows, n, y, adds);
}

/* Divides the bags of a level by the number of their rows; an empty one stays as it is. */
static void divide(const bags *b, word level, word n, const float *from, float *to) {
    word first = b->level_ptr[level];
    for (word k = first; k < b->level_ptr[level + 1]; k++) {
        word count = b->bag_ptr[k + 1] - b->bag_ptr[k];
        float share = count > 1 ? 1.0f / (float)count : 1;
        for (word c = 0; c < n; c++) to[(k - first) * n + c] = from[(k - first) * n + c] * share;
    }
}

/* The keys that have rows on both sides, if some have none; else 0, for all keys. */
static const int32_t *filled_keys(const bags *a, word i, const bags *b, word j, int32_t *indices,
                                  word *count) {
    word keys = num_keys(a, i), found = 0;
    const int32_t *p = a->bag_ptr + a->level_ptr[i], *q = b->bag_ptr + b->level_ptr[j];
    for (word k = 0; k < keys; k++) {
        int is_filled = p[(k + 1) * a->slots[i]] > p[k * a->slots[i]] &&
                        q[(k + 1) * b->slots[j]] > q[k * b->slots[j]];
        indices[found] = (int32_t)k;
        found += is_filled;
    }
    *count = found;
    return found == keys ? 0 : indices;
}

/* A level whose keys have one slot: the sums of the rows of its keys are added to p; and the keys are
   added to their rows. */
static inline float share_of(const bags *b, word bag, word member, int is_mean) {
    word count = b->bag_ptr[bag + 1] - b->bag_ptr[bag];
    float sign = b->bag_signs ? b->bag_signs[member] : 1;
    return is_mean ? sign / (float)count : sign;
}

static void add_to_keys(const bags *b, word level, int is_mean, const float *x, word n, float *p) {
    for (word bag = b->level_ptr[level]; bag < b->level_ptr[level + 1]; bag++, p += n)
        for (word m = b->bag_ptr[bag]; m < b->bag_ptr[bag + 1]; m++)
            row_add_scaled(p, x + b->of_bags[m] * n, share_of(b, bag, m, is_mean), n);
}

static void add_to_rows(const bags *b, word level, int is_mean, const float *p, word n, float *x) {
    for (word bag = b->level_ptr[level]; bag < b->level_ptr[level + 1]; bag++, p += n)
        for (word m = b->bag_ptr[bag]; m < b->bag_ptr[bag + 1]; m++)
            row_add_scaled(x + b->of_bags[m] * n, p, share_of(b, bag, m, is_mean), n);
}

/* ---- a layer */

enum { L_SOURCES, L_TARGETS, L_FACTORS, L_PRODUCTS, L_PARTNERS, L_GROUPS, L_FIRST };
enum { T_NUMBERS, T_LISTS, T_LEVELS, T_SLOTS, T_VALUE, T_WIDTH, T_BAGS, T_BIAS, T_D_BIAS, T_WORDS };
enum { F_SOURCE, F_LEVEL, F_IS_MEAN, F_IS_SHARED, F_VALUE, F_WORDS };
enum { P_FACTOR, P_TARGET, P_LEVEL, P_MATRIX, P_WORDS };
enum { N_KIND, N_SOURCE, N_TARGET, N_MATRIX, N_LISTS, N_NUMBER, N_BACK_LISTS, N_BACK_NUMBER, N_WORDS };
enum { G_ROWS, G_WIDTH, G_MATRICES, G_SOURCES, G_SIGNS, G_WEIGHTS, G_D_WEIGHTS, G_NUM_WEIGHTS,
       G_MEMBERS, G_PTR, G_MEMBER_SIGNS, G_WEIGHT_PTR, G_WORDS };
enum { PARTNERS_ITSELF, PARTNERS_OF_ALL, PARTNERS_OF_SOME };
enum { PAIR_TARGETS, PAIR_SOURCES, PAIR_SIGNS };

typedef struct {
    const word *code, *sources, *targets, *factors, *products, *partners, *groups;
} layer;

static layer layer_at(const word *code) {
    layer l = {code, code + L_FIRST, 0, 0, 0, 0, 0};
    l.targets = l.sources + T_WORDS * code[L_SOURCES];
    l.factors = l.targets + T_WORDS * code[L_TARGETS];
    l.products = l.factors + F_WORDS * code[L_FACTORS];
    l.partners = l.products + P_WORDS * code[L_PRODUCTS];
    l.groups = l.partners + N_WORDS * code[L_PARTNERS];
    return l;
}

static bags tensor_bags(const frame *f, const word *t) {
    return bags_at(f, t[T_NUMBERS], t[T_LISTS], t[T_LEVELS], (const word *)t[T_SLOTS]);
}

/* The matrices of all products, gathered from the rows of the weights. */
static void gather_matrices(const frame *f, const word *g) {
    const int32_t *source = (const int32_t *)g[G_SOURCES];
    const float *signs = (const float *)g[G_SIGNS];
    const word *weights = f->address + g[G_WEIGHTS];
    float *to = value(f, g[G_MATRICES]);
    word n = g[G_WIDTH];
    for (word r = 0; r < g[G_ROWS]; r++, to += n) {
        if (source[2 * r] < 0) {
            memset(to, 0, sizeof(float) * n);
            continue;
        }
        const float *row = (const float *)weights[source[2 * r]] + source[2 * r + 1] * n;
        if (!signs || signs[r] > 0) memcpy(to, row, sizeof(float) * n);
        else for (word c = 0; c < n; c++) to[c] = -row[c];
    }
}

/* The gradients of the weights: every row is the sum over where it stands. */
static void scatter_matrices(const frame *f, const word *g, const float *d) {
    const int32_t *members = (const int32_t *)g[G_MEMBERS], *ptr = (const int32_t *)g[G_PTR];
    const float *signs = (const float *)g[G_MEMBER_SIGNS];
    const word *weight_ptr = (const word *)g[G_WEIGHT_PTR], *to = f->address + g[G_D_WEIGHTS];
    word row = 0, n = g[G_WIDTH];
    for (word w = 0; w < g[G_NUM_WEIGHTS]; w++)
        for (word r = 0; row < weight_ptr[w + 1]; r++, row++)
            sum_of(d, members + ptr[row], signs ? signs + ptr[row] : 0, ptr[row + 1] - ptr[row], n,
                   (float *)to[w] + r * n, 0);
}

/* A matrix has a number of its group, and its first row there. */
static float *matrix(const layer *l, float *const *of_groups, word packed) {
    word group = packed >> 32, row = packed & 0xffffffff;
    return of_groups[group] + row * l->groups[group * G_WORDS + G_WIDTH];
}

enum { MOST_GROUPS = 8, MOST_TENSORS = 64 };

static const float *factor_rows(const frame *f, const layer *l, const bags *of, const word *factor) {
    const word *s = l->sources + factor[F_SOURCE] * T_WORDS;
    if (factor[F_VALUE] >= 0) return value(f, factor[F_VALUE]);
    return value(f, s[T_BAGS]) + of[factor[F_SOURCE]].level_ptr[factor[F_LEVEL]] * s[T_WIDTH];
}

/* Where a product is taken: at the keys, or at the rows of its source or of its target, if these are
   fewer. This is `place_of` of engine/layer.py. */
enum { AT_KEYS, AT_SOURCE, AT_TARGET };

typedef struct {
    word factor, source, target, level, target_level, k, n, place; /* k and n: sides of the matrix */
    int is_mean;
} term;

static term term_at(const frame *f, const layer *l, const bags *in, const bags *out, word number) {
    const word *p = l->products + number * P_WORDS, *factor = l->factors + p[P_FACTOR] * F_WORDS;
    const bags *a = in + factor[F_SOURCE], *b = out + p[P_TARGET];
    word i = factor[F_LEVEL], j = p[P_LEVEL], keys = num_keys(a, i);
    term t = {p[P_FACTOR], factor[F_SOURCE], p[P_TARGET], i, j, a->slots[i] * l->sources[factor[F_SOURCE] * T_WORDS + T_WIDTH],
              b->slots[j] * l->targets[p[P_TARGET] * T_WORDS + T_WIDTH], AT_KEYS, factor[F_IS_MEAN] != 0};
    word least = keys * t.k * t.n, reads, cost;
    if (a->slots[i] == 1 && a->rows < keys) {
        reads = a->bag_ptr[a->level_ptr[i + 1]] - a->bag_ptr[a->level_ptr[i]];
        cost = a->rows * t.k * t.n + f->read_cost * reads * t.n;
        if (cost < least) t.place = AT_SOURCE, least = cost;
    }
    if (b->slots[j] == 1 && b->rows < keys) {
        reads = b->bag_ptr[b->level_ptr[j + 1]] - b->bag_ptr[b->level_ptr[j]];
        cost = b->rows * t.k * t.n + f->read_cost * reads * t.k;
        if (cost < least) t.place = AT_TARGET;
    }
    return t;
}

/* Whether some product starts from what a level of a source pools. */
static int is_pooled(const term *terms, word count, word source, word level) {
    for (word k = 0; k < count; k++)
        if (terms[k].source == source && terms[k].level == level && terms[k].place != AT_SOURCE) return 1;
    return 0;
}

/* The rows that partners read, gathered where they are not all rows in order. */
static const float *partner_rows(const frame *f, const word *p, int is_back, const float *x, word n,
                                 word num_rows, word *count, const int32_t **targets) {
    const word *lists = f->address + p[is_back ? N_BACK_LISTS : N_LISTS];
    word kind = f->number[p[is_back ? N_BACK_NUMBER : N_NUMBER]];
    *count = num_rows;
    *targets = 0;
    if (kind == PARTNERS_ITSELF) return x;
    const int32_t *sources = (const int32_t *)lists[PAIR_SOURCES];
    const float *signs = (const float *)lists[PAIR_SIGNS];
    if (kind == PARTNERS_OF_SOME) {
        *count = f->number[p[is_back ? N_BACK_NUMBER : N_NUMBER] + 1];
        *targets = (const int32_t *)lists[PAIR_TARGETS];
        if (!sources) sources = *targets;
    }
    float *to = f->scratch;
    for (word r = 0; r < *count; r++) {
        const float *row = x + sources[r] * n;
        if (!signs || signs[r] > 0) memcpy(to + r * n, row, sizeof(float) * n);
        else for (word c = 0; c < n; c++) to[r * n + c] = -row[c];
    }
    return to;
}

static void layer_forward(const frame *f, const word *code) {
    layer l = layer_at(code);
    bags in[MOST_TENSORS], out[MOST_TENSORS];
    float *of_groups[MOST_GROUPS];
    for (word g = 0; g < code[L_GROUPS]; g++) {
        gather_matrices(f, l.groups + g * G_WORDS);
        of_groups[g] = value(f, l.groups[g * G_WORDS + G_MATRICES]);
    }
    for (word s = 0; s < code[L_SOURCES]; s++) in[s] = tensor_bags(f, l.sources + s * T_WORDS);
    for (word t = 0; t < code[L_TARGETS]; t++) out[t] = tensor_bags(f, l.targets + t * T_WORDS);
    term terms[code[L_PRODUCTS] + 1];
    for (word k = 0; k < code[L_PRODUCTS]; k++) terms[k] = term_at(f, &l, in, out, k);
    for (word k = 0; k < code[L_FACTORS]; k++) {
        const word *factor = l.factors + k * F_WORDS, *s = l.sources + factor[F_SOURCE] * T_WORDS;
        const bags *b = in + factor[F_SOURCE];
        if (!is_pooled(terms, code[L_PRODUCTS], factor[F_SOURCE], factor[F_LEVEL])) continue;
        float *p = value(f, s[T_BAGS]) + b->level_ptr[factor[F_LEVEL]] * s[T_WIDTH];
        if (!factor[F_IS_SHARED]) pool_level(b, factor[F_LEVEL], value(f, s[T_VALUE]), s[T_WIDTH], value(f, s[T_BAGS]));
        if (factor[F_IS_MEAN]) divide(b, factor[F_LEVEL], s[T_WIDTH], p, (float *)factor_rows(f, &l, in, factor));
    }
    for (word t = 0; t < code[L_TARGETS]; t++) {
        const word *target = l.targets + t * T_WORDS;
        const bags *b = out + t;
        float *z = value(f, target[T_BAGS]), *y = value(f, target[T_VALUE]);
        word n = target[T_WIDTH];
        for (word level = 0; level < b->num_levels; level++) {
            float *into = z + b->level_ptr[level] * n;
            word ldz = b->slots[level] * n, is_blank = 1;
            for (word k = 0; k < code[L_PRODUCTS]; k++) {
                const word *p = l.products + k * P_WORDS, *factor = l.factors + p[P_FACTOR] * F_WORDS;
                const term *e = terms + k;
                if (e->target != t || e->target_level != level || e->place == AT_TARGET) continue;
                const bags *a = in + e->source;
                const float *m = matrix(&l, of_groups, p[P_MATRIX]);
                if (e->place == AT_SOURCE) {
                    if (is_blank) memset(into, 0, sizeof(float) * ldz * num_keys(b, level));
                    multiply(value(f, l.sources[e->source * T_WORDS + T_VALUE]), e->k, m, ldz, 0, f->scratch, ldz, 0,
                             a->rows, e->k, ldz, 0, f->scratch + a->rows * ldz);
                    add_to_keys(a, e->level, e->is_mean, f->scratch, ldz, into);
                } else {
                    word count;
                    const int32_t *keys = filled_keys(a, e->level, b, level, f->indices, &count);
                    if (keys && is_blank) memset(into, 0, sizeof(float) * ldz * num_keys(b, level));
                    multiply(factor_rows(f, &l, in, factor), e->k, m, ldz, 0, into, ldz, keys, count, e->k, ldz,
                             !is_blank || keys, f->scratch);
                }
                is_blank = 0;
            }
            if (is_blank) memset(into, 0, sizeof(float) * ldz * num_keys(b, level));
            if (level == 0 && target[T_BIAS] >= 0) {
                const float *bias = param(f, target[T_BIAS]);
                for (word k = 0; k < num_keys(b, level); k++) row_add(into + k * ldz, bias, ldz);
            }
        }
        word is_blank = 1;
        for (word k = 0; k < code[L_PARTNERS]; k++) {
            const word *p = l.partners + k * N_WORDS, *s = l.sources + p[N_SOURCE] * T_WORDS;
            if (p[N_TARGET] != t || f->number[p[N_NUMBER]] == PARTNERS_OF_SOME) continue;
            word count;
            const int32_t *targets;
            const float *x = partner_rows(f, p, 0, value(f, s[T_VALUE]), s[T_WIDTH], b->rows, &count, &targets);
            multiply(x, s[T_WIDTH], matrix(&l, of_groups, p[N_MATRIX]), n, 0, y, n, 0, count, s[T_WIDTH], n,
                     !is_blank, f->scratch + count * s[T_WIDTH]);
            is_blank = 0;
        }
        read_bags(b, z, n, y, !is_blank);
        for (word k = 0; k < code[L_PRODUCTS]; k++) {
            const word *p = l.products + k * P_WORDS;
            const term *e = terms + k;
            if (e->target != t || e->place != AT_TARGET) continue;
            float *read = f->scratch; /* what rows read of the pooled values: (rows, k) */
            memset(read, 0, sizeof(float) * b->rows * e->k);
            add_to_rows(b, e->target_level, 0, factor_rows(f, &l, in, l.factors + e->factor * F_WORDS), e->k, read);
            multiply(read, e->k, matrix(&l, of_groups, p[P_MATRIX]), n, 0, y, n, 0, b->rows, e->k, n, 1,
                     read + b->rows * e->k);
        }
        for (word k = 0; k < code[L_PARTNERS]; k++) {
            const word *p = l.partners + k * N_WORDS, *s = l.sources + p[N_SOURCE] * T_WORDS;
            if (p[N_TARGET] != t || f->number[p[N_NUMBER]] != PARTNERS_OF_SOME) continue;
            word count;
            const int32_t *targets;
            const float *x = partner_rows(f, p, 0, value(f, s[T_VALUE]), s[T_WIDTH], b->rows, &count, &targets);
            float *read = f->scratch + count * s[T_WIDTH];
            multiply(x, s[T_WIDTH], matrix(&l, of_groups, p[N_MATRIX]), n, 0, read, n, 0, count, s[T_WIDTH], n, 0,
                     read + count * n);
            for (word r = 0; r < count; r++) row_add(y + targets[r] * n, read + r * n, n);
        }
    }
}

static void layer_backward(const frame *f, const word *code) {
    layer l = layer_at(code);
    bags in[MOST_TENSORS], out[MOST_TENSORS];
    float *of_groups[MOST_GROUPS], *d_groups[MOST_GROUPS];
    for (word g = 0; g < code[L_GROUPS]; g++) {
        of_groups[g] = value(f, l.groups[g * G_WORDS + G_MATRICES]);
        d_groups[g] = grad(f, l.groups[g * G_WORDS + G_MATRICES]);
        memset(d_groups[g], 0, sizeof(float) * l.groups[g * G_WORDS + G_ROWS] * l.groups[g * G_WORDS + G_WIDTH]);
    }
    for (word s = 0; s < code[L_SOURCES]; s++) in[s] = tensor_bags(f, l.sources + s * T_WORDS);
    for (word t = 0; t < code[L_TARGETS]; t++) {
        const word *target = l.targets + t * T_WORDS;
        out[t] = tensor_bags(f, target);
        word n = target[T_WIDTH];
        float *q = grad(f, target[T_BAGS]);
        if (!f->written[target[T_VALUE]]) memset(grad(f, target[T_VALUE]), 0, sizeof(float) * n * out[t].rows);
        for (word level = 0; level < out[t].num_levels; level++)
            pool_level(out + t, level, grad(f, target[T_VALUE]), n, q);
        if (target[T_D_BIAS] >= 0) {
            word ldq = out[t].slots[0] * n;
            float *d = param(f, target[T_D_BIAS]);
            memset(d, 0, sizeof(float) * ldq);
            for (word k = 0; k < num_keys(out + t, 0); k++) row_add(d, q + k * ldq, ldq);
        }
    }
    term terms[code[L_PRODUCTS] + 1];
    for (word k = 0; k < code[L_PRODUCTS]; k++) terms[k] = term_at(f, &l, in, out, k);
    for (word s = 0; s < code[L_SOURCES]; s++) {
        const word *source = l.sources + s * T_WORDS;
        const bags *a = in + s;
        word n = source[T_WIDTH], needs_x = wants_grad(f, source[T_VALUE]);
        float *d_p = grad(f, source[T_BAGS]);
        for (word level = 0; level < a->num_levels; level++) {
            word k_in = a->slots[level] * n, keys = num_keys(a, level), is_first = 1;
            float *into = d_p + a->level_ptr[level] * n;
            for (word m = 0; m < code[L_FACTORS]; m++) {
                const word *factor = l.factors + m * F_WORDS;
                if (factor[F_SOURCE] != s || factor[F_LEVEL] != level) continue;
                float *part = is_first ? into : f->scratch, *packed = f->scratch + (is_first ? 0 : keys * k_in);
                word is_blank = 1;
                for (word k = 0; k < code[L_PRODUCTS]; k++) {
                    const word *p = l.products + k * P_WORDS, *target = l.targets + p[P_TARGET] * T_WORDS;
                    const term *e = terms + k;
                    if (e->factor != m || e->place == AT_SOURCE) continue;
                    const bags *b = out + e->target;
                    word ldq = e->n, count;
                    if (e->place == AT_TARGET) {
                        const float *g = grad(f, target[T_VALUE]);
                        float *read = packed; /* what rows read, and then its gradient */
                        memset(read, 0, sizeof(float) * b->rows * k_in);
                        add_to_rows(b, e->target_level, 0, factor_rows(f, &l, in, factor), k_in, read);
                        multiply_transposed(read, k_in, g, ldq, 0, b->rows, k_in, ldq, matrix(&l, d_groups, p[P_MATRIX]));
                        if (!needs_x) continue;
                        multiply(g, ldq, matrix(&l, of_groups, p[P_MATRIX]), ldq, 1, read, k_in, 0, b->rows, ldq, k_in, 0,
                                 read + b->rows * k_in);
                        if (is_blank) memset(part, 0, sizeof(float) * k_in * keys);
                        add_to_keys(b, e->target_level, 0, read, k_in, part);
                        is_blank = 0;
                        continue;
                    }
                    const float *q = grad(f, target[T_BAGS]) + b->level_ptr[p[P_LEVEL]] * target[T_WIDTH];
                    const int32_t *some = filled_keys(a, level, b, p[P_LEVEL], f->indices, &count);
                    multiply_transposed(factor_rows(f, &l, in, factor), k_in, q, ldq, some, count, k_in, ldq,
                                        matrix(&l, d_groups, p[P_MATRIX]));
                    if (!needs_x) continue;
                    if (some && is_blank) memset(part, 0, sizeof(float) * k_in * keys);
                    multiply(q, ldq, matrix(&l, of_groups, p[P_MATRIX]), ldq, 1, part, k_in, some, count, ldq, k_in,
                             !is_blank || some, packed);
                    is_blank = 0;
                }
                if (is_blank || !needs_x) continue;
                if (factor[F_IS_MEAN]) divide(a, level, n, part, part);
                if (!is_first) row_add(into, part, keys * k_in);
                is_first = 0;
            }
            if (is_first && needs_x) memset(into, 0, sizeof(float) * keys * k_in);
        }
        float *d_x = needs_x ? grad(f, source[T_VALUE]) : 0;
        if (needs_x) {
            read_bags(a, d_p, n, d_x, f->written[source[T_VALUE]]);
            f->written[source[T_VALUE]] = 1;
        }
        for (word k = 0; k < code[L_PRODUCTS]; k++) {
            const word *p = l.products + k * P_WORDS;
            const term *e = terms + k;
            if (e->source != s || e->place != AT_SOURCE) continue;
            const word *target = l.targets + e->target * T_WORDS;
            const float *q = grad(f, target[T_BAGS]) + out[e->target].level_ptr[e->target_level] * target[T_WIDTH];
            float *read = f->scratch, *rest = read + a->rows * e->n + LANES;
            memset(read, 0, sizeof(float) * a->rows * e->n);
            add_to_rows(a, e->level, e->is_mean, q, e->n, read);
            multiply_transposed(value(f, source[T_VALUE]), n, read, e->n, 0, a->rows, n, e->n,
                                matrix(&l, d_groups, p[P_MATRIX]));
            if (needs_x)
                multiply(read, e->n, matrix(&l, of_groups, p[P_MATRIX]), e->n, 1, d_x, n, 0, a->rows, e->n, n, 1, rest);
        }
        for (word k = 0; k < code[L_PARTNERS]; k++) {
            const word *p = l.partners + k * N_WORDS, *target = l.targets + p[N_TARGET] * T_WORDS;
            if (p[N_SOURCE] != s) continue;
            word count, width = target[T_WIDTH];
            const int32_t *rows;
            const float *g = partner_rows(f, p, 1, grad(f, target[T_VALUE]), width, a->rows, &count, &rows);
            float *rest = f->scratch + count * width + LANES, *x = value(f, source[T_VALUE]);
            if (rows) { /* the rows of x that were read */
                for (word r = 0; r < count; r++) memcpy(rest + r * n, x + rows[r] * n, sizeof(float) * n);
                x = rest;
                rest += count * n;
            }
            multiply_transposed(x, n, g, width, 0, count, n, width, matrix(&l, d_groups, p[N_MATRIX]));
            if (!needs_x) continue;
            if (!rows) {
                multiply(g, width, matrix(&l, of_groups, p[N_MATRIX]), width, 1, d_x, n, 0, count, width, n, 1, rest);
                continue;
            }
            multiply(g, width, matrix(&l, of_groups, p[N_MATRIX]), width, 1, rest, n, 0, count, width, n, 0,
                     rest + count * n);
            for (word r = 0; r < count; r++) row_add(d_x + rows[r] * n, rest + r * n, n);
        }
    }
    for (word g = 0; g < code[L_GROUPS]; g++) scatter_matrices(f, l.groups + g * G_WORDS, d_groups[g]);
}

/* ---- a linear map of every row */

enum { D_X, D_Y, D_IN, D_OUT, D_WEIGHT, D_BIAS, D_D_WEIGHT, D_D_BIAS };

static void dense_forward(const frame *f, const word *d) {
    float *y = value(f, d[D_Y]);
    const float *bias = param(f, d[D_BIAS]);
    word rows = f->rows[d[D_X]], n = d[D_OUT];
    if (bias)
        for (word r = 0; r < rows; r++) memcpy(y + r * n, bias, sizeof(float) * n);
    multiply(value(f, d[D_X]), d[D_IN], param(f, d[D_WEIGHT]), d[D_IN], 1, y, n, 0, rows, d[D_IN], n, bias != 0,
             f->scratch);
}

static void dense_backward(const frame *f, const word *d) {
    if (!f->written[d[D_Y]]) return;
    const float *g = grad(f, d[D_Y]);
    word rows = f->rows[d[D_X]], k = d[D_IN], n = d[D_OUT];
    float *by_column = f->scratch, *d_weight = param(f, d[D_D_WEIGHT]), *d_bias = param(f, d[D_D_BIAS]);
    if (d_weight) {
        multiply_transposed(value(f, d[D_X]), k, g, n, 0, rows, k, n, by_column);
        for (word o = 0; o < n; o++)
            for (word i = 0; i < k; i++) d_weight[o * k + i] = by_column[i * n + o];
    }
    if (d_bias)
        for (word r = 0; r < rows; r++) row_add(d_bias, g + r * n, n);
    if (!wants_grad(f, d[D_X])) return;
    multiply(g, n, param(f, d[D_WEIGHT]), k, 0, grad(f, d[D_X]), k, 0, rows, n, k, f->written[d[D_X]], f->scratch);
    f->written[d[D_X]] = 1;
}

/* ---- values one by one: y = r + drop(act(norm(x))) */

enum { V_X, V_Y, V_RESIDUAL, V_WIDTH, V_ACTIVATION, V_DROP, V_DROP_PLACE, V_DROP_COUNT, V_STATS, V_PARTS, V_FIRST };
enum { O_NORM, O_ROWS, O_NUMBER, O_WEIGHT, O_BIAS, O_MEAN, O_SQUARE, O_TRACKED, O_TRAINS, O_D_WEIGHT, O_D_BIAS,
       O_EPS, O_MOMENTUM, O_STAT_ROW, O_WORDS };
enum { NORM_NONE, NORM_BATCH, NORM_LAYER, NORM_SQUARE, NORM_SCALE };
enum { ACT_NONE, ACT_RELU, ACT_TANH, ACT_GELU, ACT_SILU, ACT_ELU, ACT_SHRINK, ACT_SIN, ACT_ABS, ACT_SQUARE };
enum { DROP_NONE, DROP_BITS, DROP_FLOATS, DROP_ALL };
enum { CHOICES = 1 << 16 };
static const double LEAST = 1e-8; /* the mean square up to which values are rounding: nn/norms.py */

static inline double real(word bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float act(word kind, float x) {
    switch (kind) {
    case ACT_TANH: return tanhf(x);
    case ACT_GELU: return 0.5f * x * (1 + erff(x * 0.70710678f));
    case ACT_SILU: return x / (1 + expf(-x));
    case ACT_ELU: return x > 0 ? x : expm1f(x);
    case ACT_SHRINK: return x > 0.5f ? x - 0.5f : x < -0.5f ? x + 0.5f : 0;
    case ACT_SIN: return sinf(x);
    case ACT_ABS: return fabsf(x);
    case ACT_SQUARE: return x * x;
    default: return x;
    }
}

static inline float slope(word kind, float x) {
    float s;
    switch (kind) {
    case ACT_TANH: s = tanhf(x); return 1 - s * s;
    case ACT_GELU: return 0.5f * (1 + erff(x * 0.70710678f)) + x * 0.39894228f * expf(-0.5f * x * x);
    case ACT_SILU: s = 1 / (1 + expf(-x)); return s * (1 + x * (1 - s));
    case ACT_ELU: return x > 0 ? 1 : expf(x);
    case ACT_SHRINK: return x > 0.5f || x < -0.5f;
    case ACT_SIN: return cosf(x);
    case ACT_ABS: return (float)((x > 0) - (x < 0));
    case ACT_SQUARE: return 2 * x;
    default: return 1;
    }
}

static void act_row(word kind, float *x, word n) {
    if (kind == ACT_RELU)
        for (word c = 0; c < n; c++) x[c] = x[c] > 0 ? x[c] : 0;
    else if (kind != ACT_NONE)
        for (word c = 0; c < n; c++) x[c] = act(kind, x[c]);
}

/* g *= the slope of the activation at x. */
static void slope_row(word kind, const float *restrict x, float *restrict g, word n) {
    if (kind == ACT_RELU)
        for (word c = 0; c < n; c++) g[c] = x[c] > 0 ? g[c] : 0;
    else if (kind != ACT_NONE)
        for (word c = 0; c < n; c++) g[c] *= slope(kind, x[c]);
}

/* Values that dropout keeps are scaled, others become 0: engine/dropout.py draws the bits. */
static void drop_row(const frame *f, const word *v, word row, float *x) {
    word n = v[V_WIDTH];
    if (v[V_DROP] == DROP_NONE || !f->address[v[V_DROP_PLACE]]) return;
    if (v[V_DROP] == DROP_ALL) {
        for (word c = 0; c < n; c++) x[c] *= 0;
    } else if (v[V_DROP] == DROP_BITS) {
        const int16_t *bits = (const int16_t *)f->address[v[V_DROP_PLACE]] + row * n;
        int least = (int)(v[V_DROP_COUNT] - CHOICES / 2);
        float scale = (float)((double)CHOICES / (double)(CHOICES - v[V_DROP_COUNT]));
        for (word c = 0; c < n; c++) x[c] = bits[c] >= least ? x[c] * scale : x[c] * 0;
    } else {
        const float *mask = (const float *)f->address[v[V_DROP_PLACE]] + row * n;
        for (word c = 0; c < n; c++) x[c] *= mask[c];
    }
}

static inline const word *part_at(const word *v, word p) { return v + V_FIRST + p * O_WORDS; }

/* The row of x that a row of a part is: 64-bit numbers, as structures list the rows of orbits. */
static inline word part_row(const int64_t *rows, word r) { return rows ? rows[r] : r; }

/* The sums over the rows of a part of x, in double precision. */
static void column_sums(const float *x, const int64_t *rows, word count, word n, const float *centre, int is_square,
                        double *to, float *partial) {
    for (word c = 0; c < n; c++) to[c] = 0;
    for (word first = 0; first < count; first += 64) {
        word last = count - first < 64 ? count : first + 64;
        memset(partial, 0, sizeof(float) * n);
        for (word r = first; r < last; r++) {
            const float *row = x + part_row(rows, r) * n;
            if (!is_square) row_add(partial, row, n);
            else if (!centre)
                for (word c = 0; c < n; c++) partial[c] += row[c] * row[c];
            else
                for (word c = 0; c < n; c++) {
                    float d = row[c] - centre[c];
                    partial[c] += d * d;
                }
        }
        for (word c = 0; c < n; c++) to[c] += partial[c];
    }
}

/* What a part keeps for its way back: by channel the mean, the inverse root, and whether its values
   are more than rounding; then whether rows were centred, 1 or 0 (nn/norms.py), or -1 where
   running statistics were taken, on which these rows have no influence. */
enum { S_MEAN, S_INVERSE, S_KEPT, S_CENTRED, S_ROWS };

static void batch_statistics(const frame *f, const word *v, const word *o, float *stats, const float *x,
                             const int64_t *rows, word count) {
    word n = v[V_WIDTH], trains = f->number[o[O_TRAINS]];
    float *mean = stats + S_MEAN * n, *inverse = stats + S_INVERSE * n, *kept = stats + S_KEPT * n,
          *centred = stats + S_CENTRED * n, *running_mean = param(f, o[O_MEAN]),
          *running_square = param(f, o[O_SQUARE]);
    double eps = real(o[O_EPS]), *sum = (double *)f->scratch;
    float *partial = (float *)(sum + n);
    int is_square = o[O_NORM] == NORM_SQUARE;
    if (!trains || count <= 1) {
        for (word c = 0; c < n; c++) {
            mean[c] = is_square ? 0 : running_mean[c];
            inverse[c] = (float)(1 / sqrt(running_square[c] + eps));
            kept[c] = running_square[c] > (float)LEAST;
            centred[c] = -1;
        }
        return;
    }
    if (is_square) {
        column_sums(x, rows, count, n, 0, 1, sum, partial);
        for (word c = 0; c < n; c++) {
            float square = (float)(sum[c] / (double)count);
            mean[c] = 0;
            inverse[c] = (float)(1 / sqrt(square + eps));
            kept[c] = square > (float)LEAST;
            centred[c] = 0;
            running_square[c] += (float)real(o[O_MOMENTUM]) * (square - running_square[c]);
        }
        return;
    }
    column_sums(x, rows, count, n, 0, 0, sum, partial);
    for (word c = 0; c < n; c++) mean[c] = (float)(sum[c] / (double)count);
    column_sums(x, rows, count, n, mean, 1, sum, partial);
    int64_t *tracked = (int64_t *)f->address[o[O_TRACKED]];
    double rate = 1.0 / (double)++*tracked, least = real(o[O_MOMENTUM]);
    if (rate < least) rate = least;
    for (word c = 0; c < n; c++) {
        double variance = sum[c] / (double)count, square = variance, unbiased = sum[c] / (double)(count - 1);
        centred[c] = variance - LEAST * mean[c] * mean[c] > LEAST;
        if (!centred[c]) square = unbiased = (double)mean[c] * mean[c];
        kept[c] = square > LEAST;
        inverse[c] = (float)(1 / sqrt(square + eps));
        float centre = centred[c] ? mean[c] : 0;
        running_mean[c] += (float)rate * (centre - running_mean[c]);
        running_square[c] += (float)rate * ((float)unbiased - running_square[c]);
        mean[c] = centre;
    }
}

/* z = the normalised row, before the activation. */
static inline void normalise(const frame *f, const word *o, const float *stats, const float *x, word row, word n,
                             float *restrict z) {
    const float *bias = param(f, o[O_BIAS]);
    if (o[O_NORM] == NORM_NONE) {
        memcpy(z, x, sizeof(float) * n);
    } else if (o[O_NORM] == NORM_SCALE) {
        const float *shift = param(f, o[O_MEAN]), *scale = param(f, o[O_SQUARE]);
        for (word c = 0; c < n; c++) z[c] = (x[c] - shift[c]) / scale[c];
    } else if (o[O_NORM] == NORM_LAYER) {
        const float *weight = param(f, o[O_WEIGHT]);
        float mean = stats[2 * row], inverse = stats[2 * row + 1];
        for (word c = 0; c < n; c++) z[c] = (x[c] - mean) * inverse;
        if (weight)
            for (word c = 0; c < n; c++) z[c] *= weight[c];
        if (bias) row_add(z, bias, n);
    } else {
        const float *mean = stats + S_MEAN * n, *inverse = stats + S_INVERSE * n, *kept = stats + S_KEPT * n,
                    *weight = param(f, o[O_WEIGHT]);
        for (word c = 0; c < n; c++) z[c] = (x[c] - mean[c]) * (inverse[c] * kept[c] * weight[c]);
        if (bias) row_add(z, bias, n);
    }
}

static void layer_statistics(const word *o, const float *x, word n, float *stats) {
    double sum = 0, square = 0;
    for (word c = 0; c < n; c++) sum += x[c];
    float mean = (float)(sum / (double)n);
    for (word c = 0; c < n; c++) square += (double)(x[c] - mean) * (x[c] - mean);
    stats[0] = mean;
    stats[1] = (float)(1 / sqrt(square / (double)n + real(o[O_EPS])));
}

static void point_forward(const frame *f, const word *v) {
    word n = v[V_WIDTH];
    const float *x = value(f, v[V_X]), *residual = v[V_RESIDUAL] < 0 ? 0 : value(f, v[V_RESIDUAL]);
    float *y = value(f, v[V_Y]), *stats = v[V_STATS] < 0 ? 0 : value(f, v[V_STATS]);
    for (word p = 0; p < v[V_PARTS]; p++) {
        const word *o = part_at(v, p);
        const int64_t *rows = o[O_ROWS] < 0 ? 0 : (const int64_t *)f->address[o[O_ROWS]];
        word count = o[O_ROWS] < 0 ? f->rows[v[V_X]] : f->number[o[O_NUMBER]];
        float *own = stats ? stats + o[O_STAT_ROW] * n : 0;
        if (o[O_NORM] == NORM_BATCH || o[O_NORM] == NORM_SQUARE) batch_statistics(f, v, o, own, x, rows, count);
        for (word r = 0; r < count; r++) {
            word row = part_row(rows, r);
            if (o[O_NORM] == NORM_LAYER) layer_statistics(o, x + row * n, n, stats + 2 * row);
            normalise(f, o, o[O_NORM] == NORM_LAYER ? stats : own, x + row * n, row, n, y + row * n);
            act_row(v[V_ACTIVATION], y + row * n, n);
            drop_row(f, v, row, y + row * n);
            if (residual) row_add(y + row * n, residual + row * n, n);
        }
    }
}

/* The gradient of a part before the norm's statistics: d_z, and by channel the sum of it over the
   rows, and of it times the normalised values. */
static void gradient_sums(const frame *f, const word *v, const word *o, const float *stats, const int64_t *rows,
                          word count, const float *x, const float *g, float *d_z, double *sum, double *product) {
    word n = v[V_WIDTH];
    float *z = (float *)(product + n), *part = z + n, *part_product = part + n;
    memset(sum, 0, sizeof(double) * 2 * n);
    for (word first = 0; first < count; first += 64) {
        word last = count - first < 64 ? count : first + 64;
        memset(part, 0, sizeof(float) * 2 * n);
        for (word r = first; r < last; r++) {
            word row = part_row(rows, r);
            const float *in = x + row * n;
            float *d = d_z + row * n;
            memcpy(d, g + row * n, sizeof(float) * n);
            drop_row(f, v, row, d);
            if (v[V_ACTIVATION] != ACT_NONE) {
                normalise(f, o, stats, in, row, n, z);
                slope_row(v[V_ACTIVATION], z, d, n);
            }
            row_add(part, d, n);
            if (o[O_NORM] == NORM_BATCH || o[O_NORM] == NORM_SQUARE) {
                const float *mean = stats + S_MEAN * n, *inverse = stats + S_INVERSE * n;
                for (word c = 0; c < n; c++) part_product[c] += d[c] * ((in[c] - mean[c]) * inverse[c]);
            } else if (o[O_NORM] == NORM_LAYER) {
                float mean = stats[2 * row], inverse = stats[2 * row + 1];
                for (word c = 0; c < n; c++) part_product[c] += d[c] * ((in[c] - mean) * inverse);
            }
        }
        for (word c = 0; c < n; c++) {
            sum[c] += part[c];
            product[c] += part_product[c];
        }
    }
}

/* The gradient of one row of x from that of its normalised values; `d` becomes it. */
static void norm_backward(const frame *f, const word *o, const float *stats, const float *x, word row, word n,
                          const float *of_mean, const float *of_size, float *d) {
    const float *weight = param(f, o[O_WEIGHT]);
    if (o[O_NORM] == NORM_SCALE) {
        const float *scale = param(f, o[O_SQUARE]);
        for (word c = 0; c < n; c++) d[c] /= scale[c];
    } else if (o[O_NORM] == NORM_LAYER) {
        float mean = stats[2 * row], inverse = stats[2 * row + 1];
        double one = 0, two = 0;
        if (weight)
            for (word c = 0; c < n; c++) d[c] *= weight[c];
        for (word c = 0; c < n; c++) {
            one += d[c];
            two += (double)d[c] * ((x[c] - mean) * inverse);
        }
        float a = (float)(one / (double)n), b = (float)(two / (double)n);
        for (word c = 0; c < n; c++) d[c] = inverse * (d[c] - a - (x[c] - mean) * inverse * b);
    } else if (o[O_NORM] != NORM_NONE) {
        const float *mean = stats + S_MEAN * n, *inverse = stats + S_INVERSE * n, *kept = stats + S_KEPT * n;
        for (word c = 0; c < n; c++)
            d[c] = kept[c] * weight[c] * inverse[c] * (d[c] - of_mean[c] - (x[c] - mean[c]) * inverse[c] * of_size[c]);
    }
}

static void point_backward(const frame *f, const word *v) {
    if (!f->written[v[V_Y]]) return;
    word n = v[V_WIDTH], all = f->rows[v[V_X]];
    const float *x = value(f, v[V_X]), *g = grad(f, v[V_Y]), *stats = v[V_STATS] < 0 ? 0 : value(f, v[V_STATS]);
    if (v[V_RESIDUAL] >= 0 && wants_grad(f, v[V_RESIDUAL])) {
        float *d = grad(f, v[V_RESIDUAL]);
        if (f->written[v[V_RESIDUAL]]) row_add(d, g, all * n);
        else memcpy(d, g, sizeof(float) * all * n);
        f->written[v[V_RESIDUAL]] = 1;
    }
    int needs_x = wants_grad(f, v[V_X]), adds = f->written[v[V_X]];
    double *sum = (double *)f->scratch, *product = sum + n;
    float *of_mean = (float *)(product + n) + n, *of_size = of_mean + n, *d_z = of_size + n;
    for (word p = 0; p < v[V_PARTS]; p++) {
        const word *o = part_at(v, p);
        const int64_t *rows = o[O_ROWS] < 0 ? 0 : (const int64_t *)f->address[o[O_ROWS]];
        word count = o[O_ROWS] < 0 ? all : f->number[o[O_NUMBER]];
        int is_batch = o[O_NORM] == NORM_BATCH || o[O_NORM] == NORM_SQUARE;
        const float *own = is_batch ? stats + o[O_STAT_ROW] * n : stats;
        gradient_sums(f, v, o, own, rows, count, x, g, d_z, sum, product);
        float *d_weight = param(f, o[O_D_WEIGHT]), *d_bias = param(f, o[O_D_BIAS]);
        if (d_weight)
            for (word c = 0; c < n; c++) d_weight[c] = (float)product[c] * (is_batch ? own[S_KEPT * n + c] : 1);
        if (d_bias)
            for (word c = 0; c < n; c++) d_bias[c] = (float)sum[c];
        if (!needs_x) continue;
        if (is_batch)
            for (word c = 0; c < n; c++) { /* the share of every row in the statistics */
                float centred = own[S_CENTRED * n + c];
                of_mean[c] = count && centred > 0 ? (float)(sum[c] / (double)count) : 0;
                of_size[c] = count && centred >= 0 ? (float)(product[c] / (double)count) : 0;
            }
        for (word r = 0; r < count; r++) {
            word row = part_row(rows, r);
            float *d = d_z + row * n, *to = grad(f, v[V_X]) + row * n;
            norm_backward(f, o, own, x + row * n, row, n, of_mean, of_size, d);
            if (adds) row_add(to, d, n);
            else memcpy(to, d, sizeof(float) * n);
        }
    }
    if (needs_x) f->written[v[V_X]] = 1;
}

/* ---- statistics of whole structures */

enum { R_Y, R_PARTS, R_FIRST };
enum { U_X, U_WIDTH, U_NUMBERS, U_LISTS, U_SLOTS, U_STATISTICS, U_COLUMN, U_KINDS, U_WORDS = U_KINDS + 8 };
enum { STAT_SUM, STAT_MEAN, STAT_MAX, STAT_MIN, STAT_STD };

typedef struct {
    const int32_t *rows;
    word count;
} bag;

static bag structure_bag(const frame *f, const word *u, word b) {
    const word *a = f->address + u[U_LISTS];
    const int32_t *ptr = (const int32_t *)a[BAG_PTR], *members = (const int32_t *)a[BAG_MEMBERS];
    bag found = {members + ptr[b], ptr[b + 1] - ptr[b]};
    return found;
}

static void statistic(word kind, bag b, const float *x, word n, float *to) {
    if (kind <= STAT_MEAN || !b.count) {
        sum_of(x, b.rows, 0, b.count, n, to, 0);
        if (kind == STAT_MEAN && b.count)
            for (word c = 0; c < n; c++) to[c] /= (float)b.count;
        return;
    }
    if (kind == STAT_STD) {
        for (word c = 0; c < n; c++) {
            double sum = 0, square = 0;
            float first = x[b.rows[0] * n + c];
            for (word k = 0; k < b.count; k++) sum += x[b.rows[k] * n + c] - first;
            float mean = (float)(sum / (double)b.count);
            for (word k = 0; k < b.count; k++) {
                double d = (double)(x[b.rows[k] * n + c] - first) - mean;
                square += d * d;
            }
            to[c] = (float)sqrt(square / (double)b.count);
        }
        return;
    }
    memcpy(to, x + b.rows[0] * n, sizeof(float) * n);
    for (word k = 1; k < b.count; k++) {
        const float *row = x + b.rows[k] * n;
        if (kind == STAT_MAX)
            for (word c = 0; c < n; c++) to[c] = row[c] > to[c] ? row[c] : to[c];
        else
            for (word c = 0; c < n; c++) to[c] = row[c] < to[c] ? row[c] : to[c];
    }
}

static void statistic_backward(word kind, bag b, const float *x, word n, const float *y, const float *g, float *d,
                               float *room) {
    if (kind <= STAT_MEAN) {
        float share = kind == STAT_MEAN && b.count ? 1.0f / (float)b.count : 1;
        for (word k = 0; k < b.count; k++) row_add_scaled(d + b.rows[k] * n, g, share, n);
        return;
    }
    if (kind == STAT_STD) {
        for (word c = 0; c < n; c++) {
            if (!(y[c] > 0)) continue;
            double sum = 0;
            for (word k = 0; k < b.count; k++) sum += x[b.rows[k] * n + c];
            float mean = (float)(sum / (double)b.count), share = g[c] / (y[c] * (float)b.count);
            for (word k = 0; k < b.count; k++) d[b.rows[k] * n + c] += share * (x[b.rows[k] * n + c] - mean);
        }
        return;
    }
    memset(room, 0, sizeof(float) * n); /* how many share the extremum */
    for (word k = 0; k < b.count; k++)
        for (word c = 0; c < n; c++) room[c] += x[b.rows[k] * n + c] == y[c];
    for (word k = 0; k < b.count; k++)
        for (word c = 0; c < n; c++)
            if (x[b.rows[k] * n + c] == y[c]) d[b.rows[k] * n + c] += g[c] / room[c];
}

static void readout(const frame *f, const word *r, int is_back) {
    if (is_back && !f->written[r[R_Y]]) return;
    word wide = f->width[r[R_Y]], num_structures = f->rows[r[R_Y]];
    for (word p = 0; p < r[R_PARTS]; p++) {
        const word *u = r + R_FIRST + p * U_WORDS;
        word n = u[U_WIDTH], v = u[U_X];
        const float *x = value(f, v);
        if (is_back && !wants_grad(f, v)) continue;
        if (is_back && !f->written[v]) {
            memset(grad(f, v), 0, sizeof(float) * n * f->rows[v]);
            f->written[v] = 1;
        }
        for (word s = 0; s < num_structures; s++)
            for (word slot = 0; slot < u[U_SLOTS]; slot++) {
                bag b = structure_bag(f, u, s * u[U_SLOTS] + slot);
                for (word k = 0; k < u[U_STATISTICS]; k++) {
                    word column = u[U_COLUMN] + (slot * u[U_STATISTICS] + k) * n;
                    float *y = value(f, r[R_Y]) + s * wide + column;
                    if (!is_back) statistic(u[U_KINDS + k], b, x, n, y);
                    else statistic_backward(u[U_KINDS + k], b, x, n, y, grad(f, r[R_Y]) + s * wide + column,
                                            grad(f, v), f->scratch);
                }
            }
    }
}

/* ---- sums of two values */

enum { A_LEFT, A_RIGHT, A_Y };

static void add_forward(const frame *f, const word *a) {
    word count = f->rows[a[A_Y]] * f->width[a[A_Y]];
    const float *x = value(f, a[A_LEFT]), *z = value(f, a[A_RIGHT]);
    float *y = value(f, a[A_Y]);
    for (word k = 0; k < count; k++) y[k] = x[k] + z[k];
}

static void add_backward(const frame *f, const word *a) {
    if (!f->written[a[A_Y]]) return;
    word count = f->rows[a[A_Y]] * f->width[a[A_Y]];
    const float *g = grad(f, a[A_Y]);
    for (word side = A_LEFT; side <= A_RIGHT; side++) {
        word v = a[side];
        if (!wants_grad(f, v)) continue;
        if (f->written[v]) row_add(grad(f, v), g, count);
        else memcpy(grad(f, v), g, sizeof(float) * count);
        f->written[v] = 1;
    }
}

/* ---- products of rows: one step of a plan, in the role of its target or of a factor

   The functions that compute them are those of ../products/join.c, at addresses in the code. */

enum { J_FIRST, J_SECOND, J_Y, J_LISTS, J_NUMBERS, J_SCALE, J_SIZES, J_ROWS, J_CELLS };
enum { JOIN_IS_CELLS, JOIN_STRUCTURES, JOIN_COUNTS };                       /* numbers */
enum { ROLE_PTR, ROLE_FIRST, ROLE_SECOND, ROLE_SIGN, ROLE_LISTS };          /* lists of joined rows */
enum { CELL_ROWS, CELL_SIGNS = 3, CELL_SIZES = 6 };                         /* lists of cells */
enum { ROLE_SIZES = 11 };
typedef void (*join_rows)(const int64_t *, const float *, const float *, const int32_t *, const int32_t *,
                          const int8_t *, const int32_t *, int64_t, int64_t, float *);
typedef void (*join_cells)(const int64_t *, int64_t, int64_t, int64_t, const float *, const float *, float *,
                           const int32_t *, const int8_t *, const int32_t *, const int8_t *, const int32_t *,
                           const int8_t *, int64_t, int64_t);

/* One role of a product from the rows of the other two, in order. */
static void product_role(const frame *f, const word *j, word role, const float *x, const float *y, float *out) {
    const word *numbers = f->number + j[J_NUMBERS], *lists = f->address + j[J_LISTS];
    word width = f->width[j[J_FIRST + (role + 2) % 3]], count = numbers[JOIN_COUNTS + role] * width;
    if (numbers[JOIN_IS_CELLS]) {
        word first = role ? 0 : 1, second = role == 2 ? 1 : 2, structures = numbers[JOIN_STRUCTURES];
        const word *rows = lists + CELL_ROWS, *signs = lists + CELL_SIGNS;
        memset(out, 0, sizeof(float) * count);
        ((join_cells)j[J_CELLS])((const int64_t *)lists[CELL_SIZES], structures, role, width, x, y, out,
                                 (const int32_t *)rows[first], (const int8_t *)signs[first],
                                 (const int32_t *)rows[second], (const int8_t *)signs[second],
                                 (const int32_t *)rows[role], (const int8_t *)signs[role], 0, structures);
    } else {
        lists += role * ROLE_LISTS;
        ((join_rows)j[J_ROWS])((const int64_t *)j[J_SIZES] + role * ROLE_SIZES, x, y,
                               (const int32_t *)lists[ROLE_FIRST], (const int32_t *)lists[ROLE_SECOND],
                               (const int8_t *)lists[ROLE_SIGN], (const int32_t *)lists[ROLE_PTR], 0,
                               numbers[JOIN_COUNTS + role], out);
    }
    float scale = (float)real(j[J_SCALE]);
    if (scale != 1)
        for (word c = 0; c < count; c++) out[c] *= scale;
}

static void product_forward(const frame *f, const word *j) {
    product_role(f, j, 0, value(f, j[J_FIRST]), value(f, j[J_SECOND]), value(f, j[J_Y]));
}

static void product_backward(const frame *f, const word *j) {
    if (!f->written[j[J_Y]]) return;
    const float *g = grad(f, j[J_Y]);
    for (word k = J_FIRST; k <= J_SECOND; k++) {
        word v = j[k], other = j[J_FIRST + J_SECOND - k];
        if (!wants_grad(f, v)) continue;
        float *to = f->written[v] ? f->scratch : grad(f, v);
        product_role(f, j, 1 + k, g, value(f, other), to);
        if (f->written[v]) row_add(grad(f, v), to, f->rows[v] * f->width[v]);
        f->written[v] = 1;
    }
}

/* ---- shares of groups of rows, channel by channel */

enum { X_X, X_Y, X_LISTS, X_NUMBER };
enum { GROUP_PTR, GROUP_ROWS };

/* e^x for x from -87 to 0, to two units in the last place; loops over it become vectors. */
static inline float exponential(float x) {
    x = x < -87 ? -87 : x; /* and not a number stays one */
    float n = rintf(x * 1.44269504f), r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float y = 1.9875691500e-4f;
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * r * r + r + 1;
    int32_t bits = ((int32_t)n + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return y * power;
}

static void softmax_forward(const frame *f, const word *s) {
    const word *lists = f->address + s[X_LISTS];
    const int32_t *ptr = (const int32_t *)lists[GROUP_PTR], *rows = (const int32_t *)lists[GROUP_ROWS];
    const float *x = value(f, s[X_X]);
    float *y = value(f, s[X_Y]);
    word n = f->width[s[X_X]];
    for (word b = 0; b < f->number[s[X_NUMBER]]; b++) {
        if (ptr[b] == ptr[b + 1]) continue;
        float *restrict most = f->scratch, *restrict total = f->scratch + n;
        memcpy(most, x + rows[ptr[b]] * n, sizeof(float) * n);
        memset(total, 0, sizeof(float) * n);
        for (word k = ptr[b] + 1; k < ptr[b + 1]; k++) {
            const float *row = x + rows[k] * n;
            for (word c = 0; c < n; c++) most[c] = row[c] > most[c] ? row[c] : most[c];
        }
        for (word k = ptr[b]; k < ptr[b + 1]; k++) {
            const float *row = x + rows[k] * n;
            float *restrict to = y + rows[k] * n;
            for (word c = 0; c < n; c++) {
                to[c] = exponential(row[c] - most[c]);
                total[c] += to[c];
            }
        }
        for (word c = 0; c < n; c++) total[c] = 1 / total[c];
        for (word k = ptr[b]; k < ptr[b + 1]; k++) {
            float *restrict to = y + rows[k] * n;
            for (word c = 0; c < n; c++) to[c] *= total[c];
        }
    }
}

static void softmax_backward(const frame *f, const word *s) {
    if (!f->written[s[X_Y]] || !wants_grad(f, s[X_X])) return;
    const word *lists = f->address + s[X_LISTS];
    const int32_t *ptr = (const int32_t *)lists[GROUP_PTR], *rows = (const int32_t *)lists[GROUP_ROWS];
    const float *y = value(f, s[X_Y]), *g = grad(f, s[X_Y]);
    float *d = grad(f, s[X_X]), *restrict total = f->scratch;
    word n = f->width[s[X_X]];
    if (!f->written[s[X_X]]) memset(d, 0, sizeof(float) * n * f->rows[s[X_X]]);
    f->written[s[X_X]] = 1;
    for (word b = 0; b < f->number[s[X_NUMBER]]; b++) {
        memset(total, 0, sizeof(float) * n);
        for (word k = ptr[b]; k < ptr[b + 1]; k++)
            for (word c = 0; c < n; c++) total[c] += y[rows[k] * n + c] * g[rows[k] * n + c];
        for (word k = ptr[b]; k < ptr[b + 1]; k++)
            for (word c = 0; c < n; c++) d[rows[k] * n + c] += y[rows[k] * n + c] * (g[rows[k] * n + c] - total[c]);
    }
}

/* ---- programs */

enum { STEP_LAYER, STEP_DENSE, STEP_POINT, STEP_READOUT, STEP_ADD, STEP_PRODUCT, STEP_SOFTMAX };

/* The steps of a program, first to last. */
void forward(const word *code, const word *starts, word num_steps, const frame *f) {
    for (word k = 0; k < num_steps; k++) {
        const word *step = code + starts[k];
        switch (step[0]) {
        case STEP_LAYER: layer_forward(f, step + 1); break;
        case STEP_DENSE: dense_forward(f, step + 1); break;
        case STEP_POINT: point_forward(f, step + 1); break;
        case STEP_READOUT: readout(f, step + 1, 0); break;
        case STEP_ADD: add_forward(f, step + 1); break;
        case STEP_PRODUCT: product_forward(f, step + 1); break;
        case STEP_SOFTMAX: softmax_forward(f, step + 1); break;
        }
    }
}

/* The way back, last to first. */
void backward(const word *code, const word *starts, word num_steps, const frame *f) {
    for (word k = num_steps; k-- > 0;) {
        const word *step = code + starts[k];
        switch (step[0]) {
        case STEP_LAYER: layer_backward(f, step + 1); break;
        case STEP_DENSE: dense_backward(f, step + 1); break;
        case STEP_POINT: point_backward(f, step + 1); break;
        case STEP_READOUT: readout(f, step + 1, 1); break;
        case STEP_ADD: add_backward(f, step + 1); break;
        case STEP_PRODUCT: product_backward(f, step + 1); break;
        case STEP_SOFTMAX: softmax_backward(f, step + 1); break;
        }
    }
}
