#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/background_thread.h"
#include "base/build_id.h"
#include "base/companion.h"
#include "base/cpu_info.h"
#include "base/error.h"
#include "base/large_stack.h"
#include "codegen/codegen.h"
#include "loop/builder.h"
#include "loop/schedule.h"
#include "loop/text.h"
#include "tier/code_memory.h"
#include "tier/region_compiler.h"

namespace xc {
namespace {

constexpr const char* kLibrary = "libxcrt-jit.so";

/// Guards what is below of every compiler of the process, opening libxcrt-jit above all, which
/// takes some ten milliseconds: a fork() waits until nobody is at it, or the child would find it
/// half open, and locked.
std::mutex& process_lock() {
  static std::mutex lock;
  return lock;
}

void keep_whole_in_children() {
  static std::once_flag once;
  std::call_once(once, [] {
    constexpr auto lock = [] { process_lock().lock(); };
    constexpr auto unlock = [] { process_lock().unlock(); };
    pthread_atfork(lock, unlock, unlock);  // where it is refused, forks wait for nothing
  });
}

/// The table of libxcrt-jit; null with the reason.
const xc_jit_table* open_code_generator(std::string& reason) {
  if (void* symbol = open_companion(kLibrary, "xc_jit_api", reason))
    return reinterpret_cast<xc_jit_api_fn>(symbol)(XC_JIT_VERSION);
  reason = "the code generator cannot be opened: " + reason;
  return nullptr;
}

/// Whether the process can open no file or map no page just now: what fails for that is tried
/// again.
bool is_short_of_resources() {
  const int file = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno == EMFILE || errno == ENFILE || errno == ENOMEM;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  void* const mapped = ::mmap(nullptr, page, PROT_READ, MAP_PRIVATE, file, 0);
  const bool refused = mapped == MAP_FAILED && errno == ENOMEM;
  if (mapped != MAP_FAILED) ::munmap(mapped, page);
  ::close(file);
  return refused;
}

class JitPhase final : public PhaseCode {
 public:
  /// `image`: what the block was made of; its code need not stay.
  JitPhase(std::shared_ptr<tier::CodeMemory> memory, tier::CodeMemory::Block block,
           const CodeImage& image, std::string listing, const CompileTimes& times)
      : memory_(std::move(memory)),
        block_(block),
        size_(image.code.size()),
        entry_(image.entry),
        alignment_(image.alignment),
        listing_(std::move(listing)),
        times_(times) {}
  /// The last plan that holds the code is gone, and with it every run that was inside.
  ~JitPhase() override { memory_->retire(block_); }
  JitPhase(const JitPhase&) = delete;
  JitPhase& operator=(const JitPhase&) = delete;
  int32_t run(const xc_kargs& args) const override { return block_.entry(&args); }
  int64_t code_bytes() const override { return static_cast<int64_t>(size_); }
  const std::string& listing() const override { return listing_; }
  CompileTimes times() const override { return times_; }
  CodeImage image() const override {
    const uint8_t* at = nullptr;
    std::memcpy(&at, &block_.entry, sizeof at);  // the pages can be read
    return {{at - entry_, size_}, entry_, alignment_};
  }

 private:
  std::shared_ptr<tier::CodeMemory> memory_;
  tier::CodeMemory::Block block_;
  size_t size_, entry_, alignment_;
  std::string listing_;
  CompileTimes times_;
};

// As little as there can be: it sets up LLVM's tables.
loop::Kernel vector_doubled() {
  loop::KernelBuilder builder("warm_up");
  const loop::DimParam n = builder.dim("n");
  const loop::Buffer x = builder.input("x", DType::kF32, {1});
  const loop::Buffer y = builder.output("y", DType::kF32, {1});
  builder.loop("i", 0, n, [&](loop::Var i) { builder.store(y(i), x(i) + x(i)); });
  return loop::schedule_default(builder.finish(), {});
}

class JitCompiler final : public RegionCompiler {
 public:
  JitCompiler(int64_t isa, int64_t code_bytes, bool listing)
      : isa_(isa == 0 ? cpu_info().isa : static_cast<Isa>(isa - 1)),
        index_(static_cast<size_t>(isa)),
        target_(kTargets[index_]),
        cap_(code_bytes),
        listing_(listing) {
    keep_whole_in_children();
  }

  loop::TargetWidth target() const override {
    loop::TargetWidth width;
    width.registers = isa_ == Isa::kAvx512 ? 32 : isa_ == Isa::kAvx2 ? 8 : 4;
    width.multiplies = isa_ == Isa::kAvx512 || isa_ == Isa::kAvx2;
    width.matrix_units = isa_ == Isa::kAvx512;
    width.near_bytes = cpu_info().l1_bytes;
    return width;
  }

