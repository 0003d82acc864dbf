#include "base/cpu_info.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace xc {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<int64_t> leading_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

/// "512K", "32M", "48" of /sys/devices/system/cpu.
int64_t size_with_unit(const std::string& text) {
  const int64_t number = leading_number(text).value_or(0);
  if (text.find('K') != std::string::npos) return number << 10;
  if (text.find('M') != std::string::npos) return number << 20;
  return number;
}

void detect_caches(CpuInfo& info) {
  for (int index = 0; index < 8; ++index) {
    const std::string dir =
        "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    const std::string level = first_line(dir + "level");
    if (level.empty()) break;
    if (first_line(dir + "type") == "Instruction") continue;
    const int64_t bytes = size_with_unit(first_line(dir + "size"));
    if (bytes <= 0) continue;
    if (level == "1") info.l1_bytes = bytes;
    if (level == "2") info.l2_bytes = bytes;
    if (level == "3") info.l3_bytes = bytes;
    const int64_t line = size_with_unit(first_line(dir + "coherency_line_size"));
    if (line > 0) info.line_bytes = line;
  }
}

/// The cgroup (version 2) of this process and its ancestors; the tightest quota counts. The path is
/// as seen from the process's own mount, which in a container is usually the root.
int cgroup_cores() {
  std::ifstream file("/proc/self/cgroup");
  std::string path;
  for (std::string line; std::getline(file, line);)
    if (line.rfind("0::", 0) == 0) path = line.substr(3);
  int cores = 0;
  for (int depth = 0; depth < 32; ++depth) {
    const int quota = cores_of_cgroup_quota(first_line("/sys/fs/cgroup" + path + "/cpu.max"));
    if (quota > 0) cores = cores > 0 ? std::min(cores, quota) : quota;
    const size_t slash = path.find_last_of('/');
    if (slash == std::string::npos) break;
    path.resize(slash);
  }
  if (cores > 0) return cores;
  // Version 1.
  for (const char* dir : {"/sys/fs/cgroup/cpu/", "/sys/fs/cgroup/cpu,cpuacct/"}) {
    const std::string quota = first_line(std::string(dir) + "cpu.cfs_quota_us");
    if (!quota.empty())
      return cores_of_cgroup_quota(quota + " " +
                                   first_line(std::string(dir) + "cpu.cfs_period_us"));
  }
  return 0;
}

int usable_cores() {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
#ifdef __linux__
  // Machines with more than 1024 processors need a larger set than cpu_set_t.
  for (int capacity = 1024; capacity <= 1 << 18; capacity *= 4) {
    cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(capacity));
    if (!set) break;
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(capacity));
    const int status = sched_getaffinity(0, bytes, set);
    if (status == 0) cores = CPU_COUNT_S(bytes, set);
    CPU_FREE(set);
    if (status == 0) break;
  }
#endif
  const int quota = cgroup_cores();
  if (quota > 0) cores = std::min<long>(cores, quota);
  return static_cast<int>(std::max<long>(1, cores));
}

#if defined(__x86_64__)
void detect_isa(CpuInfo& info) {
  // __builtin_cpu_supports also asks whether the system saves the registers.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("f16c"))
    info.isa = Isa::kAvx2;
  if (info.isa == Isa::kAvx2 && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    info.isa = Isa::kAvx512;
  if (info.isa != Isa::kAvx512) return;
  info.avx512_vnni = __builtin_cpu_supports("avx512vnni");
  info.avx512_vbmi = __builtin_cpu_supports("avx512vbmi");
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) info.avx512_bf16 = (a >> 5) & 1;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    info.avx512_fp16 = (d >> 23) & 1;
    info.amx_bf16 = (d >> 22) & 1;
    info.amx_tile = (d >> 24) & 1;
    info.amx_int8 = (d >> 25) & 1;
  }
}

std::string detect_model() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(0, &a, &b, &c, &d)) return "unknown";
  std::string maker;
  for (const unsigned part : {b, d, c}) maker.append(reinterpret_cast<const char*>(&part), 4);
  __get_cpuid(1, &a, &b, &c, &d);  // b tells which core this is: left out
  std::string text = fmt::format("{} {:x} {:x} {:x}", maker, a, c, d);
  for (const unsigned leaf : {0u, 1u})
    if (__get_cpuid_count(7, leaf, &a, &b, &c, &d))
      text += fmt::format(" {:x} {:x} {:x} {:x}", leaf == 0 ? 0 : a, b, c, d);
  return text;
}
#else
void detect_isa(CpuInfo&) {}

std::string detect_model() {
  const std::string model = first_line("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1");
  return model.empty() ? "unknown" : model;
}
#endif

}  // namespace

std::string_view name(Isa isa) {
  switch (isa) {
    case Isa::kBaseline:
      return "baseline";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "unknown";
}

int cores_of_cgroup_quota(std::string_view text) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos) return 0;
  const auto quota = leading_number(text.substr(0, space));
  const auto period = leading_number(text.substr(space + 1));
  if (!quota || !period || *quota <= 0 || *period <= 0) return 0;
  return static_cast<int>(
      std::clamp<int64_t>(*quota / *period + (*quota % *period != 0), 1, 1 << 20));
}

const CpuInfo& cpu_info() {
  static const CpuInfo info = [] {
    CpuInfo detected;
    detect_isa(detected);
    detected.model = detect_model();
    detect_caches(detected);
    detected.cores = usable_cores();
    return detected;
  }();
  return info;
}

bool grant_matrix_units() {
#if defined(__x86_64__) && defined(__linux__)
  // Linux, Documentation/arch/x86/xstate.rst: a process asks before it touches the tiles.
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  static const bool granted = cpu_info().amx_tile && cpu_info().amx_bf16 &&
                              cpu_info().avx512_bf16 &&
                              ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return granted;
#else
  return false;
#endif
}

}  // namespace xc
