/*
 * A stand-in for libnvidia-ml.so.1: the part of NVML that the node agent uses, answered from a
 * text file. counters.c has the hardware counters, processes.c the compute mode. Build:
 *
 *   cc -std=c11 -Wall -Wextra -Werror -O2 -fPIC -shared -pthread \
 *      -Wl,-soname,libnvidia-ml.so.1 -o libnvidia-ml.so.1 fakenvml.c counters.c processes.c
 *
 * The file is topology.conf beside the library, or what FAKE_NVML_TOPOLOGY names. Lines:
 *
 *   driver <version>
 *   gpu <index> <uuid> <minor> <pci-bus-id> <memory-bytes> <numa-node> <pcie-generation>
 *       <pcie-lanes> <nvlink-generation> <model to the end of the line>
 *   nvlink <gpu> <link> gpu <peer>
 *   nvlink <gpu> <link> switch
 *   common <a> <b> INTERNAL|SINGLE|MULTIPLE|HOSTBRIDGE|NODE|SYSTEM
 *   fault <gpu> <nvml-return-code>   every call that needs this GPU returns the code
 *   xid <gpu> <xid>                  delivered once, as a critical XID event, when the line appears
 *   mig <gpu>                        MIG mode is on
 *   recovery <gpu> NONE|GPU_RESET|NODE_REBOOT|DRAIN_P2P|DRAIN_AND_RESET
 *                                    the recovery action; without this line: not supported
 *   hang                             every call blocks until the line is gone
 *   architecture <gpu> pascal|volta|ampere|hopper|blackwell
 *                                    which counters the GPU has; default: from the model's name
 *   counter-fault <gpu> nvlink|pcie|gpm|utilization|all <nvml-return-code>
 *                                    reading these counters of the GPU returns the code
 *   counter-wrap <gpu> <bits>        the counters have so many bits; with 32 or fewer, their type is
 *                                    an unsigned int
 *   counter-reset <gpu>              once when the line appears: the counters begin at 0 again
 *   counter-stall <gpu>              counters and their time stamps stop
 *   counter-hang                     calls that read counters block; other calls do not
 *   compute-mode-fault <gpu> <nvml-return-code>
 *                                    setting the compute mode of the GPU returns the code
 *
 * '#' starts a comment line. GPUs come in order of index, before the lines that name them. A NUMA
 * node of -1 and an NVLink generation of 0 mean: none. Two GPUs without a 'common' line meet at
 * SYSTEM. A changed file is read again at the next call (replace it by rename, not in place); one
 * that cannot be read is told on stderr and the last good state stays.
 */
