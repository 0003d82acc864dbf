#include "passes/rules/rule_parser.h"

#include <algorithm>
#include <cmath>

#include "ir/cursor.h"
#include "ops/custom.h"

namespace xc {
namespace {

constexpr size_t kMaxRules = 4096;
constexpr size_t kMaxTerms = 512;  // of one rule, conditions included
constexpr int kMaxDepth = 32;

class Parser {
 public:
  Parser(std::string_view text, const OpLibrary* library) : in_(text), library_(library) {}

  ParsedRules file() {
    while (!in_.at_end()) {
      if (out_.rules.size() + named_.size() == kMaxRules)
        in_.error("more than {} rules", kMaxRules);
      if (in_.eat("pattern"))
        named_pattern();
      else
        one();
    }
    return std::move(out_);
  }

 private:
  /// `pattern NAME(?a, ?b): PATTERN`, written into patterns further down as NAME(?x, ?y).
  struct Named {
    std::string name;
    uint32_t parameters = 0;  ///< the first so many of the variables
    Rule body;
    std::string unknown_op;
  };

  void named_pattern() {
    rule_ = {};
    unknown_op_.clear();
    in_pattern_ = true;
    Named out;
    out.name = std::string(in_.word("the pattern's name"));
    if (find_named(out.name)) in_.error("pattern {} is given twice", out.name);
    in_.expect("(");
    if (!in_.eat(")")) {
      do {
        if (variable(true) != out.parameters) in_.error("a parameter is given twice");
        ++out.parameters;
      } while (in_.eat(","));
      in_.expect(")");
    }
    in_.expect(":");
    rule_.pattern = term(0);
    out.body = std::move(rule_);
    out.unknown_op = unknown_op_;
    named_.push_back(std::move(out));
  }

  const Named* find_named(std::string_view name) const {
    for (const Named& named : named_)
      if (named.name == name) return &named;
    return nullptr;
  }

  /// The use of a named pattern: a copy of its tree, parameters by position, other variables by
  /// name.
  uint32_t insert_named(const Named& named) {
    std::vector<uint32_t> variables;
    in_.expect("(");
    for (uint32_t i = 0; i < named.parameters; ++i) {
      if (i) in_.expect(",");
      variables.push_back(variable(true));
    }
    in_.expect(")");
    for (size_t i = named.parameters; i < named.body.variables.size(); ++i)
      variables.push_back(variable_named(named.body.variables[i], true));
    if (unknown_op_.empty()) unknown_op_ = named.unknown_op;
    return copy_term(named.body, named.body.pattern, variables);
  }

  uint32_t copy_term(const Rule& from, uint32_t index, const std::vector<uint32_t>& variables) {
    Term out = from.terms[index];
    if (out.variable != kNone) out.variable = variables[out.variable];
    for (AttrTerm& attr : out.attrs)
      if (attr.variable != kNone) attr.variable = variables[attr.variable];
    for (uint32_t& arg : out.args) arg = copy_term(from, arg, variables);
    return add(std::move(out));
  }

  void one() {
    rule_ = {};
    unknown_op_.clear();
    in_.expect("rule");
    rule_.name = std::string(in_.word("the rule's name"));
    for (const Rule& other : out_.rules)
      if (other.name == rule_.name) in_.error("rule {} is given twice", rule_.name);
    in_.expect(":");
    in_pattern_ = true;
    rule_.pattern = term(0);
    check_root(rule_.pattern);
    in_.expect("=>");
    in_pattern_ = false;
    rule_.replacement = term(0);
    if (rule_.terms[rule_.replacement].kind != Term::Kind::kOp &&
        rule_.terms[rule_.replacement].kind != Term::Kind::kVariable)
      in_.error("a replacement is an operator or a variable");
    if (in_.eat("where")) {
      do conditions();
      while (in_.eat(","));
    }
    if (unknown_op_.empty())
      out_.rules.push_back(std::move(rule_));
    else
      out_.notes.push_back(fmt::format("rule {}: no operator {}", rule_.name, unknown_op_));
  }

  void check_root(uint32_t index) {
    const Term& root = rule_.terms[index];
    if (root.kind == Term::Kind::kAlternative) {
      for (uint32_t arg : root.args) check_root(arg);
    } else if (root.kind != Term::Kind::kOp) {
      in_.error("a pattern is an operator or alternatives of them");
    }
  }

  uint32_t add(Term term) {
    if (rule_.terms.size() + rule_.expressions.size() >= kMaxTerms)
      in_.error("a rule of more than {} terms", kMaxTerms);
    rule_.terms.push_back(std::move(term));
    return static_cast<uint32_t>(rule_.terms.size() - 1);
  }

  void check_depth(int depth) {
    if (depth > kMaxDepth) in_.error("nested more than {} deep", kMaxDepth);
  }

  // ---- terms ------------------------------------------------------------------------------------

