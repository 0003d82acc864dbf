#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "base/error.h"
#include "loop/text.h"
#include "loop/typing.h"
#include "loop/verify.h"
#include "loop/words.h"

namespace xc::loop {

namespace {

constexpr int kMaxDepth = 200;  // of nested parentheses and blocks
// Temporaries make an expression of any depth out of short ones, and need not be used at all.
// Everything behind the parser may walk and destroy what it makes by recursion.
constexpr size_t kMaxParsedNodes = 2 * kMaxNodes;

struct Token {
  enum Kind { kName, kNumber, kTemporary, kPunctuation, kEnd } kind = kEnd;
  std::string_view text;
  size_t at = 0;
};

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { advance(); }
  const Token& peek() const { return token_; }
  Token next() {
    Token token = token_;
    advance();
    return token;
  }
  [[noreturn]] void error(size_t at, std::string_view what) const {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < text_.size(); ++i) {
      ++column;
      if (text_[i] == '\n') {
        ++line;
        column = 1;
      }
    }
    fail(Status::kFormat, "loop text {}:{}: {}", line, column, what);
  }

 private:
  char look(size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void advance() {
    for (;; ++at_) {
      if (look(0) == '#')
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      const char c = look(0);
      if (c != ' ' && c != '\n' && c != '\t' && c != '\r') break;
    }
    const size_t begin = at_;
    token_.at = begin;
    if (at_ >= text_.size()) {
      token_ = {Token::kEnd, {}, begin};
      return;
    }
    const char c = look(0);
    if (is_digit(c)) {
      token_.kind = Token::kNumber;
      number();
    } else if (is_name_char(c)) {
      token_.kind = Token::kName;
      while (is_name_char(look(0))) ++at_;
    } else if (c == '%') {
      token_.kind = Token::kTemporary;
      ++at_;
      while (is_digit(look(0))) ++at_;
    } else {
      token_.kind = Token::kPunctuation;
      at_ += punctuation_length();
    }
    token_.text = text_.substr(begin, at_ - begin);
  }

  void number() {
    while (is_digit(look(0))) ++at_;
    if (look(0) == '.' && is_digit(look(1))) {
      ++at_;
      while (is_digit(look(0))) ++at_;
    }
    if (look(0) == 'e' && (is_digit(look(1)) || look(1) == '-' || look(1) == '+')) {
      at_ += 2;
      while (is_digit(look(0))) ++at_;
    }
  }

  size_t punctuation_length() const {
    for (const std::string_view two : {"..", "<-", "<=", ">=", "==", "!=", "<<", ">>"})
      if (text_.substr(at_, 2) == two) return 2;
    return 1;
  }

  std::string_view text_;
  size_t at_ = 0;
  Token token_;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text) {}

  Kernel kernel() {
    expect("kernel");
    kernel_.name = name();
    expect("(");
    if (!at(")") && !at(";")) do
        kernel_.dims.push_back(declare(name(), Kind::kDim, kernel_.dims.size()));
      while (accept(","));
    if (accept(";")) do
        kernel_.strides.push_back(declare(name(), Kind::kStride, kernel_.strides.size()));
      while (accept(","));
    expect(")");
    if (accept("math")) {
      const std::string word = name();
      const auto accuracy = accuracy_from_name(word);
      if (!accuracy) unexpected("default, strict or fast");
      kernel_.accuracy = *accuracy;
    }
    expect("{");
    while (buffer()) {
    }
    kernel_.body = block();
    if (lexer_.peek().kind != Token::kEnd) unexpected("the end of the text");
    return std::move(kernel_);
  }

 private:
  enum class Kind { kDim, kStride, kBuffer, kVar, kReg, kAcc };
  struct Named {
    Kind kind;
    uint32_t id;
  };

  // --- tokens ---
  bool at(std::string_view text) const {
    const Token& token = lexer_.peek();
    return token.kind != Token::kEnd && token.text == text;
  }
  bool accept(std::string_view text) {
    if (!at(text)) return false;
    lexer_.next();
    return true;
  }
  void expect(std::string_view text) {
    if (!accept(text)) unexpected(fmt::format("'{}'", text));
  }
  [[noreturn]] void unexpected(std::string_view wanted) const {
    const Token& token = lexer_.peek();
    lexer_.error(token.at,
                 fmt::format("expected {}, found {}", wanted,
                             token.kind == Token::kEnd ? std::string("the end")
                                                       : fmt::format("'{}'", token.text)));
  }
  std::string name() {
    if (lexer_.peek().kind != Token::kName) unexpected("a name");
    return std::string(lexer_.next().text);
  }
  std::string declare(std::string text, Kind kind, size_t id) {
    names_.insert_or_assign(text, Named{kind, static_cast<uint32_t>(id)});
    return text;
  }
  const Named* find(std::string_view text) const {
    auto found = names_.find(std::string(text));
    return found == names_.end() ? nullptr : &found->second;
  }
  int64_t integer() {
    const bool negative = accept("-");
    const Token token = lexer_.peek();
    uint64_t magnitude = 0;
    const char* end = token.text.data() + token.text.size();
    if (token.kind != Token::kNumber ||
        std::from_chars(token.text.data(), end, magnitude).ptr != end)
      unexpected("an integer");
    lexer_.next();
    return static_cast<int64_t>(negative ? 0 - magnitude : magnitude);
  }
  DType type() {
    const Token token = lexer_.peek();
    const auto found = dtype_from_name(name());
    if (!found) lexer_.error(token.at, fmt::format("unknown type '{}'", token.text));
    return *found;
  }