#define _GNU_SOURCE
#include "fakenvml.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { TYPE_GPU = 0, TYPE_SWITCH = 2 };
enum { TOPOLOGY_SYSTEM = 50 };
enum { EVENT_XID = 8 };
enum { FIELD_RECOVERY_ACTION = 230, RECOVERY_NOT_SUPPORTED = -1 };
typedef struct {
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct { unsigned long long total, free, used; } nvmlMemory_t;

typedef struct {
    nvmlDevice_t device;
    unsigned long long eventType, eventData;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

typedef struct nvmlEventSet_st {
    uint64_t gpus;  /* registered, bit i for GPU i */
    unsigned seen;  /* how many of the XIDs that ever appeared were looked at */
} *nvmlEventSet_t;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
HIDDEN struct state now;
static struct stat read_of;                    /* the file as it was when it was read last */
static struct nvmlDevice_st handles[MAX_GPUS]; /* stay valid when the file is read again */
static struct xid appeared[MAX_XIDS];          /* a ring of the latest */
static unsigned appeared_count, users;

static int parse_gpu(struct state *s, const char *line) {
    struct gpu g = {.fault = SUCCESS, .recovery = RECOVERY_NOT_SUPPORTED};
    unsigned index;
    if (sscanf(line, "gpu %u %63s %u %31s %llu %d %u %u %u %95[^\n]", &index, g.uuid, &g.minor,
               g.bus_id, &g.memory_bytes, &g.numa_node, &g.pcie_generation, &g.pcie_lanes,
               &g.nvlink_generation, g.model) != 10)
        return 0;
    if (index != s->gpus || index >= MAX_GPUS || g.numa_node > 63)
        return 0;
    for (int link = 0; link < MAX_LINKS; link++)
        g.link[link] = TO_NOTHING;
    for (unsigned other = 0; other < index; other++)
        s->common[index][other] = s->common[other][index] = TOPOLOGY_SYSTEM;
    g.architecture = architecture_of_model(g.model);
    s->gpu[s->gpus++] = g;
    return 1;
}

static int parse_nvlink(struct state *s, const char *line) {
    unsigned gpu, link, peer;
    char kind[8];
    int fields = sscanf(line, "nvlink %u %u %7s %u", &gpu, &link, kind, &peer);
    if (fields < 3 || gpu >= s->gpus || link >= MAX_LINKS)
        return 0;
    if (fields == 3 && strcmp(kind, "switch") == 0)
        s->gpu[gpu].link[link] = TO_SWITCH;
    else if (fields == 4 && strcmp(kind, "gpu") == 0 && peer < s->gpus && peer != gpu)
        s->gpu[gpu].link[link] = (int)peer;
    else
        return 0;
    return 1;
}

static int parse_common(struct state *s, const char *line) {
    static const char *const levels[] = {"INTERNAL", "SINGLE", "MULTIPLE",
                                         "HOSTBRIDGE", "NODE", "SYSTEM"};
    unsigned a, b;
    char word[16];
    if (sscanf(line, "common %u %u %15s", &a, &b, word) != 3 || a >= s->gpus || b >= s->gpus)
        return 0;
    for (unsigned level = 0; level < sizeof levels / sizeof *levels; level++)
        if (strcmp(word, levels[level]) == 0) {
            s->common[a][b] = s->common[b][a] = level * 10; /* NVML counts them in tens */
            return 1;
        }
    return 0;
}

static int parse_recovery(struct state *s, const char *line) {
    static const char *const actions[] = {"NONE", "GPU_RESET", "NODE_REBOOT", "DRAIN_P2P",
                                          "DRAIN_AND_RESET"};
    unsigned gpu;
    char word[16];
    if (sscanf(line, "recovery %u %15s", &gpu, word) != 2 || gpu >= s->gpus)
        return 0;
    for (int action = 0; action < (int)(sizeof actions / sizeof *actions); action++)
        if (strcmp(word, actions[action]) == 0) {
            s->gpu[gpu].recovery = action;
            return 1;
        }
    return 0;
}

static int parse_line(struct state *s, const char *line) {
    struct xid x;
    unsigned gpu;
    int code;
    if (line[0] == '#' || line[strspn(line, " \t\r\n")] == '\0')
        return 1;
    if (sscanf(line, "driver %79s", s->driver) == 1)
        return 1;
    if (sscanf(line, "fault %u %d", &gpu, &code) == 2 && gpu < s->gpus) {
        s->gpu[gpu].fault = code;
        return 1;
    }
    if (sscanf(line, "mig %u", &gpu) == 1 && gpu < s->gpus) {
        s->gpu[gpu].mig = 1;
        return 1;
    }
    if (sscanf(line, "compute-mode-fault %u %d", &gpu, &code) == 2 && gpu < s->gpus) {
        s->gpu[gpu].mode_fault = code;
        return 1;
    }
    if (sscanf(line, "xid %u %u", &x.gpu, &x.code) == 2 && x.gpu < s->gpus && s->xids < MAX_XIDS) {
        s->xid[s->xids++] = x;
        return 1;
    }
    if (strncmp(line, "hang", 4) == 0 && line[4 + strspn(line + 4, " \t\r\n")] == '\0') {
        s->hang = 1;
        return 1;
    }
    return parse_gpu(s, line) || parse_nvlink(s, line) || parse_common(s, line) ||
           parse_recovery(s, line) || parse_counter_line(s, line);
}

static int parse(FILE *file, const char *path, struct state *s) {
    char line[512];
    for (unsigned number = 1; fgets(line, sizeof line, file); number++)
        if (!parse_line(s, line)) {
            fprintf(stderr, "fakenvml: %s:%u: cannot read: %s", path, number, line);
            return 0;
        }
    return 1;
}

const char *conf_path(void) {
    static char path[PATH_MAX];
    Dl_info self;
    const char *named = getenv("FAKE_NVML_TOPOLOGY");
    if (named)
        return named;
    if (!path[0] && dladdr(&now, &self)) {
        char library[PATH_MAX];
        snprintf(library, sizeof library, "%s", self.dli_fname);
        if (snprintf(path, sizeof path, "%s/topology.conf", dirname(library)) >= PATH_MAX)
            path[0] = '\0';
    }
    return path;
}

/* Queue the XID lines of `next` that `now` does not have, counting equal lines. */
static void queue_new_xids(const struct state *next) {
    char matched[MAX_XIDS] = {0};
    for (unsigned i = 0; i < next->xids; i++) {
        unsigned old = 0;
        while (old < now.xids && (matched[old] || now.xid[old].gpu != next->xid[i].gpu ||
                                  now.xid[old].code != next->xid[i].code))
            old++;
        if (old < now.xids)
            matched[old] = 1;
        else
            appeared[appeared_count++ % MAX_XIDS] = next->xid[i];
    }
}

/* Read the file again if it changed; the mutex is held. Return whether there is a good state. */
static int refresh(void) {
    static struct state next; /* large, so not on the stack of a caller's thread */
    const char *path = conf_path();
    struct stat st;
    if (stat(path, &st) != 0)
        return now.driver[0] != '\0';
    if (st.st_ino == read_of.st_ino && st.st_size == read_of.st_size &&
        st.st_mtim.tv_sec == read_of.st_mtim.tv_sec &&
        st.st_mtim.tv_nsec == read_of.st_mtim.tv_nsec)
        return now.driver[0] != '\0';
    FILE *file = fopen(path, "r");
    if (!file)
        return now.driver[0] != '\0';
    memset(&next, 0, sizeof next);
    int good = parse(file, path, &next) && next.driver[0];
    fclose(file);
    read_of = st;
    if (good) {
        if (now.driver[0]) { /* what stood there before the first reading is history */
            queue_new_xids(&next);
            for (unsigned i = 0; i < next.gpus; i++)
                if (next.gpu[i].counter_reset && !now.gpu[i].counter_reset)
                    reset_counters(i);
        }
        now = next;
    }
    return now.driver[0] != '\0';
}

/* Wait for the end of a "hang" line. The mutex is held on entry and on return, not while waiting.
 * A missing file has no such line. */
static void wait_while_hanging(void) {
    const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
    refresh();
    while (now.hang && access(conf_path(), F_OK) == 0) {
        pthread_mutex_unlock(&mutex);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&mutex);
        refresh();
    }
}

void wait_for_counters(void) {
    const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
    refresh();
    while (now.counter_hang && access(conf_path(), F_OK) == 0) {
        pthread_mutex_unlock(&mutex);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&mutex);
        refresh();
    }
}

