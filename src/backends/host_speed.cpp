#include "backends/host_speed.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "backends/cpu/gemm.h"
#include "base/clock.h"
#include "base/cpu_info.h"
#include "tensor/tensor.h"

namespace xc {
namespace {

constexpr int64_t kLongNs = 40'000'000;  // more of one measurement than three rounds is not done

/// Least seconds of a few calls: other tenants of the machine only ever add.
template <class F>
double least_s(int rounds, F&& f) {
  int64_t best = INT64_MAX;
  const int64_t begin = steady_ns();
  for (int k = 0; k < rounds && (k < 3 || steady_ns() - begin < kLongNs); ++k) {
    const int64_t start = steady_ns();
    f();
    best = std::min(best, steady_ns() - start);
  }
  return static_cast<double>(std::max<int64_t>(best, 1)) * 1e-9;
}

/// Bytes per second, read and written, of copies that fit `bytes` with source and target. Small
/// ones are repeated so often that a core that is taken away for a moment is not all they see.
double copy_bandwidth(std::byte* memory, size_t bytes, int rounds) {
  constexpr size_t kCopied = 16 << 20;
  const size_t half = bytes / 2;
  std::memset(memory, 1, bytes);  // pages are made now
  return static_cast<double>(bytes) / least_s(std::max(rounds, static_cast<int>(kCopied / bytes)),
                                              [&] { std::memcpy(memory + half, memory, half); });
}

/// `rounds`: of the least measurement, others are repeated accordingly.
HostSpeed measure(int rounds, int64_t size) {
  HostSpeed host;
  const std::vector<float> a(size * size, 0.5f), b(a);
  std::vector<float> c(size * size);
  const int64_t room = cpu::gemm_room<float>(size, size, size);
  const auto copies = Buffer::allocate(room * 4);
  const cpu::Sgemm product{
      .m = size,
      .n = size,
      .k = size,
      .alpha = 1,
      .a = a.data(),
      .lda = size,
      .b = b.data(),
      .ldb = size,
      .beta = 0,
      .c = c.data(),
      .ldc = size,
      .room = reinterpret_cast<float*>(copies->data()),
      .room_elements = room,
  };
  // A core that seems slower than any of its kind was disturbed, or this build is an instrumented
  // one; and what is compiled is not. So for bandwidths, below.
  const Isa isa = cpu_info().isa;
  const double slowest = isa == Isa::kAvx512 ? 60e9 : isa == Isa::kAvx2 ? 30e9 : 10e9;
  host.product_rate = std::max(slowest, 2.0 * static_cast<double>(size * size * size) /
                                            least_s(3 * rounds, [&] { cpu::own_gemm(product); }));
  // Fused softmax, GELU and normalisations reach half of that and more, as the cost model weighs
  // their operators. Too high a rate costs a compile that the trial turns down, too low a one
  // leaves a gain untried.
  host.cell_rate = 0.75 * host.product_rate;
  const CpuInfo& cpu = cpu_info();
  const auto l2 = static_cast<size_t>(cpu.l2_bytes);
  const auto l3 = std::max<size_t>(static_cast<size_t>(cpu.l3_bytes), 2 * l2);
  const size_t large = std::min<size_t>(std::max(l3 / 2, 2 * l2), size_t{4} << 20);
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(std::max(large, l2));
  constexpr HostSpeed kUsual = nominal_host_speed();
  host.l2_bandwidth =
      std::max(kUsual.l2_bandwidth / 2, copy_bandwidth(memory.get(), l2 / 2, rounds));
  host.l3_bandwidth =
      std::min(host.l2_bandwidth,
               std::max(kUsual.l3_bandwidth / 2, copy_bandwidth(memory.get(), large, rounds)));
  // Measuring memory would take tens of megabytes; a core gets 0.4 to 0.45 of its third-level
  // bandwidth from it on the servers this was tried on.
  host.memory_bandwidth = 0.43 * host.l3_bandwidth;
  host.l2_bytes = 0.75 * static_cast<double>(l2);
  host.l3_bytes = 0.5 * static_cast<double>(l3);
  return host;
}

}  // namespace

const HostSpeed& host_speed() {
  if (const HostSpeed* calibrated = calibrated_host_speed()) return *calibrated;
  // No guard that a child forked meanwhile would find taken by a thread which it does not have: who
  // measures at the same time does so for nothing.
  static std::atomic<const HostSpeed*> quick{nullptr};
  const HostSpeed* known = quick.load(std::memory_order_acquire);
  if (known) return *known;
  auto measured = std::make_unique<const HostSpeed>(measure(3, 96));
  if (quick.compare_exchange_strong(known, measured.get(), std::memory_order_acq_rel))
    known = measured.release();  // for as long as the process lives
  return *known;
}

HostSpeed calibrate_host() {
  HostSpeed host = measure(24, 192);
  // Copies that no cache holds, where that is possible within the limit.
  constexpr size_t kMost = size_t{64} << 20;
  const size_t bytes = std::min(kMost, static_cast<size_t>(2 * cpu_info().l3_bytes));
  if (bytes > 0 && 2 * bytes >= 3 * static_cast<size_t>(cpu_info().l3_bytes)) {
    const std::unique_ptr<std::byte[]> memory(new (std::nothrow) std::byte[bytes]);
    if (memory)
      host.memory_bandwidth = std::min(host.l3_bandwidth, copy_bandwidth(memory.get(), bytes, 3));
  }
  return host;
}

namespace {

std::atomic<const HostSpeed*> calibrated{nullptr};

}  // namespace

void set_host_speed(const HostSpeed& speed) {
  static const HostSpeed kept = speed;
  calibrated.store(&kept, std::memory_order_release);
}

const HostSpeed* calibrated_host_speed() {
  return calibrated.load(std::memory_order_acquire);
}

}  // namespace xc
