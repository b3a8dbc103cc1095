/* Stands in for libnvidia-ml.so.1 where there is no GPU: what it answers is named by the environment variable STUB. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { char name[64]; int index; } Device;
static Device devices[16];

typedef struct {
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} Pci;

static int is(const char *name) {
    const char *text = getenv("STUB");
    return text && strcmp(text, name) == 0;
}

static int gpus(void) {
    const char *text = getenv("STUB_GPUS");
    return text ? atoi(text) : 1;
}

static int last(const Device *device) { return device->index == gpus() - 1; }

int nvmlInitWithFlags(unsigned flags) {
    const char *text = getenv("STUB_NVML");
    (void)flags;
    if (is("hang-nvml")) pause();
    for (int i = 0; i < 16; ++i) devices[i].index = i;
    return text ? atoi(text) : 0;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return 0; }

const char *nvmlErrorString(int code) {
    return code == 18 ? "Driver/library version mismatch" : code == 15 ? "GPU is lost" : code == 9 ? "Driver Not Loaded" : "Unknown Error";
}

int nvmlSystemGetDriverVersion(char *text, unsigned length) { snprintf(text, length, "550.54.15"); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 12040; return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = (unsigned)(gpus() - is("missing")); return 0; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **device) {
    *device = &devices[index];
    return is("lost") && (int)index == gpus() - 1 ? 15 : 0;
}

int nvmlDeviceGetPciInfo_v3(Device *device, Pci *pci) {
    memset(pci, 0, sizeof *pci);
    pci->bus = (unsigned)device->index + 1;
    pci->pciDeviceId = 0x27b810de;
    snprintf(pci->busId, sizeof pci->busId, "00000000:%02X:00.0", device->index + 1);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "0000:%02X:00.0", device->index + 1);
    return 0;
}

int nvmlDeviceGetName(Device *device, char *name, unsigned length) { (void)device; snprintf(name, length, "NVIDIA L4"); return 0; }

int nvmlDeviceGetUUID(Device *device, char *uuid, unsigned length) {
    snprintf(uuid, length, "GPU-00000000-0000-0000-0000-%012x", (unsigned)device->index);
    return 0;
}

int nvmlDeviceGetCudaComputeCapability(Device *device, int *major, int *minor) { (void)device; *major = 8; *minor = 9; return 0; }

int nvmlDeviceGetMemoryInfo(Device *device, unsigned long long *memory) {
    (void)device;
    memory[0] = 23034ULL << 20;
    memory[1] = 22000ULL << 20;
    memory[2] = 1034ULL << 20;
    return 0;
}

int nvmlDeviceGetMigMode(Device *device, unsigned *now, unsigned *pending) {
    (void)device;
    *now = *pending = is("mig") || is("mig-empty");
    return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(Device *device, unsigned *count) { (void)device; *count = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(Device *device, unsigned index, Device **mig) {
    *mig = device;
    return is("mig") && index < 2 ? 0 : 6;
}

int nvmlDeviceGetPersistenceMode(Device *device, unsigned *mode) { (void)device; *mode = 1; return 0; }
int nvmlDeviceGetComputeMode(Device *device, unsigned *mode) { (void)device; *mode = is("prohibited") ? 2 : 0; return 0; }
int nvmlDeviceGetEccMode(Device *device, unsigned *now, unsigned *pending) { (void)device; *now = *pending = 1; return 0; }

int nvmlDeviceGetTotalEccErrors(Device *device, unsigned kind, unsigned counter, unsigned long long *count) {
    *count = is("ecc") && last(device) && kind == 1 ? (counter ? 5 : 2) : 0;
    return 0;
}

int nvmlDeviceGetRemappedRows(Device *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    *corrected = *uncorrected = 0;
    *pending = is("remap-pending") && last(device);
    *failed = is("remap-failed") && last(device);
    return 0;
}

int nvmlDeviceGetRetiredPagesPendingStatus(Device *device, unsigned *pending) { (void)device; *pending = 0; return 3; }
int nvmlDeviceGetCurrentClocksThrottleReasons(Device *device, unsigned long long *reasons) {
    *reasons = is("hot") && last(device) ? 0x40 : is("power-cap") ? 0x4 : 0x1;
    return 0;
}
int nvmlDeviceGetTemperature(Device *device, unsigned sensor, unsigned *value) { (void)device; (void)sensor; *value = 41; return 0; }
int nvmlDeviceGetPowerUsage(Device *device, unsigned *value) { (void)device; *value = 28400; return 0; }
int nvmlDeviceGetEnforcedPowerLimit(Device *device, unsigned *value) { (void)device; *value = is("power-cap") ? 40000 : 72000; return 0; }
int nvmlDeviceGetPowerManagementDefaultLimit(Device *device, unsigned *value) { (void)device; *value = 72000; return 0; }
int nvmlDeviceGetClockInfo(Device *device, unsigned kind, unsigned *value) { (void)device; (void)kind; *value = 2040; return 0; }
int nvmlDeviceGetMaxClockInfo(Device *device, unsigned kind, unsigned *value) { (void)device; (void)kind; *value = 2040; return 0; }
int nvmlDeviceGetCurrPcieLinkWidth(Device *device, unsigned *value) { (void)device; *value = is("power-cap") ? 8 : 16; return 0; }
int nvmlDeviceGetMaxPcieLinkWidth(Device *device, unsigned *value) { (void)device; *value = 16; return 0; }

int nvmlDeviceGetGpuFabricInfo(Device *device, unsigned char *info) {
    /* 16 bytes of cluster, then status, clique and state; as nvml.h lays them out. */
    unsigned status = is("fabric-failed") ? 1 : 0;
    unsigned char state = is("fabric-failed") ? 3 : is("fabric-waits") ? 2 : 0;
    (void)device;
    memset(info, 0, 16);
    memcpy(info + 16, &status, sizeof status);
    info[24] = state;
    return 0;
}
