/* Sessions run from a real-time thread that keeps to one processor, as audio threads do. What
 * compiles in the background takes neither from it: it has the ordinary policy, a nice value, the
 * processors of the thread that made the engine, and a name. */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include "network.h"

static network net;
static int refused;

/* The thread of this process that has a name; 0 for none. */
static int thread_named(const char* wanted) {
  DIR* const tasks = opendir("/proc/self/task");
  const struct dirent* entry;
  int found = 0;
  while (tasks && !found && (entry = readdir(tasks))) {
    char path[300], name[64] = "";
    FILE* file;
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
    if (!(file = fopen(path, "r"))) continue;
    if (fscanf(file, "%63s", name) == 1 && strcmp(name, wanted) == 0) found = atoi(entry->d_name);
    fclose(file);
  }
  if (tasks) closedir(tasks);
  return found;
}

static void keep_to_one_processor(void) {
  cpu_set_t all, one;
  int cpu = 0;
  CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
  while (!CPU_ISSET(cpu, &all)) ++cpu;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
}

/* Runs until there is something to compile. */
static void* real_time_thread(void* unused) {
  static float x[kMostRows * kColumns];
  const struct timespec pause = {0, 500000};
  const struct sched_param priority = {1};
  xc_error* error = NULL;
  xc_tensor* out[kOutputs] = {NULL, NULL, NULL, NULL};
  int run;
  (void)unused;
  keep_to_one_processor();
  refused = pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority) != 0;
  fill_input(x, 17);
  for (run = 0; run < 20000 && !thread_named("xc-compile"); ++run) {
    if (!CHECK_OK(network_run(&net, x, 17, out, &error))) break;
    nanosleep(&pause, NULL);
  }
  drop_outputs(out);
  return NULL;
}

/* What the thread sets for itself is set soon behind its name. */
static int settled(int thread, const cpu_set_t* processors) {
  cpu_set_t own;
  return sched_getscheduler(thread) == SCHED_OTHER &&
         getpriority(PRIO_PROCESS, (id_t)thread) >= 10 &&
         sched_getaffinity(thread, sizeof own, &own) == 0 && CPU_EQUAL(&own, processors);
}

int main(void) {
  const struct timespec pause = {0, 1000000};
  xc_error* error = NULL;
  pthread_t thread;
  cpu_set_t processors;
  int background, looks;
  CHECK(sched_getaffinity(0, sizeof processors, &processors) == 0);
  if (!CHECK_OK(network_open(&net, "auto", 1, NULL, &error))) return check_result();
  CHECK(pthread_create(&thread, NULL, real_time_thread, NULL) == 0);
  pthread_join(thread, NULL);
  background = thread_named("xc-compile");
  if (CHECK(background != 0)) {
    for (looks = 0; looks < 5000 && !settled(background, &processors); ++looks)
      nanosleep(&pause, NULL);
    CHECK(sched_getscheduler(background) == SCHED_OTHER);
    CHECK(getpriority(PRIO_PROCESS, (id_t)background) >= 10);
    CHECK(settled(background, &processors));
  }
  if (refused) printf("the system refused a real-time thread: an ordinary one ran\n");
  network_close(&net);
  return check_result();
}
