#pragma once
// The text of records: lines "name value value ...\n". Values are integers, reals and texts; in a
// text a space, the end of a line and a backslash are escaped, so any bytes may be one. Reading
// makes no tree: a document whose destructor allocates would end a process that has no memory.

#include <fmt/format.h>

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/hash.h"

namespace xc::cache {

class RecordWriter {
 public:
  template <class... Values>
  void line(std::string_view name, const Values&... values) {
    text_ += name;
    (add(values), ...);
    text_ += '\n';
  }
  std::string take() { return std::move(text_); }

 private:
  template <class Value>
    requires std::integral<Value> || std::floating_point<Value>
  void add(Value value) {
    fmt::format_to(std::back_inserter(text_), " {}", value);
  }
  void add(std::string_view text);
  void add(const Hash128& hash) { add(hash.text()); }
  template <class Range>
    requires requires(const Range& range) { requires std::integral<typename Range::value_type>; } &&
             (!std::convertible_to<Range, std::string_view>)
  void add(const Range& range) {
    for (const auto value : range) add(value);
  }

  std::string text_;
};

/// Thrown by RecordReader for whatever RecordWriter did not write.
struct Unreadable {};

class RecordReader {
 public:
  explicit RecordReader(std::string_view text) : rest_(text) {}

  /// The next line is one of this name.
  bool next_is(std::string_view name) const;
  /// Goes there; of the line before, nothing may be left.
  void line(std::string_view name);
  /// Every line has been read to its end.
  void done() const;

  // The next value of the line.
  bool more() const { return !values_.empty(); }
  int64_t integer(int64_t least = INT64_MIN, int64_t most = INT64_MAX);
  double real();  ///< finite
  std::string text();
  Hash128 hash();

 private:
  std::string_view value();

  std::string_view rest_, values_;
};

}  // namespace xc::cache
