#include "tier/code_memory.h"

#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

using namespace xc;
using tier::CodeMemory;

namespace {

// mov eax, imm32; ret
std::vector<uint8_t> returns(uint8_t value, size_t size = 6) {
  std::vector<uint8_t> code(size, 0xcc);
  const uint8_t bytes[] = {0xb8, value, 0, 0, 0, 0xc3};
  std::memcpy(code.data(), bytes, sizeof(bytes));
  return code;
}

// Permissions of the mapping that holds `at`, as /proc/self/maps shows them.
std::string permissions(const void* at) {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  while (std::getline(maps, line)) {
    std::istringstream in(line);
    uintptr_t low = 0, high = 0;
    char dash = 0;
    std::string flags;
    in >> std::hex >> low >> dash >> high >> flags;
    const auto address = reinterpret_cast<uintptr_t>(at);
    if (address >= low && address < high) return flags;
  }
  return "none";
}

const void* address(xc_kernel_fn entry) {
  const void* out = nullptr;
  std::memcpy(&out, &entry, sizeof(out));
  return out;
}

struct Restore {
  ~Restore() {
    CodeMemory::inject_refusal(-1);
    CodeMemory::forget_refusal();
  }
};

}  // namespace

#if defined(__x86_64__)

TEST_CASE("tier/code_memory: a published image runs, is not writable, and ends at closed pages") {
  CodeMemory memory(4 * 4096);
  const auto one = memory.publish(returns(41), 0, 16);
  REQUIRE(one.block);
  const xc_kargs args{};
  CHECK(one.block->entry(&args) == 41);
  const auto* at = static_cast<const char*>(address(one.block->entry));
  CHECK(permissions(at) == "r-xp");
  CHECK(permissions(at - 1) == "---p");
  CHECK(permissions(at + 4096) == "---p");
  CHECK(memory.bytes_in_use() == 4096);
  memory.retire(*one.block);
  CHECK(permissions(at) == "---p");
  CHECK(memory.bytes_in_use() == 0);
}

TEST_CASE("tier/code_memory: retired pages are used again, the cap holds") {
  CodeMemory memory(3 * 4096 + 100);
  CHECK(memory.cap() == 3 * 4096);
  const auto a = memory.publish(returns(1), 0, 16), b = memory.publish(returns(2, 5000), 0, 16);
  REQUIRE((a.block && b.block));
  const auto full = memory.publish(returns(3), 0, 16);
  CHECK(!full.block);
  CHECK(full.reason == "code memory is full: 6 bytes wanted, 12288 of 12288 in use");
  memory.retire(*a.block);
  const auto again = memory.publish(returns(4), 0, 16);
  REQUIRE(again.block);
  CHECK(again.block->first_page == a.block->first_page);
  memory.retire(*b.block);
  memory.retire(*again.block);
  const auto whole = memory.publish(returns(5, 3 * 4096), 0, 16);  // the free pages have joined
  REQUIRE(whole.block);
  const xc_kargs args{};
  CHECK(whole.block->entry(&args) == 5);
  CHECK(!CodeMemory(0).publish(returns(1), 0, 16).block);
}

TEST_CASE("tier/code_memory: a refusal at any system call is remembered, and nothing is lost") {
  const Restore restore;
  for (int call = 0; call < 3; ++call) {
    CAPTURE(call);
    CodeMemory memory(2 * 4096);
    CodeMemory::inject_refusal(call);
    const auto refused = memory.publish(returns(1), 0, 16);
    CHECK(!refused.block);
    CHECK(refused.reason.find("executable memory refused: ") == 0);
    CHECK(CodeMemory::refusal() == refused.reason);
    CHECK(memory.bytes_in_use() == 0);
    CodeMemory other(4096);
    CHECK(other.publish(returns(1), 0, 16).reason == refused.reason);
    CodeMemory::forget_refusal();
    CHECK_FALSE(refused.later);
    CodeMemory::inject_refusal(0, ENOMEM);
    const auto short_of = CodeMemory(4096).publish(returns(1), 0, 16);
    CHECK(short_of.later);
    CHECK(short_of.reason.find("executable memory refused: ") == 0);
    CHECK(CodeMemory::refusal().empty());
    const auto later = memory.publish(returns(9, 2 * 4096), 0, 16);  // all pages are still there
    REQUIRE(later.block);
    const xc_kargs args{};
    CHECK(later.block->entry(&args) == 9);
  }
}

#endif
