// The text of a dim: "2*n+1", "floordiv(n+3,4)". What is printed is canonical (one text for all
// expressions that are known to be equal); what is parsed may also have blanks, parentheses and
// terms in any order.

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/checked.h"
#include "base/error.h"
#include "tensor/dim_node.h"

namespace xc {

std::string function_text(const char* name, const Dim& a, const Dim& b) {
  return std::string(name) + "(" + a.text() + "," + b.text() + ")";
}

std::string product_text(const std::vector<AtomRef>& atoms) {
  std::string out;
  for (const AtomRef& atom : atoms) {
    if (!out.empty()) out += '*';
    out += atom->key;
  }
  return out;
}

std::string sum_text(const Sum& sum) {
  std::string out;
  for (const auto& [monomial, factor] : sum) {
    if (!out.empty() && factor >= 0) out += '+';
    if (monomial.atoms.empty()) {
      out += std::to_string(factor);
    } else {
      if (factor == -1)
        out += '-';
      else if (factor != 1)
        out += std::to_string(factor) + "*";
      out += monomial.key;
    }
  }
  return out;
}

std::string Dim::text() const {
  return node_ ? node_->key : std::to_string(constant_);
}

namespace {

/// Operators, of other languages too, brackets, quotes and blanks.
constexpr std::string_view kNotInNames = "+-*/(),[]{}<>=;:\"'% \t\n\r";

// expr := term (('+'|'-') term)*; term := ['-'] factor ('*' factor)*; factor := number | name
// | function '(' expr ',' expr ')' | '(' expr ')'. A name is what symbol_name() leaves as it is;
// "u[0]" is an element symbol.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}
  Dim parse() {
    Dim out = expr();
    skip();
    if (at_ != text_.size()) error("unexpected character");
    return out;
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  [[noreturn]] void error(const char* what) const {
    fail(Status::kFormat, "{} at column {} of dim \"{}\"", what, at_ + 1, text_);
  }
  bool eat(char c) {
    skip();
    if (at_ < text_.size() && text_[at_] == c) {
      ++at_;
      return true;
    }
    return false;
  }
  Dim expr() {
    Dim out = term();
    for (;;) {
      if (eat('+'))
        out = out + term();
      else if (eat('-'))
        out = out - term();
      else
        return out;
    }
  }
  Dim term() {
    const bool negative = eat('-');
    Dim out = factor();
    while (eat('*')) out = out * factor();
    return negative ? Dim(-1) * out : out;
  }
  Dim factor() {
    if (++depth_ > 64) error("nesting too deep");
    Dim out = factor_inner();
    --depth_;
    return out;
  }
  Dim factor_inner() {
    skip();
    if (eat('(')) {
      Dim out = expr();
      if (!eat(')')) error("expected ')'");
      return out;
    }
    const size_t start = at_;
    at_ = std::min(text_.find_first_of(kNotInNames, start), text_.size());
    const std::string name(text_.substr(start, at_ - start));
    if (name.empty()) error("expected a number or a name");
    if (std::isdigit(static_cast<unsigned char>(name[0]))) {
      int64_t v = 0;
      for (char c : name) {
        if (!std::isdigit(static_cast<unsigned char>(c))) error("malformed number");
        v = checked_add(checked_mul(v, 10), c - '0');
      }
      return v;
    }
    if (at_ < text_.size() && text_[at_] == '(') {
      ++at_;
      const Dim a = expr();
      if (!eat(',')) error("expected ','");
      const Dim b = expr();
      if (!eat(')')) error("expected ')'");
      if (name == "floordiv") return floor_div(a, b);
      if (name == "ceildiv") return ceil_div(a, b);
      if (name == "mod") return modulo(a, b);
      if (name == "min") return min(a, b);
      if (name == "max") return max(a, b);
      if (name == "broadcast") return broadcast(a, b);
      error("unknown function");
    }
    const std::string index = element_index();
    return Dim::symbol(name + index, !index.empty());
  }
  /// "[0]" behind the name of a value; empty where no bracket stands.
  std::string element_index() {
    if (at_ == text_.size() || text_[at_] != '[') return {};
    const size_t start = at_;
    at_ = std::min(text_.find_first_not_of("0123456789", start + 1), text_.size());
    if (at_ == start + 1 || at_ == text_.size() || text_[at_] != ']') error("expected an index");
    ++at_;
    return std::string(text_.substr(start, at_ - start));
  }
  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::string symbol_name(std::string_view name) {
  std::string out;
  for (const char c : name) out += kNotInNames.find(c) == std::string_view::npos ? c : '_';
  if (out.empty()) return "_";
  if (out[0] >= '0' && out[0] <= '9') out.insert(out.begin(), '_');
  return out;
}

Dim Dim::parse(std::string_view text) {
  return Parser(text).parse();
}

}  // namespace xc