unsigned index_of(const struct gpu *gpu) { return (unsigned)(gpu - now.gpu); }

nvmlReturn_t enter(void) {
    pthread_mutex_lock(&mutex);
    wait_while_hanging();
    return users ? SUCCESS : UNINITIALIZED;
}

nvmlReturn_t leave(nvmlReturn_t result) {
    pthread_mutex_unlock(&mutex);
    return result;
}

/* Enter, and find the GPU of a handle. */
nvmlReturn_t enter_gpu(nvmlDevice_t device, struct gpu **gpu) {
    nvmlReturn_t result = enter();
    if (result != SUCCESS)
        return result;
    if (!device || device->index >= now.gpus)
        return INVALID_ARGUMENT;
    *gpu = &now.gpu[device->index];
    return (nvmlReturn_t)(*gpu)->fault;
}

static nvmlReturn_t enter_link(nvmlDevice_t device, unsigned link, struct gpu **gpu) {
    nvmlReturn_t result = enter_gpu(device, gpu);
    if (result != SUCCESS)
        return result;
    if (link >= MAX_LINKS)
        return INVALID_ARGUMENT;
    return (*gpu)->nvlink_generation ? SUCCESS : NOT_SUPPORTED;
}

static nvmlReturn_t give(char *buffer, unsigned length, const char *text) {
    if (strlen(text) >= length)
        return INSUFFICIENT_SIZE;
    strcpy(buffer, text);
    return SUCCESS;
}

#define LINK_CALL(name, parameters, body)                                                          \
    CALL(name, parameters, enter_link(device, link, &gpu), body)

