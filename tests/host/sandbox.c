/* Sandboxes: no executable memory, no processes, no kernel calls newer than needed, no /proc, /sys
 * and /tmp. Runs succeed with the results they have outside; what is off is told. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "network.h"

static float x[kMostRows * kColumns];

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define REFUSE(code) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (code))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
/* The next instruction only for this call. */
#define ON(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1)

static int install(struct sock_filter* code, size_t count) {
  struct sock_fprog program;
  program.len = (unsigned short)count;
  program.filter = code;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 0;
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* What sandboxes of servers and browsers refuse. */
static __attribute__((unused)) int few_calls(void) {
  struct sock_filter code[] = {LOAD(nr),       ON(execve),
                               REFUSE(EPERM),  ON(execveat),
                               REFUSE(EPERM),  ON(clone3),
                               REFUSE(ENOSYS), ON(membarrier),
                               REFUSE(ENOSYS), ON(memfd_create),
                               REFUSE(EPERM),  ON(prctl),
                               REFUSE(EPERM),  ON(setpriority),
                               REFUSE(EPERM),  ON(sched_setaffinity),
                               REFUSE(EPERM),  ON(sched_getaffinity),
                               REFUSE(EPERM),  ON(sched_setscheduler),
                               REFUSE(EPERM),  ON(perf_event_open),
                               REFUSE(EPERM),  ON(socket),
                               REFUSE(EPERM),  ON(madvise),
                               REFUSE(EINVAL), ON(flock),
                               REFUSE(EPERM),  ON(uname),
                               REFUSE(EPERM),  ON(sysinfo),
                               REFUSE(EPERM),  ON(getrandom),
                               REFUSE(ENOSYS), ALLOW};
  return install(code, sizeof code / sizeof *code);
}

/* A hardened system: memory never becomes executable. */
static int no_executable_memory(void) {
  struct sock_filter code[] = {LOAD(nr),
                               ON(mprotect),
                               BPF_JUMP(BPF_JMP | BPF_JA, 3, 0, 0),
                               ON(mmap),
                               BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0),
                               ALLOW,
                               LOAD(args[2]),
                               BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
                               REFUSE(EACCES),
                               ALLOW};
  return install(code, sizeof code / sizeof *code);
}

/* Made by main(), empty, and removed by it with what was written below it. */
static char root_folder[] = "/tmp/xc_root_XXXXXX";
static char cache_folder[sizeof root_folder + sizeof "/cache"];

static int removed(const char* path, const struct stat* status, int type, struct FTW* at) {
  (void)status, (void)type, (void)at;
  return remove(path);
}

/* An empty root: neither /proc, /sys, /tmp nor the library's own folder. */
static int empty_root(void) {
  return (chroot(root_folder) == 0 || (unshare(CLONE_NEWUSER) == 0 && chroot(root_folder) == 0)) &&
         chdir("/") == 0;
}

enum { kRuns = 400, kSkipped = 77 };

static int right_in(const char* mode, int (*enter)(void), int opened_before) {
  xc_error* error = NULL;
  xc_tensor *out[kOutputs] = {NULL}, *expected[kMostRows][kOutputs] = {{NULL}};
  xc_counters counters = XC_COUNTERS_INIT;
  int64_t rows;
  int i, bad = 0;
  network n;
  CHECK_OK(network_open(&n, "off", 1, NULL, &error));
  for (rows = 1; rows <= kMostRows; ++rows) {
    fill_input(x, rows);
    CHECK_OK(network_run(&n, x, rows, expected[rows - 1], &error));
  }
  network_close(&n);
  if (opened_before) CHECK_OK(network_open(&n, mode, 2, NULL, &error));
  if (!enter()) return kSkipped;
  if (!opened_before) CHECK_OK(network_open(&n, mode, 2, cache_folder, &error));
  for (i = 0; i < kRuns; ++i) {
    rows = 1 + i % kMostRows;
    fill_input(x, rows);
    if (!CHECK_OK(network_run(&n, x, rows, out, &error))) break;
    bad += !(distance(expected[rows - 1], out) < 1e-4);
    drop_outputs(out);
  }
  CHECK(bad == 0);
  CHECK_OK(xc_session_counters(n.session, &counters, &error));
  printf("%s: %d compiled\n", mode, (int)counters.compiled_regions);
  network_close(&n);
  for (rows = 0; rows < kMostRows; ++rows) drop_outputs(expected[rows]);
  return check_failures != 0;
}

int main(void) {
  static const struct {
    const char* name;
    int (*enter)(void);
  } boxes[] = {
#if !defined(__SANITIZE_ADDRESS__) /* which needs some of these */
      {"few calls", few_calls},
#endif
      {"no executable memory", no_executable_memory},
      {"empty root", empty_root}};
  const char* const modes[] = {"off", "sync", "auto"};
  size_t box;
  int mode, before;
  if (!CHECK(mkdtemp(root_folder))) return check_result();
  snprintf(cache_folder, sizeof cache_folder, "%s/cache", root_folder);
  for (box = 0; box < sizeof boxes / sizeof *boxes; ++box)
    for (mode = 0; mode < 3; ++mode)
      for (before = 0; before < 2; ++before) {
        int status = 0;
        pid_t child;
        printf("%s, %s: ", boxes[box].name, before ? "entered with a session" : "entered first");
        fflush(stdout);
        child = fork();
        if (child == 0) {
          alarm(120);
          check_failures = 0;
          status = right_in(modes[mode], boxes[box].enter, before);
          fflush(stdout);
          _exit(status);
        }
        CHECK(waitpid(child, &status, 0) == child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == kSkipped)
          printf("skipped: this user cannot\n");
        else if (!CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0))
          fprintf(stderr, "%s, %s: status %#x\n", boxes[box].name, modes[mode], (unsigned)status);
      }
  CHECK(nftw(root_folder, removed, 8, FTW_DEPTH | FTW_PHYS) == 0);
  return check_result();
}
