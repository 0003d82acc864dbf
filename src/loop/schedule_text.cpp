#include "loop/schedule_text.h"

#include <charconv>
#include <string>
#include <vector>

#include "base/error.h"
#include "loop/schedule.h"
#include "loop/schedule_tiles.h"

namespace xc::loop {
namespace {

std::vector<std::string_view> words_of(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::vector<std::string_view> words;
  while (true) {
    const size_t begin = text.find_first_not_of(kSpace);
    if (begin == std::string_view::npos) return words;
    text.remove_prefix(begin);
    const size_t end = text.find_first_of(kSpace);
    words.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end);
  }
}

int64_t number(std::string_view word, int64_t high) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size() || value < 1 || value > high)
    fail(Status::kFormat, "'{}' is not a number from 1 to {}", word, high);
  return value;
}

Kernel apply_step(Kernel kernel, const std::vector<std::string_view>& words) {
  constexpr int kMaxFactor = 1 << 20;
  const std::string_view name = words[0];
  const auto is = [&](std::string_view want, size_t arguments) {
    if (name != want) return false;
    if (words.size() != arguments + 1)
      fail(Status::kFormat, "{} takes {} arguments", want, arguments);
    return true;
  };
  if (is("split", 2)) return split(std::move(kernel), words[1], number(words[2], kMaxFactor));
  if (is("vectorize", 2))
    return vectorize(std::move(kernel), words[1], static_cast<int>(number(words[2], kMaxFactor)));
  if (is("unroll", 2))
    return unroll(std::move(kernel), words[1], static_cast<int>(number(words[2], kMaxFactor)));
  if (is("parallelize", 1)) return parallelize(std::move(kernel), words[1]);
  if (is("fuse", 2)) return fuse(std::move(kernel), words[1], words[2]);
  if (is("jam", 2))
    return jam(std::move(kernel), words[1], static_cast<int>(number(words[2], kMaxFactor)));
  if (is("reorder", 1)) return reorder(std::move(kernel), words[1]);
  if (is("tile", 4))
    return tile(std::move(kernel), words[1], words[2], number(words[3], kMaxFactor),
                number(words[4], kMaxFactor));
  if (is("stage", 2)) return stage(std::move(kernel), words[1], words[2]);
  if (is("tensorize", 4))
    return tensorize(std::move(kernel), words[1], words[2],
                     static_cast<int>(number(words[3], kMaxFactor)),
                     static_cast<int>(number(words[4], kMaxFactor)));
  if (is("default", 0)) return schedule_default(std::move(kernel), {});
  fail(
      Status::kFormat,
      "no schedule step '{}': there are split, vectorize, unroll, parallelize, fuse, jam, reorder, "
      "tile, stage, tensorize, default",
      name);
}

}  // namespace

Kernel apply_schedule(Kernel kernel, std::string_view steps) {
  for (int count = 1; !steps.empty(); ++count) {
    const size_t end = steps.find(';');
    const std::vector<std::string_view> words = words_of(steps.substr(0, end));
    if (!words.empty())
      kernel =
          located("schedule step " + std::to_string(count) + " (" + std::string(words[0]) + ")",
                  [&] { return apply_step(std::move(kernel), words); });
    steps.remove_prefix(end == std::string_view::npos ? steps.size() : end + 1);
  }
  return kernel;
}

}  // namespace xc::loop
