// Bands of rows through a chain of windows: every row that a call reads lies in the memory in front
// of it, and every row of the result is computed once. Windows are walked tap by tap.
#include "plan/band_schedule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace xc;

namespace {

class Chains {
 public:
  explicit Chains(uint64_t seed) : random_(seed) {}
  int64_t pick(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  std::vector<WindowAxis> chain() {
    std::vector<WindowAxis> out;
    int64_t rows = pick(2, 40);
    for (int64_t left = pick(2, 5); left > 0; --left) {
      WindowAxis axis;
      axis.input = rows;
      axis.kernel = pick(1, 5);
      axis.dilation = pick(1, 2);
      axis.stride = pick(1, 3);
      const int64_t extent = (axis.kernel - 1) * axis.dilation + 1;
      axis.pad_begin = pick(0, extent);  // a window may lie in the padding
      axis.pad_end = pick(0, extent);
      const int64_t room = rows + axis.pad_begin + axis.pad_end - extent;
      if (room < 0) continue;
      axis.output = rows = room / axis.stride + 1;
      out.push_back(axis);
    }
    return out;
  }

 private:
  std::mt19937_64 random_;
};

/// Rows of a step's result as the memory behind it holds them.
struct Memory {
  int64_t first = 0;
  std::vector<int64_t> rows;  ///< -1: none yet
};

}  // namespace

TEST_CASE("plan/band_schedule: rows are there when they are read") {
  int chains = 0, kept = 0, shared = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    Chains made(seed);
    const std::vector<WindowAxis> axes = made.chain();
    if (axes.empty()) continue;
    ++chains;
    const int64_t height = made.pick(1, 6), wanted = made.pick(1, 4);
    CAPTURE(seed);
    const BandSchedule s = schedule_bands(axes, wanted, height);
    const size_t last = axes.size() - 1;
    REQUIRE(s.rows.size() == axes.size());
    REQUIRE(s.room.size() == last);
    REQUIRE(s.chunks.size() == static_cast<size_t>(std::min(wanted, axes[last].output)) + 1);
    std::vector<int> computed(static_cast<size_t>(axes[last].output), 0);
    std::vector<std::vector<int>> asked(axes.size());
    for (size_t i = 0; i < axes.size(); ++i) asked[i].assign(s.rows[i].size(), 0);
    bool good = true;
    for (size_t chunk = 0; chunk + 1 < s.chunks.size(); ++chunk) {
      std::vector<Memory> memory(last);
      for (size_t i = 0; i < last; ++i) memory[i].rows.assign(static_cast<size_t>(s.room[i]), -1);
      for (size_t c = s.chunks[chunk]; c < s.chunks[chunk + 1]; ++c) {
        const BandCall& call = s.calls[c];
        const WindowAxis& axis = axes[call.step];
        ++asked[call.step][static_cast<size_t>(call.part)];
        const RowRange rows = s.rows[call.step][static_cast<size_t>(call.part)];
        good &= rows.size() > 0 && rows.begin >= 0 && rows.end <= axis.output;
        // What it reads of the step before.
        for (int64_t row = rows.begin; call.step > 0 && row < rows.end; ++row)
          for (int64_t tap = 0; tap < axis.kernel; ++tap) {
            const int64_t read = axis.at(row, tap);
            if (!axis.inside(read)) continue;
            const Memory& m = memory[call.step - 1];
            const auto at = static_cast<size_t>(read - m.first);
            good &= read >= m.first && at < m.rows.size() && m.rows[at] == read;
          }
        // A kernel may touch every row from the first to the last, one at least.
        if (call.step > 0) {
          const RowRange reached = rows_reached(axis, rows);
          const Memory& m = memory[call.step - 1];
          for (int64_t read = reached.begin; read < reached.end; ++read)
            good &= read >= m.first && read - m.first < static_cast<int64_t>(m.rows.size()) &&
                    m.rows[static_cast<size_t>(read - m.first)] == read;
        }
        if (call.step == last) {
          good &= rows.size() <= height;
          for (int64_t row = rows.begin; row < rows.end; ++row)
            ++computed[static_cast<size_t>(row)];
          continue;
        }
        Memory& m = memory[call.step];
        kept += call.kept_rows > 0;
        const std::vector<int64_t> before = m.rows;
        std::fill(m.rows.begin(), m.rows.end(), -1);
        for (int64_t i = 0; i < call.kept_rows; ++i)
          m.rows[static_cast<size_t>(i)] = before.at(static_cast<size_t>(call.kept_at + i));
        m.first = call.first_row;
        for (int64_t row = rows.begin; row < rows.end; ++row)
          m.rows.at(static_cast<size_t>(row - m.first)) = row;
      }
    }
    CHECK(good);
    CHECK(std::all_of(computed.begin(), computed.end(), [](int times) { return times == 1; }));
    for (size_t i = 0; i < axes.size(); ++i) {
      CHECK(std::all_of(asked[i].begin(), asked[i].end(), [](int times) { return times == 1; }));
      int64_t rows = 0;
      for (const RowRange& range : s.rows[i]) rows += range.size();
      shared += rows > axes[i].output;
      // One chunk computes nothing twice.
      if (s.chunks.size() == 2) CHECK(rows <= axes[i].output);
    }
  }
  CHECK(chains > 2500);
  CHECK(kept > 1000);
  CHECK(shared > 300);
}

TEST_CASE("plan/band_schedule: rows that are padding alone are known") {
  // 1x1 with a row of padding around nine.
  const WindowAxis axis{.input = 9, .output = 11, .kernel = 1, .pad_begin = 1, .pad_end = 1};
  for (int64_t row = 0; row < 11; ++row) CHECK(axis.reaches(row) == (row > 0 && row < 10));
  CHECK(!axis.all_reach());
  // The end of what is padded is reached by no window of stride 2.
  const WindowAxis even{.input = 9, .output = 5, .kernel = 1, .stride = 2, .pad_end = 1};
  CHECK(even.all_reach());
}

TEST_CASE("plan/band_schedule: rows in a band") {
  const auto axis = [](int64_t input, int64_t output, int64_t kernel, int64_t stride,
                       int64_t dilation) {
    return WindowAxis{
        .input = input, .output = output, .kernel = kernel, .stride = stride, .dilation = dilation};
  };
  // 1x1, then 3x3 of stride 2, then 3x3 with gaps.
  const std::vector<WindowAxis> axes{axis(100, 100, 1, 1, 1), axis(100, 49, 3, 2, 1),
                                     axis(49, 45, 3, 1, 2)};
  CHECK(rows_in_band(axes, 4) == std::vector<int64_t>{17, 17, 8, 4});
  CHECK(rows_in_band(axes, 45) == std::vector<int64_t>{99, 99, 49, 45});
}
