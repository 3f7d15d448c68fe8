/*
 * The hardware counters of the stand-in: NVLink and PCIe bytes, GPM and utilisation. They integrate
 * rates over time. The rates are in counters.conf and in all files of the folder counters.d, both
 * beside topology.conf. Rates of several files for the same counter are added. Lines:
 *
 *   nvlink <gpu> <link> <sent-bytes/s> <received-bytes/s>
 *   pcie <gpu> <sent-bytes/s> <received-bytes/s>
 *   occupancy <gpu> <permille>       resident warps divided by the most possible
 *   dram <gpu> <permille>            share of time in which the DRAM transfers data
 *   utilization <gpu> <percent>      share of time in which a kernel runs
 *   clock <microseconds>             the time; without this line, the time passes by itself. The old
 *                                    rates apply until the new time, the new rates after it
 *
 * '#' starts a comment line. Files are looked at 20 times a second at most, or at each call if there
 * is a clock line. Replace them by rename. Names with a dot in front do not count. A file that
 * cannot be read is told on stderr and ignored.
 *
 * At the first call, each counter has the value 2^40 bytes, as if the driver had run for long.
 */
#define _GNU_SOURCE
#include "fakenvml.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum {
    DATA_TX = 138, DATA_RX, RAW_TX, RAW_RX,
    PCIE_TX = 197, PCIE_RX,
    SENT_PACKETS = 201, SENT_BYTES, RECEIVED_PACKETS, RECEIVED_BYTES
};
enum {
    GPM_SM = 2, GPM_OCCUPANCY = 3, GPM_DRAM = 10, GPM_PCIE_TX = 20, GPM_PCIE_RX = 21,
    GPM_ALL_RX = 60, GPM_ALL_TX = 61, GPM_LINK_0 = 62, GPM_LINK_18 = 212, GPM_LINKS_OF_0 = 18
};
enum { KIB = 1024, PACKET_BYTES = 256, LOOK_US = 50000 };
#define ALL_LINKS UINT32_MAX
#define START 0x1p40
#define MIB 0x1p20

/* The same struct for rates (per second) and for their integrals. */
struct amounts {
    double tx[MAX_LINKS], rx[MAX_LINKS], pcie_tx, pcie_rx;
    double occupancy, dram; /* 1 is full */
    double utilization;     /* percent; only as a rate */
};

struct rates {
    struct amounts gpu[MAX_GPUS];
    long long clock_us; /* -1: the time passes by itself */
};

struct reading {
    struct amounts sum;
    struct amounts reset; /* `sum` when the fields began at 0 again; GPM has only differences */
    long long at_us;      /* since 1970; 0: never */
};

typedef struct nvmlGpmSample_st {
    unsigned gpu;
    struct reading reading;
} *nvmlGpmSample_t;

typedef struct {
    unsigned metricId;
    nvmlReturn_t nvmlReturn;
    double value;
    struct { const char *shortName, *longName, *unit; } info;
} metric_t;

typedef struct {
    unsigned version, numMetrics;
    nvmlGpmSample_t sample1, sample2;
    metric_t metrics[];
} nvmlGpmMetricsGet_t;

typedef struct { unsigned version, isSupportedDevice; } nvmlGpmSupport_t;
typedef struct { unsigned gpu, memory; } nvmlUtilization_t;

static struct rates rates = {.clock_us = -1};
static struct reading total[MAX_GPUS], shown[MAX_GPUS]; /* they differ while a GPU is stalled */
static unsigned long long signature;                    /* of all files of rates */
static long long looked_us;

enum architecture architecture_of_model(const char *model) {
    static const struct { const char *part; enum architecture architecture; } parts[] = {
        {"V100", VOLTA}, {"T4", VOLTA}, {"A100", AMPERE}, {"A6000", AMPERE}, {"A10G", AMPERE},
        {"L40S", AMPERE}, {"H100", HOPPER}, {"H200", HOPPER}, {"B200", BLACKWELL},
    };
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(model, parts[i].part))
            return parts[i].architecture;
    return PASCAL;
}