  uint32_t term(int depth) {
    check_depth(depth);
    if (in_.eat("_")) return add(Term{});
    if (in_.peek() == '?') return variable_term(depth);
    if (in_.peek() == '(') return alternative(depth);
    if (in_.eat("axes")) return integers(Term::Kind::kAxes);
    if (in_.peek() == '[') return integers(Term::Kind::kInts);
    if (in_.at_number()) return add({.kind = Term::Kind::kNumber, .number = in_.real()});
    if (in_pattern_)
      if (const Named* named = find_named(in_.peek_word())) {
        in_.word("");
        return insert_named(*named);
      }
    return operation(depth);
  }

  uint32_t variable(bool define) {
    in_.expect("?");
    return variable_named(std::string(in_.word("a variable's name")), define);
  }

  uint32_t variable_named(const std::string& name, bool define) {
    const auto it = std::find(rule_.variables.begin(), rule_.variables.end(), name);
    if (it != rule_.variables.end()) return static_cast<uint32_t>(it - rule_.variables.begin());
    if (!define) in_.error("?{} does not occur in the pattern", name);
    rule_.variables.push_back(name);
    return static_cast<uint32_t>(rule_.variables.size() - 1);
  }

  uint32_t variable_term(int depth) {
    Term out{.kind = Term::Kind::kVariable};
    out.variable = variable(in_pattern_);
    if (in_.eat("@")) {
      if (!in_pattern_) in_.error("only patterns name their operators");
      const uint32_t named = term(depth);
      if (rule_.terms[named].kind != Term::Kind::kOp) in_.error("only operators have names");
      rule_.terms[named].variable = out.variable;
      return named;
    }
    if (in_pattern_ && in_.eat(":")) {
      if (in_.eat("const"))
        out.only = Term::Only::kConstant;
      else if (in_.eat("scalar"))
        out.only = Term::Only::kScalar;
      else
        in_.error("expected 'const' or 'scalar'");
    }
    return add(std::move(out));
  }

  uint32_t alternative(int depth) {
    if (!in_pattern_) in_.error("alternatives occur in patterns only");
    in_.expect("(");
    Term out{.kind = Term::Kind::kAlternative};
    do out.args.push_back(term(depth + 1));
    while (in_.eat("|"));
    in_.expect(")");
    return add(std::move(out));
  }

  uint32_t integers(Term::Kind kind) {
    Term out{.kind = kind};
    out.ints = int_list();
    return add(std::move(out));
  }

  std::vector<int64_t> int_list() {
    in_.expect("[");
    std::vector<int64_t> out;
    if (in_.eat("]")) return out;
    do {
      if (out.size() == kMaxTerms) in_.error("a list of more than {} numbers", kMaxTerms);
      out.push_back(in_.integer());
    } while (in_.eat(","));
    in_.expect("]");
    return out;
  }

  uint32_t operation(int depth) {
    check_depth(depth);
    in_.skip_space();
    const size_t start = in_.position();
    const auto [name, domain] = in_.operator_name();
    Term out{.kind = Term::Kind::kOp};
    out.op = find_op(name, domain, library_);
    if (!out.op && unknown_op_.empty()) unknown_op_ = domain.empty() ? name : domain + "::" + name;
    in_.expect("(");
    if (!in_.eat(")")) {
      do out.args.push_back(term(depth + 1));
      while (in_.eat(","));
      in_.expect(")");
    }
    if (in_.eat("{")) attributes(out);
    if (out.op) check_schema(out, start);
    return add(std::move(out));
  }

  void check_schema(const Term& term, size_t start) {
    const OpDef& op = *term.op;
    const auto complain = [&](const std::string& what) {
      in_.rewind(start);
      in_.error("{} {}", op.name, what);
    };
    const auto count = static_cast<int>(term.args.size());
    if (op.control_flow) complain("has bodies: not for rules");
    if (op.random && in_pattern_ && !as_custom(op)) complain("is random: not for patterns");
    if (count < op.min_inputs || (op.max_inputs >= 0 && count > op.max_inputs))
      complain(fmt::format("does not take {} inputs", count));
    for (const AttrTerm& attr : term.attrs) {
      const auto spec = std::find_if(op.attrs.begin(), op.attrs.end(),
                                     [&](const AttrSpec& s) { return s.name == attr.name; });
      if (spec == op.attrs.end()) complain(fmt::format("has no attribute '{}'", attr.name));
      if (attr.variable == kNone && kind_of(attr.value) != spec->kind)
        complain(fmt::format("attribute '{}' is of kind {}, not {}", attr.name,
                             xc::name(spec->kind), xc::name(kind_of(attr.value))));
    }
    for (const AttrSpec& spec : op.attrs) {
      const bool named = std::any_of(term.attrs.begin(), term.attrs.end(),
                                     [&](const AttrTerm& a) { return a.name == spec.name; });
      if (spec.required && !named && !term.other_attrs)
        complain(fmt::format("needs attribute '{}'", spec.name));
    }
  }

