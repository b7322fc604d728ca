/* A stand-in for NVIDIA's libnvidia-ml.so.1: two GPUs with four NVLinks each, of which some things are not told.

   GPU 0: PCIe 3 x8 of 4 x16, link 2 down, slowed down by heat; GPU 1: 3 memory errors, and no throttle reasons. */
#include <string.h>

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3 };
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
static int gpus[2] = {0, 1};
static int number(void *handle) { return *(int *)handle; }
static int pci(int gpu, Pci *info) {
  memset(info, 0, sizeof *info);
  strcpy(info->bus_id, gpu ? "00000000:AF:00.0" : "00000000:3B:00.0");
  return OK;
}

int nvmlInitWithFlags(unsigned flags) { return OK; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) { *handle = &gpus[index]; return OK; }
int nvmlDeviceGetName(void *gpu, char *name, unsigned size) { strncpy(name, "Tesla V100", size); return OK; }
int nvmlDeviceGetPciInfo_v3(void *gpu, Pci *info) { return pci(number(gpu), info); }
int nvmlDeviceGetCurrPcieLinkGeneration(void *gpu, unsigned *found) { *found = 3; return OK; }
int nvmlDeviceGetMaxPcieLinkGeneration(void *gpu, unsigned *found) { *found = 4; return OK; }
int nvmlDeviceGetCurrPcieLinkWidth(void *gpu, unsigned *found) { *found = number(gpu) ? 16 : 8; return OK; }
int nvmlDeviceGetMaxPcieLinkWidth(void *gpu, unsigned *found) { *found = 16; return OK; }
int nvmlDeviceGetNvLinkState(void *gpu, unsigned link, unsigned *active) {
  *active = number(gpu) || link != 2;
  return link < 4 ? OK : INVALID;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *gpu, unsigned link, Pci *info) { return pci(!number(gpu), info); }
int nvmlDeviceGetEccMode(void *gpu, unsigned *now, unsigned *next) { *now = *next = 1; return OK; }
int nvmlDeviceGetTotalEccErrors(void *gpu, int kind, int counter, unsigned long long *count) {
  *count = number(gpu) ? 3 : 0;
  return kind == 1 && counter == 0 ? OK : INVALID;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *gpu, unsigned long long *reasons) {
  *reasons = 0x24;
  return number(gpu) ? NOT_SUPPORTED : OK;
}
int nvmlDeviceGetTopologyCommonAncestor(void *one, void *other, int *level) { *level = 50; return OK; }
const char *nvmlErrorString(int code) { return "an error"; }