static int word_in(const char *const *words, int count, const char *word) {
    for (int i = 0; i < count; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    return -1;
}

int parse_counter_line(struct state *s, const char *line) {
    static const char *const architectures[] = {"", "pascal", "volta", "ampere", "hopper",
                                                "blackwell"};
    static const char *const counters[] = {"nvlink", "pcie", "gpm", "utilization", "all"};
    unsigned gpu, bits;
    char word[16];
    int code;
    if (strncmp(line, "counter-hang", 12) == 0) {
        s->counter_hang = 1;
        return 1;
    }
    if (sscanf(line, "%*s %u", &gpu) != 1 || gpu >= s->gpus)
        return 0;
    if (sscanf(line, "architecture %*u %15s", word) == 1) {
        int found = word_in(architectures, BLACKWELL + 1, word);
        s->gpu[gpu].architecture = (enum architecture)found;
        return found > BY_MODEL;
    }
    if (sscanf(line, "counter-fault %*u %15s %d", word, &code) == 2) {
        int found = word_in(counters, COUNTERS + 1, word);
        for (int i = 0; i < COUNTERS; i++)
            if (found == i || found == COUNTERS)
                s->gpu[gpu].counter_fault[i] = code;
        return found >= 0;
    }
    if (sscanf(line, "counter-wrap %*u %u", &bits) == 1 && bits >= 1 && bits <= 64) {
        s->gpu[gpu].counter_bits = bits;
        return 1;
    }
    if (strncmp(line, "counter-reset ", 14) == 0)
        return s->gpu[gpu].counter_reset = 1;
    if (strncmp(line, "counter-stall ", 14) == 0)
        return s->gpu[gpu].counter_stall = 1;
    return 0;
}

static double smaller(double a, double b) { return a < b ? a : b; }

/* Add the rate in one line of a file. */
static int parse_rate(struct rates *r, const char *line) {
    unsigned gpu, link;
    double a, b;
    long long us;
    if (line[0] == '#' || line[strspn(line, " \t\r\n")] == '\0')
        return 1;
    if (sscanf(line, "clock %lld", &us) == 1 && us > 0) {
        r->clock_us = us;
        return 1;
    }
    if (sscanf(line, "%*s %u", &gpu) != 1 || gpu >= MAX_GPUS)
        return 0;
    struct amounts *g = &r->gpu[gpu];
    if (sscanf(line, "nvlink %*u %u %lf %lf", &link, &a, &b) == 3 && link < MAX_LINKS && a >= 0 &&
        b >= 0) {
        g->tx[link] += a;
        g->rx[link] += b;
    } else if (sscanf(line, "pcie %*u %lf %lf", &a, &b) == 2 && a >= 0 && b >= 0) {
        g->pcie_tx += a;
        g->pcie_rx += b;
    } else if (sscanf(line, "occupancy %*u %lf", &a) == 1 && a >= 0)
        g->occupancy = smaller(g->occupancy + a / 1000, 1);
    else if (sscanf(line, "dram %*u %lf", &a) == 1 && a >= 0)
        g->dram = smaller(g->dram + a / 1000, 1);
    else if (sscanf(line, "utilization %*u %lf", &a) == 1 && a >= 0)
        g->utilization = smaller(g->utilization + a, 100);
    else
        return 0;
    return 1;
}

/* Add the rates of a file, unless a line of it cannot be read. */
static void read_rates(const char *path, struct rates *into) {
    static struct rates with;
    char line[256];
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    with = *into;
    int good = 1;
    for (unsigned number = 1; good && fgets(line, sizeof line, file); number++)
        if (!(good = parse_rate(&with, line)))
            fprintf(stderr, "fakenvml: %s:%u: cannot read: %s", path, number, line);
    fclose(file);
    if (good)
        *into = with;
}

static long long to_us(struct timespec t) { return t.tv_sec * 1000000LL + t.tv_nsec / 1000; }

static long long clock_us(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return to_us(t);
}

/* Microseconds since 1970, which do not jump when the clock of the host is set. */
static long long time_us(void) {
    static long long offset_us;
    if (!offset_us)
        offset_us = clock_us(CLOCK_REALTIME) - clock_us(CLOCK_MONOTONIC);
    return clock_us(CLOCK_MONOTONIC) + offset_us;
}

/* Call `visit` for counters.conf and each file of counters.d; return the newest change of them. */
static long long visit_files(void (*visit)(const char *path, const struct stat *st)) {
    char folder[PATH_MAX - 300], path[PATH_MAX];
    struct stat st;
    long long newest = 0;
    snprintf(folder, sizeof folder, "%s", conf_path());
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    snprintf(path, sizeof path, "%s/counters.conf", slash ? folder : ".");
    if (stat(path, &st) == 0) {
        newest = to_us(st.st_ctim);
        visit(path, &st);
    }
    snprintf(path, sizeof path, "%s/counters.d", slash ? folder : ".");
    DIR *files = opendir(path);
    if (!files)
        return newest;
    if (stat(path, &st) == 0 && to_us(st.st_ctim) > newest)
        newest = to_us(st.st_ctim); /* a file was removed, for example */
    size_t length = strlen(path);
    for (struct dirent *each = readdir(files); each; each = readdir(files)) {
        snprintf(path + length, sizeof path - length, "/%s", each->d_name);
        if (each->d_name[0] == '.' || stat(path, &st) != 0 || !S_ISREG(st.st_mode))
            continue;
        if (to_us(st.st_ctim) > newest)
            newest = to_us(st.st_ctim);
        visit(path, &st);
    }
    closedir(files);
    return newest;
}

static unsigned long long visited; /* sum over the files, as their order in a folder may change */

static void add_to_signature(const char *path, const struct stat *st) {
    unsigned long long hash = 14695981039346656037ULL; /* FNV-1a */
    for (; *path; path++)
        hash = (hash ^ (unsigned char)*path) * 1099511628211ULL;
    hash = (hash ^ (unsigned long long)st->st_ino) * 1099511628211ULL;
    hash = (hash ^ (unsigned long long)st->st_size) * 1099511628211ULL;
    hash = (hash ^ (unsigned long long)st->st_ctim.tv_sec) * 1099511628211ULL;
    visited += (hash ^ (unsigned long long)st->st_ctim.tv_nsec) * 1099511628211ULL;
}

static struct rates read_next;

static void add_rates(const char *path, const struct stat *st) {
    (void)st;
    read_rates(path, &read_next);
}

/* Let the counters of all GPUs run until `until_us`. */
static void integrate(long long until_us) {
    for (unsigned gpu = 0; gpu < MAX_GPUS; gpu++) {
        struct amounts *sum = &total[gpu].sum;
        const struct amounts *rate = &rates.gpu[gpu];
        double seconds = (double)(until_us - total[gpu].at_us) / 1e6;
        if (!total[gpu].at_us) {
            for (unsigned link = 0; link < MAX_LINKS; link++)
                sum->tx[link] = sum->rx[link] = START;
            sum->pcie_tx = sum->pcie_rx = START;
            seconds = 0;
        }
        if (seconds < 0)
            continue;
        for (unsigned link = 0; link < MAX_LINKS; link++) {
            sum->tx[link] += rate->tx[link] * seconds;
            sum->rx[link] += rate->rx[link] * seconds;
        }
        sum->pcie_tx += rate->pcie_tx * seconds;
        sum->pcie_rx += rate->pcie_rx * seconds;
        sum->occupancy += rate->occupancy * seconds;
        sum->dram += rate->dram * seconds;
        total[gpu].at_us = until_us;
    }
}

/* Read the files of rates again if they changed; until the change, the old rates apply. */
static void look_at_files(long long us) {
    visited = 1;
    long long changed_us = visit_files(add_to_signature);
    if (visited == signature)
        return;
    signature = visited;
    memset(&read_next, 0, sizeof read_next);
    read_next.clock_us = -1;
    visit_files(add_rates);
    if (read_next.clock_us >= 0)
        changed_us = read_next.clock_us;
    else if (changed_us > us)
        changed_us = us;
    integrate(changed_us);
    rates = read_next;
}

/* Let the time of the counters pass, and show them unless they are stalled. */
static void advance(void) {
    long long us = time_us();
    if (rates.clock_us >= 0 || !looked_us || us - looked_us >= LOOK_US) {
        look_at_files(us);
        looked_us = us;
    }
    integrate(rates.clock_us >= 0 ? rates.clock_us : us);
    for (unsigned gpu = 0; gpu < now.gpus; gpu++)
        if (!now.gpu[gpu].counter_stall || !shown[gpu].at_us)
            shown[gpu] = total[gpu];
}

void forget_counters(void) {
    memset(total, 0, sizeof total);
    memset(shown, 0, sizeof shown);
    signature = 0;
    looked_us = 0;
    rates = (struct rates){.clock_us = -1};
}

void reset_counters(unsigned gpu) {
    advance();
    total[gpu].reset = total[gpu].sum;
}

/* Enter a call that reads a kind of counters. */
static nvmlReturn_t enter_counters(struct gpu *gpu, enum counter kind) {
    wait_for_counters();
    advance();
    return (nvmlReturn_t)gpu->counter_fault[kind];
}

int is_counter(unsigned field) {
    return (field >= DATA_TX && field <= RAW_RX) || field == PCIE_TX || field == PCIE_RX ||
           (field >= SENT_PACKETS && field <= RECEIVED_BYTES);
}

/* Whether a GPU has the field; the table of docs/operate/counters.md. */
static nvmlReturn_t supported(const struct gpu *gpu, unsigned field, unsigned scope) {
    enum architecture has = gpu->architecture;
    if (has == PASCAL)
        return INVALID_ARGUMENT; /* an old driver does not know the field */
    if (field == PCIE_TX || field == PCIE_RX)
        return has >= AMPERE ? SUCCESS : NOT_SUPPORTED;
    if (!gpu->nvlink_generation)
        return NOT_SUPPORTED;
    if (field >= SENT_PACKETS) {
        if (has < BLACKWELL)
            return has == VOLTA ? INVALID_ARGUMENT : NOT_SUPPORTED;
    } else if (has == BLACKWELL)
        return NOT_SUPPORTED;
    if (scope == ALL_LINKS && field <= RAW_RX)
        return has >= AMPERE ? SUCCESS : NOT_SUPPORTED;
    if (scope >= MAX_LINKS)
        return INVALID_ARGUMENT;
    return gpu->link[scope] == TO_NOTHING ? NOT_SUPPORTED : SUCCESS;
}

static double over_links(const struct gpu *gpu, const double *links, unsigned scope) {
    if (scope != ALL_LINKS)
        return links[scope];
    double sum = 0;
    for (unsigned link = 0; link < MAX_LINKS; link++)
        if (gpu->link[link] != TO_NOTHING)
            sum += links[link];
    return sum;
}

static double difference(const struct gpu *gpu, const double *from, const double *to,
                         unsigned scope) {
    return over_links(gpu, to, scope) - over_links(gpu, from, scope);
}

/* The value of a field in its own unit. */
static double field_value(const struct gpu *gpu, unsigned field, unsigned scope) {
    const struct reading *now_shown = &shown[index_of(gpu)];
    const struct amounts *to = &now_shown->sum, *from = &now_shown->reset;
    if (field == PCIE_TX || field == PCIE_RX)
        return field == PCIE_TX ? to->pcie_tx - from->pcie_tx : to->pcie_rx - from->pcie_rx;
    int sent = field == DATA_TX || field == RAW_TX || field == SENT_PACKETS || field == SENT_BYTES;
    double bytes = sent ? difference(gpu, from->tx, to->tx, scope)
                        : difference(gpu, from->rx, to->rx, scope);
    switch (field) {
    case DATA_TX:
    case DATA_RX: return bytes / KIB;
    case RAW_TX:
    case RAW_RX: return bytes / KIB * 9 / 8; /* with headers */
    case SENT_PACKETS:
    case RECEIVED_PACKETS: return bytes / PACKET_BYTES;
    default: return bytes;
    }
}

static void fill_counter(const struct gpu *gpu, nvmlFieldValue_t *value) {
    int pcie = value->fieldId == PCIE_TX || value->fieldId == PCIE_RX;
    value->nvmlReturn = (nvmlReturn_t)gpu->counter_fault[pcie ? PCIE : NVLINK];
    if (value->nvmlReturn == SUCCESS)
        value->nvmlReturn = supported(gpu, value->fieldId, value->scopeId);
    if (value->nvmlReturn != SUCCESS)
        return;
    unsigned bits = gpu->counter_bits ? gpu->counter_bits : 64;
    unsigned long long found = (unsigned long long)field_value(gpu, value->fieldId, value->scopeId);
    value->timestamp = shown[index_of(gpu)].at_us;
    value->value.ullVal = bits < 64 ? found & ((1ULL << bits) - 1) : found;
    value->valueType = bits <= 32 ? VALUE_UNSIGNED_INT : VALUE_UNSIGNED_LONG_LONG;
}

nvmlReturn_t fill_counters(struct gpu *gpu, int count, nvmlFieldValue_t *values) {
    wait_for_counters();
    advance();
    for (int i = 0; i < count; i++)
        if (is_counter(values[i].fieldId))
            fill_counter(gpu, &values[i]);
    return SUCCESS;
}

/* The real call measures for 20 ms, and returns KB/s. */
static nvmlReturn_t give_pcie(struct gpu *gpu, unsigned received, unsigned *kb_per_s) {
    nvmlReturn_t result = enter_counters(gpu, PCIE);
    const struct amounts *rate = &rates.gpu[index_of(gpu)];
    *kb_per_s = (unsigned)((received ? rate->pcie_rx : rate->pcie_tx) / KIB);
    return result;
}

GPU_CALL(nvmlDeviceGetPcieThroughput, (nvmlDevice_t device, unsigned received, unsigned *kb_per_s),
         result = give_pcie(gpu, received, kb_per_s))

static nvmlReturn_t give_utilization(struct gpu *gpu, nvmlUtilization_t *utilization) {
    nvmlReturn_t result = enter_counters(gpu, UTILIZATION);
    const struct amounts *rate = &rates.gpu[index_of(gpu)];
    utilization->gpu = (unsigned)rate->utilization;
    utilization->memory = (unsigned)(rate->dram * 100);
    return result == SUCCESS && gpu->mig ? NOT_SUPPORTED : result;
}

GPU_CALL(nvmlDeviceGetUtilizationRates, (nvmlDevice_t device, nvmlUtilization_t *utilization),
         result = give_utilization(gpu, utilization))

GPU_CALL(nvmlGpmQueryDeviceSupport, (nvmlDevice_t device, nvmlGpmSupport_t *support),
         support->isSupportedDevice = gpu->architecture >= HOPPER)

nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample) {
    nvmlReturn_t result = enter();
    if (result == SUCCESS && (*sample = calloc(1, sizeof **sample)) == NULL)
        result = UNKNOWN;
    return leave(result);
}

nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample) {
    nvmlReturn_t result = enter();
    free(sample);
    return leave(result);
}

static nvmlReturn_t fill_sample(struct gpu *gpu, nvmlGpmSample_t sample) {
    nvmlReturn_t result = enter_counters(gpu, GPM);
    if (result == SUCCESS && gpu->architecture < HOPPER)
        result = NOT_SUPPORTED;
    if (result == SUCCESS)
        *sample = (struct nvmlGpmSample_st){index_of(gpu), shown[index_of(gpu)]};
    return result;
}

GPU_CALL(nvmlGpmSampleGet, (nvmlDevice_t device, nvmlGpmSample_t sample),
         result = fill_sample(gpu, sample))

/* The integral that a metric of NVLink is the difference of; NULL if the GPU has no such link. */
static const double *link_sum(const struct gpu *gpu, const struct amounts *sum, unsigned id) {
    unsigned first = id >= GPM_LINK_18 ? GPM_LINK_18 : GPM_LINK_0;
    unsigned link = (id - first) / 2 + (first == GPM_LINK_18 ? GPM_LINKS_OF_0 : 0);
    if (id < GPM_LINK_0 || link >= MAX_LINKS || (first == GPM_LINK_0 && link >= GPM_LINKS_OF_0) ||
        gpu->link[link] == TO_NOTHING)
        return NULL;
    return (id - first) % 2 ? &sum->tx[link] : &sum->rx[link];
}

