/* The n-th system call on files fails, once or from then on, is interrupted, or moves fewer bytes
 * than asked, for n over everything that loading a model with external data, running with a cache
 * directory, saving and looking at the cache do: an answer or a clear error, the right values,
 * whole files only, no descriptor left open, and the same works when the files do. This program
 * defines the C library's functions for files. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "network.h"

typedef enum fault { kFails, kFailsForEver, kFull, kInterrupted, kShort, kFaults } fault;
static const char* const kFaultNames[] = {"fails once", "fails for ever", "no space", "interrupted",
                                          "moves less"};

static long left = -1; /* calls until one is faulty; -1 = none will be; of all threads */
static int kind, met, removal_refused;

/* The errno of this call, 0 = it works. `writes`: it needs room on the device. */
static int faulty(int writes, int may_be_interrupted) {
  long now = __atomic_load_n(&left, __ATOMIC_SEQ_CST);
  if (now < 0 || kind == kShort) return 0;
  if (kind == kFull && !writes) return 0;
  if (kind == kInterrupted && !may_be_interrupted) return 0;
  if (now > 0) {
    __atomic_store_n(&left, now - 1, __ATOMIC_SEQ_CST);
    return 0;
  }
  if (kind != kFailsForEver && kind != kFull) __atomic_store_n(&left, -1, __ATOMIC_SEQ_CST);
  met = 1;
  return kind == kFull ? ENOSPC : kind == kInterrupted ? EINTR : EIO;
}

/* How many of `size` bytes one call moves. */
static size_t moved(size_t size) {
  if (kind != kShort || __atomic_load_n(&left, __ATOMIC_SEQ_CST) < 0 || size < 2) return size;
  met = 1;
  return (size + 2) / 3;
}

#define REFUSE(writes, interrupted, value)                \
  do {                                                    \
    const int refused_with = faulty(writes, interrupted); \
    if (refused_with) {                                   \
      errno = refused_with;                               \
      return value;                                       \
    }                                                     \
  } while (0)

/* The argument behind `flags`, where they say that there is one. */
#define READ_MODE(flags, mode)                               \
  do {                                                       \
    va_list more;                                            \
    va_start(more, flags);                                   \
    if ((flags) & O_CREAT) mode = (mode_t)va_arg(more, int); \
    va_end(more);                                            \
  } while (0)

/* Seen by the library, whatever the visibility of everything else. */
#pragma GCC visibility push(default)
int openat(int dir, const char* path, int flags, ...) {
  mode_t mode = 0;
  READ_MODE(flags, mode);
  REFUSE(flags & O_CREAT, 0, -1);
  return (int)syscall(SYS_openat, dir, path, flags, mode);
}
int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  READ_MODE(flags, mode);
  return openat(AT_FDCWD, path, flags, mode);
}
ssize_t read(int fd, void* to, size_t size) {
  REFUSE(0, 1, -1);
  return syscall(SYS_read, fd, to, moved(size));
}
ssize_t pread(int fd, void* to, size_t size, off_t at) {
  REFUSE(0, 1, -1);
  return syscall(SYS_pread64, fd, to, moved(size), at);
}
ssize_t write(int fd, const void* from, size_t size) {
  if (fd > 2) REFUSE(1, 1, -1);
  return syscall(SYS_write, fd, from, fd > 2 ? moved(size) : size);
}
int fstat(int fd, struct stat* out) {
  REFUSE(0, 0, -1);
  return (int)syscall(SYS_fstat, fd, out);
}
int fchmod(int fd, mode_t mode) {
  REFUSE(0, 0, -1);
  return (int)syscall(SYS_fchmod, fd, mode);
}
int mkdir(const char* path, mode_t mode) {
  REFUSE(1, 0, -1);
  return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}