  void attributes(Term& out) {
    if (in_.eat("}")) return;
    do {
      if (in_pattern_ && in_.eat("...")) {
        out.other_attrs = true;
        break;
      }
      AttrTerm attr;
      attr.name = in_.name("an attribute's name");
      attr.may_be_absent = in_pattern_ && in_.eat("?=");
      if (!attr.may_be_absent) in_.expect("=");
      if (in_.peek() == '?') {
        if (attr.may_be_absent) in_.error("a variable stands for an attribute that is there");
        attr.variable = variable(in_pattern_);
      } else {
        attr.value = attribute_value();
      }
      out.attrs.push_back(std::move(attr));
    } while (in_.eat(","));
    in_.expect("}");
  }

  Attr attribute_value() {
    if (in_.peek() == '"') return in_.quoted();
    if (in_.peek() == '[') return int_list();
    in_.skip_space();
    const size_t start = in_.position();
    const bool integral = in_.number().integral;
    in_.rewind(start);
    if (integral) return in_.integer();
    return in_.real();
  }

  // ---- conditions -------------------------------------------------------------------------------

  void conditions() {
    using enum Condition::Compare;
    Condition out;
    out.left = sum(0);
    if (in_.eat("=="))
      out.compare = kEqual;
    else if (in_.eat("!="))
      out.compare = kNotEqual;
    else if (in_.eat("<="))
      out.compare = kLessEqual;
    else if (in_.eat(">="))
      out.compare = kMoreEqual;
    else if (in_.eat("<"))
      out.compare = kLess;
    else if (in_.eat(">"))
      out.compare = kMore;
    else if (in_.eat("~="))
      out.compare = kAbout;
    else
      in_.error("expected a comparison");
    out.right = sum(0);
    rule_.conditions.push_back(out);
  }

  uint32_t add(Expression e) {
    if (rule_.terms.size() + rule_.expressions.size() >= kMaxTerms)
      in_.error("a rule of more than {} terms", kMaxTerms);
    rule_.expressions.push_back(e);
    return static_cast<uint32_t>(rule_.expressions.size() - 1);
  }

  uint32_t sum(int depth) {
    uint32_t out = product(depth);
    for (;;) {
      if (in_.eat("+"))
        out = add({.kind = Expression::Kind::kAdd, .a = out, .b = product(depth)});
      else if (in_.eat("-"))
        out = add({.kind = Expression::Kind::kSub, .a = out, .b = product(depth)});
      else
        return out;
    }
  }

  uint32_t product(int depth) {
    uint32_t out = factor(depth + 1);
    for (;;) {
      if (in_.eat("*"))
        out = add({.kind = Expression::Kind::kMul, .a = out, .b = factor(depth + 1)});
      else if (in_.eat("/"))
        out = add({.kind = Expression::Kind::kDiv, .a = out, .b = factor(depth + 1)});
      else
        return out;
    }
  }

  uint32_t factor(int depth) {
    check_depth(depth);
    if (in_.eat("(")) {
      const uint32_t out = sum(depth);
      in_.expect(")");
      return out;
    }
    if (in_.at_number()) return add(Expression{.number = in_.real()});
    in_.skip_space();
    const size_t start = in_.position();
    const std::string_view word = in_.word("a condition");
    if (const auto dtype = dtype_from_name(word))
      return add(Expression{.kind = Expression::Kind::kDType, .dtype = *dtype});
    Expression out;
    in_.expect("(");
    if (word == "sqrt") {
      out.kind = Expression::Kind::kSqrt;
      out.a = sum(depth);
    } else {
      if (word == "rank")
        out.kind = Expression::Kind::kRank;
      else if (word == "dim")
        out.kind = Expression::Kind::kDim;
      else if (word == "count")
        out.kind = Expression::Kind::kCount;
      else if (word == "value")
        out.kind = Expression::Kind::kValue;
      else if (word == "dtype")
        out.kind = Expression::Kind::kTypeOf;
      else {
        in_.rewind(start);
        in_.error("expected rank, dim, count, value, dtype, sqrt, a number or an element type");
      }
      out.variable = variable(false);
      if (out.kind == Expression::Kind::kDim) {
        in_.expect(",");
        out.axis = in_.integer();
      }
    }
    in_.expect(")");
    return add(out);
  }

  TextCursor in_;
  const OpLibrary* library_;
  ParsedRules out_;
  Rule rule_;
  std::vector<Named> named_;
  std::string unknown_op_;
  bool in_pattern_ = true;
};

}  // namespace

ParsedRules parse_rules(std::string_view text, const OpLibrary* library) {
  return Parser(text, library).file();
}

}  // namespace xc