static void fill_metric(const struct gpu *gpu, metric_t *metric, const struct reading *from,
                        const struct reading *to) {
    double seconds = (double)(to->at_us - from->at_us) / 1e6, change = 0, unit = MIB;
    const struct amounts *a = &from->sum, *b = &to->sum;
    metric->nvmlReturn = SUCCESS;
    switch (metric->metricId) {
    case GPM_SM:
    case GPM_OCCUPANCY: change = b->occupancy - a->occupancy, unit = 0.01; break;
    case GPM_DRAM: change = b->dram - a->dram, unit = 0.01; break;
    case GPM_PCIE_TX: change = b->pcie_tx - a->pcie_tx; break;
    case GPM_PCIE_RX: change = b->pcie_rx - a->pcie_rx; break;
    case GPM_ALL_RX: change = difference(gpu, a->rx, b->rx, ALL_LINKS); break;
    case GPM_ALL_TX: change = difference(gpu, a->tx, b->tx, ALL_LINKS); break;
    default:
        if (link_sum(gpu, a, metric->metricId))
            change = *link_sum(gpu, b, metric->metricId) - *link_sum(gpu, a, metric->metricId);
        else
            metric->nvmlReturn = NOT_SUPPORTED;
    }
    if (metric->metricId >= GPM_ALL_RX && !gpu->nvlink_generation)
        metric->nvmlReturn = NOT_SUPPORTED;
    metric->value = seconds > 0 ? change / seconds / unit : __builtin_nan("");
}

nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *get) {
    nvmlReturn_t result = enter();
    if (result == SUCCESS && (get->version != 1 || get->sample1->gpu != get->sample2->gpu))
        result = INVALID_ARGUMENT;
    for (unsigned i = 0; result == SUCCESS && i < get->numMetrics; i++)
        fill_metric(&now.gpu[get->sample1->gpu], &get->metrics[i], &get->sample1->reading,
                    &get->sample2->reading);
    return leave(result);
}