int rename(const char* from, const char* to) {
  REFUSE(1, 0, -1);
  return (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}
int renameat(int from_dir, const char* from, int to_dir, const char* to) {
  REFUSE(1, 0, -1);
  return (int)syscall(SYS_renameat, from_dir, from, to_dir, to);
}
int unlinkat(int dir, const char* path, int flags) {
  const int refused_with = faulty(0, 0);
  if (refused_with) {
    removal_refused = 1;
    errno = refused_with;
    return -1;
  }
  return (int)syscall(SYS_unlinkat, dir, path, flags);
}
int unlink(const char* path) {
  return unlinkat(AT_FDCWD, path, 0);
}
/* Network file systems tell here what they could not write. */
int close(int fd) {
  const int refused_with = faulty(1, 0);
  struct stat info;
  int result;
  if (refused_with && syscall(SYS_fstat, fd, &info) == 0 && S_ISREG(info.st_mode))
    (void)!syscall(SYS_ftruncate, fd, info.st_size / 2); /* fails for a file opened for reading */
  result = (int)syscall(SYS_close, fd);
  if (!refused_with) return result;
  errno = refused_with;
  return -1;
}
void* mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset) {
  if (fd >= 0) REFUSE(0, 0, MAP_FAILED);
  return (void*)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
}
#pragma GCC visibility pop

/* ---- a model with external data, by the fields of onnx.proto ---- */

typedef struct bytes {
  unsigned char data[1024];
  int size;
} bytes;

static void put(bytes* to, int field, const void* data, size_t size) {
  to->data[to->size++] = (unsigned char)(field << 3 | 2);
  if (size >= 128) to->data[to->size++] = (unsigned char)(size % 128 | 128);
  to->data[to->size++] = (unsigned char)(size >= 128 ? size / 128 : size);
  memcpy(to->data + to->size, data, size);
  to->size += (int)size;
}
static void put_text(bytes* to, int field, const char* text) {
  put(to, field, text, strlen(text));
}
static void put_bytes(bytes* to, int field, const bytes* part) {
  put(to, field, part->data, (size_t)part->size);
}
static void put_number(bytes* to, int field, int value) {
  to->data[to->size++] = (unsigned char)(field << 3);
  to->data[to->size++] = (unsigned char)value;
}

/* y = x w, w of 64 x 96 in weights.bin. */
static bytes external_model(void) {
  bytes none = {{0}, 0}, model = none, graph = none, node = none, weights = none, entry = none,
        opset = none, value = none, type = none, tensor = none, shape = none, dim = none;
  put_number(&model, 1, 9); /* ir_version */
  put_number(&opset, 2, 17);
  put_bytes(&model, 8, &opset);
  put_text(&node, 1, "x");
  put_text(&node, 1, "w");
  put_text(&node, 2, "y");
  put_text(&node, 4, "MatMul");
  put_bytes(&graph, 1, &node);
  put_text(&graph, 2, "external");
  put_number(&weights, 1, 64);
  put_number(&weights, 1, 96);
  put_number(&weights, 2, 1); /* float */
  put_text(&weights, 8, "w");
  put_text(&entry, 1, "location");
  put_text(&entry, 2, "weights.bin");
  put_bytes(&weights, 13, &entry);
  put_number(&weights, 14, 1); /* data_location: external */
  put_bytes(&graph, 5, &weights);
  put_text(&dim, 2, "n");
  put_bytes(&shape, 1, &dim);
  dim.size = 0;
  put_number(&dim, 1, 64);
  put_bytes(&shape, 1, &dim);
  put_number(&tensor, 1, 1);
  put_bytes(&tensor, 2, &shape);
  put_bytes(&type, 1, &tensor);
  put_text(&value, 1, "x");
  put_bytes(&value, 2, &type);
  put_bytes(&graph, 11, &value);
  value.size = type.size = tensor.size = 0;
  put_number(&tensor, 1, 1);
  put_bytes(&type, 1, &tensor);
  put_text(&value, 1, "y");
  put_bytes(&value, 2, &type);
  put_bytes(&graph, 12, &value);
  put_bytes(&model, 7, &graph);
  return model;
}

/* ---- what a process does with files ---- */

