/* What the files of the stand-in share. */
#ifndef FAKENVML_H
#define FAKENVML_H

#include <stdint.h>

enum { MAX_GPUS = 64, MAX_LINKS = 36, MAX_XIDS = 256, POLL_MS = 20 };
enum { TO_NOTHING = -1, TO_SWITCH = -2 }; /* else the index of the peer */

typedef enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3,
    NO_PERMISSION = 4,
    INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, TIMEOUT = 10, UNKNOWN = 999
} nvmlReturn_t;

typedef struct nvmlDevice_st { unsigned index; } *nvmlDevice_t;

typedef struct {
    unsigned fieldId, scopeId;
    long long timestamp, latencyUsec;
    int valueType;
    nvmlReturn_t nvmlReturn;
    union { unsigned uiVal; unsigned long long ullVal; } value;
} nvmlFieldValue_t;

enum { VALUE_UNSIGNED_INT = 1, VALUE_UNSIGNED_LONG_LONG = 3 };

enum architecture { BY_MODEL, PASCAL, VOLTA, AMPERE, HOPPER, BLACKWELL };

enum counter { NVLINK, PCIE, GPM, UTILIZATION, COUNTERS };

struct gpu {
    char uuid[64], bus_id[32], model[96];
    unsigned minor, pcie_generation, pcie_lanes, nvlink_generation;
    unsigned long long memory_bytes;
    int numa_node, fault, mig, recovery, mode_fault;
    enum architecture architecture;
    int counter_fault[COUNTERS], counter_stall, counter_reset;
    unsigned counter_bits; /* 0: 64 */
    int link[MAX_LINKS];
};

struct xid { unsigned gpu, code; };

struct state {
    char driver[80];
    unsigned gpus, xids;
    int hang, counter_hang;
    struct gpu gpu[MAX_GPUS];
    unsigned common[MAX_GPUS][MAX_GPUS];
    struct xid xid[MAX_XIDS];
};

/* The calling thread holds the mutex in all functions below, unless stated otherwise. */
#define HIDDEN __attribute__((visibility("hidden")))

extern HIDDEN struct state now;

/* Lock the mutex, and find the GPU of a handle. The mutex is locked after an error too. */
HIDDEN nvmlReturn_t enter_gpu(nvmlDevice_t device, struct gpu **gpu);
HIDDEN nvmlReturn_t enter(void);
/* Unlock the mutex and return `result`. */
HIDDEN nvmlReturn_t leave(nvmlReturn_t result);
HIDDEN unsigned index_of(const struct gpu *gpu);
HIDDEN const char *conf_path(void);
/* Wait for the end of a "counter-hang" line. The mutex is not held while waiting. */
HIDDEN void wait_for_counters(void);

/* Define a call on one GPU, or on one of its links: `body` runs where the GPU answers. */
#define CALL(name, parameters, enter, body)                                                        \
    nvmlReturn_t name parameters {                                                                 \
        struct gpu *gpu;                                                                           \
        nvmlReturn_t result = enter;                                                               \
        if (result == SUCCESS)                                                                     \
            body;                                                                                  \
        return leave(result);                                                                      \
    }
#define GPU_CALL(name, parameters, body) CALL(name, parameters, enter_gpu(device, &gpu), body)

/* Of counters.c: */
HIDDEN int parse_counter_line(struct state *s, const char *line);
HIDDEN enum architecture architecture_of_model(const char *model);
HIDDEN void forget_counters(void);
HIDDEN void reset_counters(unsigned gpu);
HIDDEN int is_counter(unsigned field);
/* Fill the values whose fields are counters. */
HIDDEN nvmlReturn_t fill_counters(struct gpu *gpu, int count, nvmlFieldValue_t *values);

#endif
