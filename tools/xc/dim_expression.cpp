#include "dim_expression.h"

#include <algorithm>
#include <charconv>

#include "common.h"

namespace tool {
namespace {

/// Reads what the library has written; the names are as there (Dim::text()).
class Reader {
 public:
  Reader(std::string_view text, const std::map<std::string_view, int64_t>& sizes)
      : text_(text), sizes_(sizes) {}

  int64_t sum() {
    int64_t out = product();
    for (;;) {
      if (eat('+'))
        out += product();
      else if (eat('-'))
        out -= product();
      else
        return out;
    }
  }

 private:
  int64_t product() {
    const int64_t sign = eat('-') ? -1 : 1;
    int64_t out = factor();
    while (eat('*')) out *= factor();
    return sign * out;
  }

  int64_t factor() {
    if (eat('(')) {
      const int64_t out = sum();
      expect(')');
      return out;
    }
    const size_t end = std::min(text_.find_first_of(" +-*(),", at_), text_.size());
    const std::string_view name = text_.substr(at_, end - at_);
    at_ = end;
    int64_t number = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), number).ec == std::errc{})
      return number;
    if (at_ < text_.size() && text_[at_] == '(') return call(name);
    const auto size = sizes_.find(name);
    return size == sizes_.end() ? 1 : size->second;
  }

  int64_t call(std::string_view function) {
    expect('(');
    const int64_t a = sum();
    expect(',');
    const int64_t b = sum();
    expect(')');
    if (function == "min") return std::min(a, b);
    if (function == "max") return std::max(a, b);
    if (function == "broadcast") return a == 1 ? b : a;
    if (b > 0) {
      const int64_t rest = (a % b + b) % b;
      if (function == "mod") return rest;
      if (function == "floordiv") return (a - rest) / b;
      if (function == "ceildiv") return (a - rest) / b + (rest > 0 ? 1 : 0);
    }
    fail(XC_UNSUPPORTED, "the size {} has no value here: give --shape", text_);
  }

  bool eat(char c) {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!eat(c)) fail(XC_INTERNAL, "the size {} is none", text_);
  }

  std::string_view text_;
  const std::map<std::string_view, int64_t>& sizes_;
  size_t at_ = 0;
};

}  // namespace

int64_t evaluate_dim(std::string_view text, const std::map<std::string_view, int64_t>& sizes) {
  const auto whole = sizes.find(text);
  return whole == sizes.end() ? std::max<int64_t>(0, Reader(text, sizes).sum()) : whole->second;
}

}  // namespace tool