  // --- declarations ---
  bool buffer() {
    BufferDecl decl;
    const bool scratch = at("scratch");
    if (at("in"))
      decl.access = Access::kIn;
    else if (at("out"))
      decl.access = Access::kOut;
    else if (at("inout") || scratch)
      decl.access = Access::kInOut;
    else
      return false;
    lexer_.next();
    decl.name = declare(name(), Kind::kBuffer, kernel_.buffers.size());
    expect(":");
    decl.type = type();
    expect("[");
    bool strides = !at("]");
    if (scratch) {
      decl.scratch_elements = expression();
      strides = accept(";");
      if (!strides) decl.strides = {1};
    }
    if (strides) {
      do decl.strides.push_back(stride());
      while (accept(","));
    }
    expect("]");
    kernel_.buffers.push_back(std::move(decl));
    return true;
  }
  Stride stride() {
    if (lexer_.peek().kind != Token::kName) return integer();
    const Token token = lexer_.next();
    const Named* named = find(token.text);
    if (!named || named->kind != Kind::kStride)
      lexer_.error(token.at, fmt::format("'{}' is not a stride parameter", token.text));
    return StrideParam{named->id};
  }

  // --- statements ---
  Block block() {
    if (++depth_ > kMaxDepth) lexer_.error(lexer_.peek().at, "nested too deeply");
    Block out;
    while (!accept("}")) {
      if (lexer_.peek().kind == Token::kTemporary) {
        const std::string temporary(lexer_.next().text);
        expect("=");
        temporaries_.insert_or_assign(temporary, expression());
        continue;
      }
      out.push_back(statement());
      end_of_expressions();
    }
    --depth_;
    return out;
  }

  Stmt statement() {
    if (at("for") || at("parallel") || at("vector") || at("unroll")) return {loop()};
    if (accept("let")) {
      const std::string reg = name();
      expect(":");
      const DType reg_type = type();
      expect("=");
      Expr value = expression();
      declare(reg, Kind::kReg, kernel_.regs.size());
      kernel_.regs.push_back({reg, reg_type});
      return {Let{static_cast<uint32_t>(kernel_.regs.size() - 1), std::move(value)}};
    }
    if (accept("acc")) return {accumulator()};
    const Token token = lexer_.peek();
    const Named* named = find(name());
    if (named && named->kind == Kind::kAcc) {
      expect("<-");
      Accumulate out{named->id, expression(), {}};
      if (accept(",")) out.second = expression();
      return {std::move(out)};
    }
    if (named && named->kind == Kind::kBuffer) {
      Store out{named->id, subscripts(), {}, {}};
      expect("=");
      out.value = expression();
      if (accept("if")) out.guard = expression();
      return {std::move(out)};
    }
    lexer_.error(token.at, fmt::format("'{}' starts no statement", token.text));
  }

  static constexpr double kMostInBounds = 1e5;

  /// Operations of an expression without what it shares: whoever walks bounds walks all of them.
  static double written_out(const Expr& e, std::unordered_map<const Node*, double>& sizes) {
    if (!e) return 0;
    if (const auto known = sizes.find(&*e); known != sizes.end()) return known->second;
    double size = 1;
    for (const Expr& arg : e->args) size += written_out(arg, sizes);
    return sizes[&*e] = size;
  }