nvmlReturn_t nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    pthread_mutex_lock(&mutex);
    if (!users) { /* a new session knows nothing of the last one */
        memset(&now, 0, sizeof now);
        memset(&read_of, 0, sizeof read_of);
        forget_counters();
    }
    wait_while_hanging();
    if (!now.driver[0])
        return leave(DRIVER_NOT_LOADED);
    for (unsigned i = 0; i < MAX_GPUS; i++)
        handles[i].index = i;
    users++;
    return leave(SUCCESS);
}

nvmlReturn_t nvmlShutdown(void) {
    nvmlReturn_t result = enter();
    if (result == SUCCESS)
        users--;
    return leave(result);
}

const char *nvmlErrorString(nvmlReturn_t code) {
    return code == SUCCESS ? "Success" : "Error of the stand-in";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length) {
    nvmlReturn_t result = enter();
    return leave(result == SUCCESS ? give(version, length, now.driver) : result);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count) {
    nvmlReturn_t result = enter();
    if (result == SUCCESS)
        *count = now.gpus;
    return leave(result);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
    struct gpu *gpu;
    nvmlReturn_t result = enter_gpu(index < MAX_GPUS ? &handles[index] : NULL, &gpu);
    if (result == SUCCESS)
        *device = &handles[index];
    return leave(result);
}

GPU_CALL(nvmlDeviceGetUUID, (nvmlDevice_t device, char *uuid, unsigned length),
         result = give(uuid, length, gpu->uuid))
GPU_CALL(nvmlDeviceGetName, (nvmlDevice_t device, char *name, unsigned length),
         result = give(name, length, gpu->model))
GPU_CALL(nvmlDeviceGetMinorNumber, (nvmlDevice_t device, unsigned *minor), *minor = gpu->minor)
GPU_CALL(nvmlDeviceGetMaxPcieLinkGeneration, (nvmlDevice_t device, unsigned *generation),
         *generation = gpu->pcie_generation)
GPU_CALL(nvmlDeviceGetMaxPcieLinkWidth, (nvmlDevice_t device, unsigned *lanes),
         *lanes = gpu->pcie_lanes)
GPU_CALL(nvmlDeviceGetMemoryInfo, (nvmlDevice_t device, nvmlMemory_t *memory),
         *memory = ((nvmlMemory_t){.total = gpu->memory_bytes, .free = gpu->memory_bytes}))
GPU_CALL(nvmlDeviceGetMigMode, (nvmlDevice_t device, unsigned *current, unsigned *pending),
         *current = *pending = (unsigned)gpu->mig)

static void fill_recovery(nvmlFieldValue_t *value, const struct gpu *gpu) {
    if (value->fieldId != FIELD_RECOVERY_ACTION || gpu->recovery == RECOVERY_NOT_SUPPORTED) {
        value->nvmlReturn = NOT_SUPPORTED;
        return;
    }
    value->nvmlReturn = SUCCESS;
    value->valueType = VALUE_UNSIGNED_INT;
    value->value.ullVal = 0;
    value->value.uiVal = (unsigned)gpu->recovery;
}

static nvmlReturn_t fill_values(struct gpu *gpu, int count, nvmlFieldValue_t *values) {
    int counters = 0;
    for (int i = 0; i < count; i++)
        if (is_counter(values[i].fieldId))
            counters++;
        else
            fill_recovery(&values[i], gpu);
    return counters ? fill_counters(gpu, count, values) : SUCCESS;
}

GPU_CALL(nvmlDeviceGetFieldValues, (nvmlDevice_t device, int count, nvmlFieldValue_t *values),
         result = fill_values(gpu, count, values))

static void fill_pci(nvmlPciInfo_t *pci, const char *bus_id) {
    memset(pci, 0, sizeof *pci);
    sscanf(bus_id, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
    snprintf(pci->busId, sizeof pci->busId, "%s", bus_id);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", pci->domain & 0xffff,
             pci->bus & 0xff, pci->device & 0xff);
}

GPU_CALL(nvmlDeviceGetPciInfo_v3, (nvmlDevice_t device, nvmlPciInfo_t *pci),
         fill_pci(pci, gpu->bus_id))

