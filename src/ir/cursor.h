#pragma once
// Reading position in a text: the lexical rules shared by the graph text form and the rewrite
// rules. Errors are kFormat with `where` = "line L, column C" (both from 1, columns in bytes).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace xc {

class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {}

  /// Skips white space and comments (`#` or `//` to the end of the line).
  void skip_space();
  bool at_end();
  /// The next character after white space, '\0' at the end.
  char peek();
  /// Takes `symbol` (after white space) when it comes next; a word is taken whole or not at all.
  bool eat(std::string_view symbol);
  void expect(std::string_view symbol);

  /// [A-Za-z_][A-Za-z0-9_.]*; empty when none comes next.
  std::string_view peek_word();
  std::string_view word(const char* what);
  /// What may follow a '%' or stand for a name: [A-Za-z0-9_.]+ or a quoted string.
  std::string name(const char* what);
  /// Op or domain::Op; only domains are quoted: "my-company.com"::Op.
  struct OperatorName {
    std::string name, domain;
  };
  OperatorName operator_name();
  /// "..." with escapes \n \t \r \\ \" \xHH.
  std::string quoted();

  /// A number's characters, by shape: digits, sign, '.', exponent; also nan, inf, -inf.
  struct Number {
    std::string_view text;
    bool integral = false;
  };
  bool at_number();
  Number number();
  int64_t integer();
  double real();

  /// Raw text up to (not including) a character of `stops` outside of brackets.
  std::string_view until(std::string_view stops);

  size_t position() const { return at_; }
  void rewind(size_t position) { at_ = position; }

  template <class... Args>
  [[noreturn]] void error(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(Status::kFormat, fmt::format(format, std::forward<Args>(args)...), place(at_));
  }
  /// "line L, column C" of a position.
  std::string place(size_t position) const;

 private:
  std::string_view text_;
  size_t at_ = 0;
};

bool is_plain_name(std::string_view name);  ///< needs no quotes
/// The name itself, or quoted with escapes when it is not plain.
std::string spell_name(std::string_view name);
std::string spell_quoted(std::string_view text);

}  // namespace xc