static float x[6 * kColumns];
static char folder[] = "/tmp/xc_io_faults_XXXXXX", cache[128], model_path[128], copy_path[128];
static int unsound, wrong, entries; /* sound ones in the cache, at the end of a life */

/* What a faulty file may lead to. Anything that moves bytes deals with interruptions and with less
 * than it asked for. */
static int sound(xc_status status, xc_error** error, const char* what, long n) {
  const int failing = kind != kInterrupted && kind != kShort;
  const int ok = status == XC_OK || (status == XC_IO && failing) ||
                 (status == XC_NOT_FOUND && failing && *what == '?');
  if (!ok)
    fprintf(stderr, "%s, call %ld %s: %s: %s\n", what, n, kFaultNames[kind], xc_status_name(status),
            xc_error_text(*error));
  unsound += !ok;
  xc_error_destroy(*error);
  *error = NULL;
  return status == XC_OK;
}

/* x w with w[i][j] = i - j, which f32 holds exactly in any order but for rounding. */
static int right(const xc_tensor* y) {
  const float* got = (const float*)xc_tensor_data(y);
  int r, i, j;
  if (xc_tensor_element_count(y) != 6 * 96) return 0;
  for (r = 0; r < 6; ++r)
    for (j = 0; j < 96; ++j) {
      double sum = 0, size = 0, off;
      for (i = 0; i < kColumns; ++i) {
        const double term = (double)x[r * kColumns + i] * (i - j);
        sum += term;
        size += term < 0 ? -term : term;
      }
      off = sum - (double)got[r * 96 + j];
      if (!((off < 0 ? -off : off) <= 1e-5 * size)) return 0;
    }
  return 1;
}

/* Loads `path` and runs it; 1 when there were results. */
static int run_model(xc_engine* engine, const char* path, long n) {
  const int64_t dims[2] = {6, kColumns};
  xc_tensor_view view = {NULL, NULL, NULL, XC_DTYPE_F32, 2};
  xc_error* error = NULL;
  xc_model* model = NULL;
  xc_session* session = NULL;
  xc_tensor* y = NULL;
  int i, ran = 0;
  view.data = x;
  view.dims = dims;
  if (sound(xc_model_load_file(engine, path, &model, &error), &error, "load", n) &&
      sound(xc_session_create(model, NULL, &session, &error), &error, "session", n)) {
    for (i = 0; i < 3; ++i) {
      ran = sound(xc_session_run_views(session, NULL, &view, 1, &y, 1, &error), &error, "run", n);
      wrong += ran && !right(y);
      xc_tensor_release(y);
      y = NULL;
    }
  }
  xc_session_destroy(session);
  xc_model_release(model);
  return ran;
}

static void count_entry(void* count, const xc_cache_entry* entry) {
  *(int*)count += entry->problem.size == 0;
}

/* Everything, the n-th call on files being faulty. */
static void life(xc_tensor** expected, long n) {
  xc_error* error = NULL;
  xc_config config = XC_CONFIG_INIT;
  xc_engine_options options = XC_ENGINE_OPTIONS_INIT;
  xc_graph* graph = NULL;
  xc_tensor* out[kOutputs] = {NULL, NULL, NULL, NULL};
  network net;
  int turn;
  config.threads = 1;
  config.jit = XC_JIT_SYNC;
  config.numerics = XC_NUMERICS_STRICT;
  config.cache_dir = cache;
  options.config = &config;
  met = removal_refused = entries = 0;
  __atomic_store_n(&left, n, __ATOMIC_SEQ_CST);
  for (turn = 0; turn < 2; ++turn) { /* the second finds what the first left in the cache */
    const int opened = sound(network_open_with(&net, &options, &error), &error, "open", n);
    if (opened && sound(network_run(&net, x, 6, out, &error), &error, "run", n))
      wrong += differing(expected, out);
    if (turn == 0 && net.engine) run_model(net.engine, model_path, n);
    drop_outputs(out);
    network_close(&net);
  }
  if (sound(xc_graph_load_file(model_path, 1, NULL, &graph, &error), &error, "load graph", n))
    sound(xc_graph_save_file(graph, copy_path, &error), &error, "save graph", n);
  xc_graph_destroy(graph);
  /* "?": the directory may not have come to be. */
  sound(xc_cache_visit(cache, count_entry, &entries, &error), &error, "? visit", n);
  sound(xc_cache_prune(cache, 4096, NULL, NULL, &error), &error, "? prune", n);
  __atomic_store_n(&left, -1, __ATOMIC_SEQ_CST);
}

