#include <doctest/doctest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <thread>
#include <vector>

#include "tensor/tensor.h"

namespace xc {
namespace {

TEST_CASE("tensor/on_demand: one copy for all holders, none when they have let go") {
  const auto file = Buffer::allocate(1 + 4 * 8);
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8};
  std::memcpy(file->data() + 1, values.data(), 4 * 8);
  const Tensor t(Buffer::copy_on_demand(file, 1, 4 * 8), 4, DType::kF32, {7}, {1});

  const Tensor bytes = t.held(true);
  CHECK(bytes.as<std::byte>() == file->data() + 1 + 4);  // no copy
  std::weak_ptr<Buffer> made;
  {
    const Tensor held = t.held(), again = t.held();
    CHECK(held.data() == again.data());
    CHECK(reinterpret_cast<uintptr_t>(held.data()) % 4 == 0);
    CHECK(held.as<float>()[0] == 2);
    CHECK(held.as<float>()[6] == 8);
    made = held.buffer();
  }
  CHECK(made.expired());
  // data() makes one that stays.
  const void* kept = t.data();
  CHECK(t.held().data() == kept);
  CHECK(t.data() == kept);
}

TEST_CASE("tensor/on_demand: made once for threads that ask at once") {
  std::atomic<int> fills{0};
  const auto buffer = Buffer::make_on_demand(4096, [&](std::byte* to) {
    ++fills;
    std::memset(to, 7, 4096);
  });
  const auto first = buffer->held();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 100; ++k)
        if (buffer->held() != first || buffer->held()->data()[4095] != std::byte{7}) ++wrong;
      if (buffer->data()[0] != std::byte{7}) ++wrong;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(fills == 1);
}

TEST_CASE(
    "tensor/on_demand: a matrix with its axes swapped, of elements that are made themselves") {
  int fills = 0;
  const auto source = Buffer::make_on_demand(6, [&](std::byte* to) {
    ++fills;
    for (int i = 0; i < 6; ++i) to[i] = static_cast<std::byte>(i);
  });
  const Tensor turned = turned_on_demand(Tensor(source, 0, DType::kU4, {2, 3}));
  CHECK(fills == 0);
  CHECK(turned.dims() == Dims{3, 2});
  CHECK(turned.contiguous());
  std::weak_ptr<Buffer> made;
  {
    const Tensor held = turned.held(true);
    const auto* x = held.as<uint8_t>();
    CHECK(std::vector<int>(x, x + 6) == std::vector<int>{0, 3, 1, 4, 2, 5});
    made = held.buffer();
  }
  CHECK(made.expired());
  CHECK(fills == 1);
  // A column of another matrix.
  const Tensor wide = Tensor::of<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor column(wide.buffer(), 4, DType::kF32, {2, 1}, {3, 1});
  CHECK(turned_on_demand(column).held().to_doubles() == std::vector<double>{2, 5});
}

TEST_CASE("tensor/on_demand: rows made a few at a time, for a matrix with its axes swapped") {
  constexpr int64_t kRows = 1000, kColumns = 3000;  // several parts, and a last one that is smaller
  int64_t most = 0, made = 0;
  const auto element = [](int64_t at) { return static_cast<uint8_t>(at * 7 % 251); };
  const auto fill = [&](std::byte* to, int64_t begin, int64_t end) {
    CHECK(begin % kColumns == 0);
    most = std::max(most, end - begin);
    made += end - begin;
    for (int64_t i = begin; i < end; ++i) to[i - begin] = static_cast<std::byte>(element(i));
  };
  const auto source = Buffer::make_parts_on_demand(kRows * kColumns, kColumns, fill);
  const Tensor matrix(source, kColumns, DType::kU8, {kRows - 1, kColumns});  // behind a row
  const Tensor turned = turned_on_demand(matrix).held(true);
  CHECK(made == (kRows - 1) * kColumns);
  CHECK(most < kRows * kColumns / 4);
  int64_t wrong = 0;
  for (int64_t i = 0; i < kColumns; ++i)
    for (int64_t j = 0; j < kRows - 1; ++j)
      wrong += turned.as<uint8_t>()[i * (kRows - 1) + j] != element((j + 1) * kColumns + i);
  CHECK(wrong == 0);
  // Bytes that are no whole rows, and those of a copy that is there, come from one copy of all.
  std::vector<std::byte> some(10);
  source->read(5, 15, some.data());
  CHECK(some[9] == static_cast<std::byte>(element(14)));
  const auto copy = source->held();
  made = 0;
  some.resize(kColumns);
  source->read(kColumns, 2 * kColumns, some.data());
  CHECK(some[1] == static_cast<std::byte>(element(kColumns + 1)));
  CHECK(made == 0);
}

TEST_CASE("tensor/forget: whole pages of a mapping leave memory and come back as they were") {
  const int64_t page = ::sysconf(_SC_PAGESIZE), bytes = 4 * page;
  const int file = ::memfd_create("xc", MFD_CLOEXEC);
  REQUIRE(file >= 0);
  const std::vector<uint8_t> content(static_cast<size_t>(bytes), 3);
  REQUIRE(::write(file, content.data(), content.size()) == bytes);
  void* data =
      ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
  REQUIRE(data != MAP_FAILED);
  ::close(file);
  const auto mapped = Buffer::wrap_mapping(
      data, bytes, [data, bytes] { ::munmap(data, static_cast<size_t>(bytes)); });
  // What this process alone wrote is lost with its page: how the test sees which pages went.
  std::memset(data, 5, static_cast<size_t>(bytes));
  Tensor(mapped, 1, DType::kU8, {3 * page}).forget();
  const auto* now = static_cast<const uint8_t*>(data);
  CHECK(int{now[0]} == 5);
  CHECK(int{now[page - 1]} == 5);
  CHECK(int{now[page]} == 3);
  CHECK(int{now[3 * page - 1]} == 3);
  CHECK(int{now[3 * page]} == 5);
  // Memory of the heap stays.
  Tensor heap = Tensor::of<float>(std::vector<float>(4096, 2.0f), {4096});
  heap.forget();
  CHECK(heap.as<float>()[4095] == 2);
}

}  // namespace
}  // namespace xc