  For loop() {
    For out;
    const std::string word = name();
    if (word == "parallel") out.kind = LoopKind::kParallel;
    if (word == "vector") out.kind = LoopKind::kVector;
    if (word == "unroll") out.kind = LoopKind::kUnroll;
    if (word == "vector" || word == "unroll") {
      expect("(");
      const int64_t factor = integer();
      if (factor < 1 || factor > std::numeric_limits<int>::max())
        lexer_.error(lexer_.peek().at, "a factor is a positive number");
      out.factor = static_cast<int>(factor);
      expect(")");
    }
    const std::string var = name();
    expect("=");
    const Token bounds = lexer_.peek();
    out.begin = expression();
    expect("..");
    out.end = expression();
    end_of_expressions();
    std::unordered_map<const Node*, double> sizes;
    if (written_out(out.begin, sizes) + written_out(out.end, sizes) > kMostInBounds)
      lexer_.error(bounds.at, "bounds of too many operations");
    out.var = Var{static_cast<uint32_t>(kernel_.vars.size())};
    kernel_.vars.push_back(declare(var, Kind::kVar, kernel_.vars.size()));
    expect("{");
    out.body = block();
    return out;
  }

  DeclareAcc accumulator() {
    AccDecl decl;
    decl.name = name();
    expect(":");
    decl.type = type();
    const Token token = lexer_.peek();
    const auto op = acc_op_from_name(name());
    if (!op) lexer_.error(token.at, fmt::format("'{}' is no reduction", token.text));
    decl.op = *op;
    const Token order_token = lexer_.peek();
    const auto order = acc_order_from_name(name());
    if (!order) lexer_.error(order_token.at, "an order is 'lanes', 'lanes16' or 'seq'");
    decl.order = *order;
    DeclareAcc out{static_cast<uint32_t>(kernel_.accs.size()), {}};
    if (accept("=")) out.init = expression();
    declare(decl.name, Kind::kAcc, kernel_.accs.size());
    kernel_.accs.push_back(std::move(decl));
    return out;
  }

  // --- expressions ---

  /// What follows shares no node with what was read so far.
  void end_of_expressions() {
    temporaries_.clear();
    depths_.clear();
  }

  Expr checked_node(const Token& token, Node node) {
    const bool complete = !node.args.empty() &&
                          static_cast<int>(node.args.size()) == op_info(node.op).arity &&
                          std::all_of(node.args.begin(), node.args.end(),
                                      [](const Expr& arg) { return static_cast<bool>(arg); });
    if (node.type == DType::kUndefined && complete) node.type = result_type(node);
    if (std::string problem = type_problem(node); !problem.empty()) lexer_.error(token.at, problem);
    return counted(token, Expr(std::make_shared<const Node>(std::move(node))));
  }

  /// Notes the depth of a new node; refuses it when it is too deep or one too many.
  Expr counted(const Token& token, Expr e) {
    size_t deepest = 0;
    for_each_child(
        *e, [&](const Expr& child) { deepest = std::max(deepest, depths_.at(child.get())); });
    if (deepest > kMaxExprDepth)
      lexer_.error(token.at, fmt::format("an expression deeper than {}", kMaxExprDepth));
    if (++nodes_ > kMaxParsedNodes)
      lexer_.error(token.at, fmt::format("more than {} operations", kMaxParsedNodes));
    depths_[e.get()] = deepest + 1;
    return e;
  }

  Expr expression() {
    if (++depth_ > kMaxDepth) lexer_.error(lexer_.peek().at, "nested too deeply");
    Expr out = primary();
    --depth_;
    return out;
  }

  Expr primary() {
    const Token token = lexer_.peek();
    if (at("-") || token.kind == Token::kNumber || at("inf") || at("nan"))
      return counted(token, number());
    if (accept("(")) {
      Expr left = expression();
      if (accept(")")) return left;
      const Token op_token = lexer_.next();
      Expr right = expression();
      expect(")");
      if (op_token.text == "if") {
        if (left->op != Op::kLoad || left->guard)
          lexer_.error(token.at, "only a load can be guarded");
        Node node = *left;
        node.guard = right;
        return checked_node(op_token, std::move(node));
      }
      const auto op = op_from_infix(op_token.text);
      if (!op) lexer_.error(op_token.at, fmt::format("'{}' is no operation", op_token.text));
      Node node{.op = *op, .type = DType::kUndefined};
      node.args = {std::move(left), std::move(right)};
      return checked_node(op_token, std::move(node));
    }
    if (token.kind == Token::kTemporary) {
      auto found = temporaries_.find(std::string(lexer_.next().text));
      if (found == temporaries_.end())
        lexer_.error(token.at,
                     fmt::format("'{}' is not defined before this statement", token.text));
      return found->second;
    }
    if (token.kind != Token::kName) unexpected("an expression");
    lexer_.next();
    if (token.text == "true" || token.text == "false")
      return counted(token, boolean(token.text == "true"));
    if (at("(") || at("<")) {
      if (const auto op = op_from_name(token.text); op && (at("(") || *op >= Op::kCast))
        return call(token, *op);
    }
    return reference(token);
  }