  std::shared_ptr<const PhaseCode> compile(const loop::Kernel& kernel) override {
    const xc_jit_table* table = open();
    const double start = thread_cpu_seconds();
    const std::string text = loop::print(kernel);
    const double printed = thread_cpu_seconds();
    const xc_jit_request request{text.data(), text.size(), target_,
                                 listing_ ? uint32_t{XC_JIT_WANT_ASSEMBLY} : 0u};
    xc_jit_image image{};
    std::array<char, 512> error{};
    const int32_t status = on_large_stack(
        [&] { return table->compile(&request, &image, error.data(), error.size()); });
    if (status != 0) throw Error(static_cast<Status>(status), error.data());
    const std::unique_ptr<xc_jit_image, decltype(table->release)> owner(&image, table->release);
    const xc_jit_times& t = image.times;
    return publish({{image.code, image.size}, image.entry, image.alignment},
                   listing_ ? text + "\n" + (image.assembly ? image.assembly : "") : std::string(),
                   {printed - start, t.read, t.emit, t.optimize, t.generate, t.link, 0});
  }

  std::shared_ptr<const PhaseCode> place(const CodeImage& image) override {
    return publish(image, "", {});
  }

  std::string identity() const override {
    // A listing is wanted, and only a compile makes one.
    if (listing_) return {};
    static const std::string generator = build_id_of_file(find_companion(kLibrary));
    if (generator.empty()) return {};
    return fmt::format("generator {}\nprocessor {}\ntarget {} {} abi {}", generator,
                       cpu_info().model, target_, name(isa_), XC_KERNEL_ABI_VERSION);
  }

  void warm_up() override {
    // The code generator's tables are the process's, per target.
    static std::array<std::atomic<bool>, kTargets.size()> warm{};
    if (warm[index_].load(std::memory_order_relaxed)) return;
    try {
      compile(vector_doubled());
      warm[index_].store(true, std::memory_order_relaxed);
    } catch (const std::exception&) {
      // The region's compile meets the same trouble and reports it.
    }
  }

  std::string disabled() const override {
    const std::lock_guard lock(process_lock());
    if (!reason_.empty()) return reason_;
    return tier::CodeMemory::refusal();
  }

  int64_t code_bytes() const override {
    const std::lock_guard lock(process_lock());
    return memory_ ? memory_->bytes_in_use() : 0;
  }

 private:
  std::shared_ptr<const PhaseCode> publish(const CodeImage& image, std::string listing,
                                           CompileTimes times) {
    const double start = thread_cpu_seconds();
    const std::shared_ptr<tier::CodeMemory> memory = this->memory();
    const tier::CodeMemory::Published published =
        memory->publish(image.code, image.entry, image.alignment);
    if (!published.block)
      throw Error(published.full    ? Status::kLimit
                  : published.later ? Status::kOutOfMemory
                                    : Status::kUnsupported,
                  published.reason);
    times.publish = thread_cpu_seconds() - start;
    return std::make_shared<JitPhase>(memory, *published.block, image, std::move(listing), times);
  }

  std::shared_ptr<tier::CodeMemory> memory() {
    const std::lock_guard lock(process_lock());
    if (!memory_) memory_ = std::make_shared<tier::CodeMemory>(cap_);
    return memory_;
  }

  const xc_jit_table* open() {
    const std::lock_guard lock(process_lock());
    if (!reason_.empty()) throw Error(Status::kUnsupported, reason_);
    if (!table_) {
      std::string reason;
      table_ = open_code_generator(reason);
      if (!table_) {
        if (is_short_of_resources()) throw Error(Status::kOutOfMemory, reason);
        reason_ = reason.empty() ? "the code generator is of another version" : reason;
        throw Error(Status::kUnsupported, reason_);
      }
    }
    return table_;
  }

  static constexpr std::array<const char*, 4> kTargets{"host", "x86-64-v2", "x86-64-v3",
                                                       "x86-64-v4"};
  Isa isa_;
  size_t index_;  ///< of the target
  const char* target_;
  int64_t cap_;
  bool listing_;
  // Under process_lock().
  const xc_jit_table* table_ = nullptr;
  std::string reason_;
  std::shared_ptr<tier::CodeMemory> memory_;
};

}  // namespace

std::unique_ptr<RegionCompiler> create_jit_compiler(int64_t isa, int64_t code_bytes, bool listing) {
  return std::make_unique<JitCompiler>(isa, code_bytes, listing);
}

}  // namespace xc