static nvmlReturn_t give_nodes(unsigned long *nodes, unsigned words, int numa_node) {
    if (numa_node < 0)
        return NOT_SUPPORTED;
    if (words == 0)
        return INSUFFICIENT_SIZE;
    memset(nodes, 0, words * sizeof *nodes);
    nodes[0] = 1UL << numa_node;
    return SUCCESS;
}

GPU_CALL(nvmlDeviceGetMemoryAffinity,
         (nvmlDevice_t device, unsigned words, unsigned long *nodes,
          __attribute__((unused)) unsigned scope),
         result = give_nodes(nodes, words, gpu->numa_node))

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device, nvmlDevice_t other,
                                                 unsigned *level) {
    struct gpu *gpu;
    nvmlReturn_t result = enter_gpu(device, &gpu);
    if (result == SUCCESS && (!other || other->index >= now.gpus))
        result = INVALID_ARGUMENT;
    if (result == SUCCESS)
        result = (nvmlReturn_t)now.gpu[other->index].fault;
    if (result == SUCCESS)
        *level = now.common[device->index][other->index];
    return leave(result);
}

LINK_CALL(nvmlDeviceGetNvLinkState, (nvmlDevice_t device, unsigned link, unsigned *active),
          *active = gpu->link[link] != TO_NOTHING)

/* NVML's numbers of the generations: 1.0 is 1, 2.0 is 2, 3.0 is 4, 4.0 is 6, 5.0 is 7. */
static unsigned nvlink_version(unsigned generation) {
    static const unsigned numbers[] = {0, 1, 2, 4, 6, 7};
    return generation < sizeof numbers / sizeof *numbers ? numbers[generation] : 0;
}

LINK_CALL(nvmlDeviceGetNvLinkVersion, (nvmlDevice_t device, unsigned link, unsigned *version),
          *version = nvlink_version(gpu->nvlink_generation))

static nvmlReturn_t give_peer(int peer, nvmlPciInfo_t *pci) {
    if (peer == TO_NOTHING)
        return NOT_SUPPORTED;
    fill_pci(pci, peer == TO_SWITCH ? "0000FFFF:00:00.0" : now.gpu[peer].bus_id);
    return SUCCESS;
}

LINK_CALL(nvmlDeviceGetNvLinkRemotePciInfo_v2,
          (nvmlDevice_t device, unsigned link, nvmlPciInfo_t *pci),
          result = give_peer(gpu->link[link], pci))

static nvmlReturn_t give_type(int peer, unsigned *type) {
    *type = peer == TO_SWITCH ? TYPE_SWITCH : TYPE_GPU;
    return peer == TO_NOTHING ? NOT_SUPPORTED : SUCCESS;
}

LINK_CALL(nvmlDeviceGetNvLinkRemoteDeviceType,
          (nvmlDevice_t device, unsigned link, unsigned *type),
          result = give_type(gpu->link[link], type))

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set) {
    nvmlReturn_t result = enter();
    if (result == SUCCESS && (*set = calloc(1, sizeof **set)) == NULL)
        result = UNKNOWN;
    if (result == SUCCESS)
        (*set)->seen = appeared_count;
    return leave(result);
}

GPU_CALL(nvmlDeviceRegisterEvents,
         (nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set),
         if (types & EVENT_XID) set->gpus |= UINT64_C(1) << device->index)

/* Take the next XID of a registered GPU; the mutex is held. */
static int next_event(nvmlEventSet_t set, nvmlEventData_t *event) {
    if (appeared_count - set->seen > MAX_XIDS)
        set->seen = appeared_count - MAX_XIDS;
    while (set->seen != appeared_count) {
        const struct xid *x = &appeared[set->seen++ % MAX_XIDS];
        if (!(set->gpus >> x->gpu & 1))
            continue;
        memset(event, 0, sizeof *event);
        event->device = &handles[x->gpu];
        event->eventType = EVENT_XID;
        event->eventData = x->code;
        return 1;
    }
    return 0;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *event, unsigned timeout_ms) {
    const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
    for (unsigned waited_ms = 0;; waited_ms += POLL_MS) {
        nvmlReturn_t result = enter();
        if (result != SUCCESS || next_event(set, event))
            return leave(result);
        leave(result);
        if (waited_ms >= timeout_ms)
            return TIMEOUT;
        nanosleep(&pause, NULL);
    }
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
    nvmlReturn_t result = enter();
    free(set);
    return leave(result);
}
