/*
 * The compute mode and the processes of the simulated GPUs, in files of the folder compute.d beside
 * topology.conf, so that all processes of a node see the same state:
 *
 *   compute.d/<uuid>/mode       the compute mode as a number; without this file: 0 (DEFAULT)
 *   compute.d/<uuid>/<pid>.C    a process with a context on the GPU; the text is its bytes of memory
 *   compute.d/<uuid>/<pid>.M    the same for a client of MPS
 *
 * Each process keeps a lock (flock) on its file. A file without a lock is of a process that has
 * ended. This works across PID namespaces.
 */
#define _GNU_SOURCE
#include "fakenvml.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEFAULT = 0, EXCLUSIVE_PROCESS = 3, SHORT_PATH = PATH_MAX - 300 };

typedef struct {
    unsigned pid;
    unsigned long long usedGpuMemory;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

static void folder_of(const struct gpu *gpu, char folder[PATH_MAX]) {
    char conf[PATH_MAX];
    snprintf(conf, sizeof conf, "%s", conf_path());
    snprintf(folder, PATH_MAX, "%.*s/compute.d/%s", SHORT_PATH, dirname(conf), gpu->uuid);
}

static unsigned read_mode(const struct gpu *gpu) {
    char folder[PATH_MAX], path[PATH_MAX + 8];
    unsigned mode = DEFAULT;
    folder_of(gpu, folder);
    snprintf(path, sizeof path, "%s/mode", folder);
    FILE *file = fopen(path, "r");
    if (!file)
        return DEFAULT;
    if (fscanf(file, "%u", &mode) != 1)
        mode = DEFAULT;
    fclose(file);
    return mode;
}

static nvmlReturn_t write_mode(const struct gpu *gpu, unsigned mode) {
    char folder[PATH_MAX], path[PATH_MAX + 8], fresh[PATH_MAX + 32];
    if (mode > EXCLUSIVE_PROCESS)
        return INVALID_ARGUMENT;
    if (gpu->mode_fault)
        return (nvmlReturn_t)gpu->mode_fault;
    folder_of(gpu, folder);
    snprintf(path, sizeof path, "%s/mode", folder);
    snprintf(fresh, sizeof fresh, "%s/.mode.%d", folder, (int)getpid());
    *strrchr(folder, '/') = '\0';
    mkdir(folder, 0755);
    folder_of(gpu, folder);
    mkdir(folder, 0755);
    FILE *file = fopen(fresh, "w");
    if (!file)
        return NO_PERMISSION;
    fprintf(file, "%u\n", mode);
    return fclose(file) == 0 && rename(fresh, path) == 0 ? SUCCESS : UNKNOWN;
}

/* Read one file; return whether its process still runs. */
static int read_process(int folder, const char *name, nvmlProcessInfo_t *info) {
    char text[32] = "";
    int file = openat(folder, name, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    int running = flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (running && read(file, text, sizeof text - 1) >= 0) {
        memset(info, 0, sizeof *info);
        info->pid = (unsigned)strtoul(name, NULL, 10);
        info->usedGpuMemory = strtoull(text, NULL, 10);
        info->gpuInstanceId = info->computeInstanceId = UINT32_MAX;
    }
    close(file);
    return running;
}

/* Give the processes whose files have one of these suffixes. */
static nvmlReturn_t give_processes(const struct gpu *gpu, const char *suffixes, unsigned *count,
                                   nvmlProcessInfo_t *infos) {
    char path[PATH_MAX];
    unsigned found = 0, capacity = infos ? *count : 0;
    nvmlProcessInfo_t info;
    folder_of(gpu, path);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        const char *dot = strrchr(entry->d_name, '.');
        if (!dot || dot == entry->d_name || !dot[1] || dot[2] || !strchr(suffixes, dot[1]) ||
            !read_process(dirfd(folder), entry->d_name, &info))
            continue;
        if (found < capacity)
            infos[found] = info;
        found++;
    }
    if (folder)
        closedir(folder);
    *count = found;
    return found > capacity ? INSUFFICIENT_SIZE : SUCCESS;
}

GPU_CALL(nvmlDeviceGetComputeMode, (nvmlDevice_t device, unsigned *mode), *mode = read_mode(gpu))
GPU_CALL(nvmlDeviceSetComputeMode, (nvmlDevice_t device, unsigned mode),
         result = write_mode(gpu, mode))
GPU_CALL(nvmlDeviceGetComputeRunningProcesses_v3,
         (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *infos),
         result = give_processes(gpu, "CM", count, infos))
GPU_CALL(nvmlDeviceGetMPSComputeRunningProcesses_v3,
         (nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *infos),
         result = give_processes(gpu, "M", count, infos))