static int in_folder(const char* path, const char* prefix) {
  DIR* stream = opendir(path);
  struct dirent* item;
  int count = 0;
  while (stream && (item = readdir(stream)))
    count += item->d_name[0] != '.' && strncmp(item->d_name, prefix, strlen(prefix)) == 0;
  if (stream) closedir(stream);
  return count;
}

static void write_whole(const char* name, const void* data, size_t size) {
  char path[192];
  FILE* file;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  file = fopen(path, "wb");
  CHECK(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
}

static const char kOld[] = "what was there before";

/* The folder as it is in front of every life. */
static void start_anew(int with_cache) {
  static float weights[64 * 96];
  const bytes model = external_model();
  int i;
  for (i = 0; i < 64 * 96; ++i) weights[i] = (float)(i / 96 - i % 96);
  CHECK(remove_folder(folder) && mkdir(folder, 0700) == 0);
  write_whole("model.onnx", model.data, (size_t)model.size);
  write_whole("weights.bin", weights, sizeof weights);
  write_whole("copy.xcg", kOld, sizeof kOld);
  if (with_cache) CHECK(mkdir(cache, 0700) == 0);
}

int main(void) {
  xc_error* error = NULL;
  xc_tensor* expected[kOutputs] = {NULL, NULL, NULL, NULL};
  network net;
  long n;
  int fds;
  fill_input(x, 6);
  CHECK(mkdtemp(folder) != NULL);
  snprintf(cache, sizeof cache, "%s/cache", folder);
  snprintf(model_path, sizeof model_path, "%s/model.onnx", folder);
  snprintf(copy_path, sizeof copy_path, "%s/copy.xcg", folder);
  start_anew(0);
  CHECK_OK(network_open(&net, "off", 1, NULL, &error));
  CHECK_OK(network_run(&net, x, 6, expected, &error));
  network_close(&net);

  kind = kFails;
  life(expected, 1000000); /* what stays open for good is open now */
  CHECK(unsound == 0 && wrong == 0);
  CHECK(entries > 0);
  fds = in_folder("/proc/self/fd", "");
  CHECK(fds > 0);
  for (kind = 0; kind < kFaults; ++kind) {
    for (n = 0; n < 100000; ++n) {
      FILE* file;
      char text[sizeof kOld] = "";
      int old, whole;
      start_anew(n % 2 == 1);
      life(expected, n);
      CHECK(in_folder("/proc/self/fd", "") == fds);
      /* The old file or the whole new one, and nothing half made beside it. */
      file = fopen(copy_path, "rb");
      old = file && fread(text, 1, sizeof text, file) == sizeof text &&
            memcmp(text, kOld, sizeof text) == 0;
      if (file) fclose(file);
      if (!old) {
        CHECK_OK(xc_engine_create(NULL, &net.engine, &error));
        whole = run_model(net.engine, copy_path, n);
        if (!whole) fprintf(stderr, "call %ld %s leaves half a file\n", n, kFaultNames[kind]);
        CHECK(whole);
        xc_engine_release(net.engine);
      }
      CHECK(removal_refused || in_folder(folder, "copy.xcg.") == 0);
      if (!met || kind == kShort || check_failures > 20) break;
    }
    printf("%s: %ld calls\n", kFaultNames[kind], n);
    CHECK(n < 100000);
    CHECK(kind == kShort ? met : n > 10);
    CHECK(unsound == 0);
    CHECK(wrong == 0);
    unsound = wrong = 0;
  }
  drop_outputs(expected);
  CHECK(remove_folder(folder));
  return check_result();
}
