#pragma once
// What tests of passes write random graphs with.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <random>
#include <string>
#include <vector>

namespace xc::test {

/// Lines of a graph's text, whose values are numbered, and the numbers they are chosen by.
class RandomText {
 protected:
  explicit RandomText(unsigned seed) : random_(seed) {}

  int up_to(int most) { return static_cast<int>(random_() % static_cast<unsigned>(most + 1)); }

  /// A node of this code; the name of its value.
  std::string add(const std::string& code) {
    lines_ += fmt::format("  %v{} = {}\n", ++count_, code);
    return fmt::format("%v{}", count_);
  }
  /// A constant of quarters between -2 and 2.
  std::string numbers(const std::vector<int>& dims) {
    int all = 1;
    for (const int d : dims) all *= d;
    std::vector<double> out;
    for (int i = 0; i < all; ++i) out.push_back(0.25 * (up_to(16) - 8));
    const std::string list = fmt::format("{}", fmt::join(out, ", "));
    lines_ += fmt::format("  const %k{}: f32[{}] = {}\n", ++count_, fmt::join(dims, ", "),
                          dims.empty() ? list : "[" + list + "]");
    return fmt::format("%k{}", count_);
  }
  const std::string& lines() const { return lines_; }

 private:
  std::mt19937 random_;
  int count_ = 0;
  std::string lines_;
};

}  // namespace xc::test