  Expr call(const Token& token, Op op) {
    Node node{.op = op, .type = DType::kUndefined};
    if (op == Op::kCast || op == Op::kBitcast) {
      expect("<");
      node.type = type();
      expect(">");
    }
    expect("(");
    if (!at(")")) do
        node.args.push_back(expression());
      while (accept(","));
    expect(")");
    return checked_node(token, std::move(node));
  }

  Expr reference(const Token& token) {
    const Named* named = find(token.text);
    if (!named) lexer_.error(token.at, fmt::format("unknown name '{}'", token.text));
    Node node{.op = Op::kReg, .type = DType::kI64};
    node.id = named->id;
    switch (named->kind) {
      case Kind::kDim:
        node.op = Op::kDim;
        break;
      case Kind::kVar:
        node.op = Op::kLoopVar;
        break;
      case Kind::kReg:
        node.type = kernel_.regs[named->id].type;
        break;
      case Kind::kAcc:
        node.op = Op::kAccValue;
        node.type = kernel_.accs[named->id].type;
        if (accept(".")) {
          expect("index");
          node.op = Op::kAccIndex;
          node.type = DType::kI64;
        }
        break;
      case Kind::kBuffer:
        node.op = Op::kLoad;
        node.type = value_type(kernel_.buffers[named->id].type);
        node.indices = subscripts();
        break;
      case Kind::kStride:
        lexer_.error(token.at, fmt::format("stride '{}' is not a value", token.text));
    }
    return checked_node(token, std::move(node));
  }

  Expr number() {
    const bool negative = accept("-");
    const Token token = lexer_.next();
    const bool symbolic = token.text == "inf" || token.text == "nan";
    if (!symbolic && token.kind != Token::kNumber)
      lexer_.error(token.at, fmt::format("expected a number, found '{}'", token.text));
    const DType wanted = accept(":") ? type() : DType::kI64;
    if (!is_value_type(wanted) || wanted == DType::kBool)
      lexer_.error(token.at, fmt::format("no number has type {}", xc::name(wanted)));
    const char *begin = token.text.data(), *end = begin + token.text.size();
    if (is_float(wanted)) {
      const double sign = negative ? -1.0 : 1.0;
      if (token.text == "inf") return constant(wanted, sign * INFINITY);
      if (token.text == "nan") return constant(wanted, NAN);
      if (wanted == DType::kF32) {  // straight to the nearest f32: no double rounding
        float value = 0;
        if (std::from_chars(begin, end, value).ptr == end)
          return constant(wanted, sign * static_cast<double>(value));
      } else {
        double value = 0;
        if (std::from_chars(begin, end, value).ptr == end) return constant(wanted, sign * value);
      }
      lexer_.error(token.at, "malformed number");
    }
    uint64_t magnitude = 0;
    if (symbolic || std::from_chars(begin, end, magnitude).ptr != end)
      lexer_.error(token.at, fmt::format("'{}' is not an integer", token.text));
    return constant_bits(wanted, negative ? 0 - magnitude : magnitude);
  }

  std::vector<Index> subscripts() {
    expect("[");
    std::vector<Index> out;
    if (accept("]")) return out;
    do {
      if (accept("check")) {
        expect("(");
        Expr value = expression();
        expect(",");
        Expr extent = expression();
        expect(")");
        out.emplace_back(std::move(value), std::move(extent));
      } else {
        out.emplace_back(affine());
      }
    } while (accept(","));
    expect("]");
    return out;
  }

  Affine affine() {
    Affine sum;
    bool negative = accept("-");
    for (;;) {
      int64_t coefficient = 1;
      Affine symbol = 1;
      const bool number = lexer_.peek().kind == Token::kNumber;
      if (number) coefficient = integer();
      if (!number || accept("*")) symbol = index_symbol();
      sum = sum + symbol * (negative ? -coefficient : coefficient);
      if (accept("+"))
        negative = false;
      else if (accept("-"))
        negative = true;
      else
        return sum;
    }
  }
  Affine index_symbol() {
    const Token token = lexer_.peek();
    const Named* named = find(name());
    if (named && named->kind == Kind::kVar) return Var{named->id};
    if (named && named->kind == Kind::kDim) return DimParam{named->id};
    lexer_.error(token.at, fmt::format("'{}' is not a loop variable or dim", token.text));
  }

  Lexer lexer_;
  Kernel kernel_;
  std::unordered_map<std::string, Named> names_;
  std::unordered_map<std::string, Expr> temporaries_;
  std::unordered_map<const Node*, size_t> depths_;  ///< of nodes since the last statement
  size_t nodes_ = 0;
  int depth_ = 0;
};

}  // namespace

Kernel parse(std::string_view text, Level level) {
  Kernel kernel = Parser(text).kernel();
  verify(kernel, level);
  return kernel;
}

}  // namespace xc::loop
