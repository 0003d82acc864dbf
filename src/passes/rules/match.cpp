#include "passes/rules/match.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <variant>

#include "ops/custom.h"
#include "passes/typing.h"

namespace xc {
namespace {

constexpr int kMaxSteps = 4096;

bool about(double a, double b, double relative) {
  if (a == b || !std::isfinite(a) || !std::isfinite(b)) return a == b;
  return std::abs(a - b) <= relative * std::max(std::abs(a), std::abs(b));
}

/// What becomes of a number that is stored as the type.
double rounded_to(DType type, double number) {
  alignas(double) std::byte bytes[sizeof(double)] = {};
  store_double(bytes, type, 0, number);
  return load_double(bytes, type, 0);
}

/// How far a stored decimal may be from the one in a rule: exporters write sqrt(2 / pi) with eight
/// digits, or compute it in the type. Results in f64 show the difference.
double tolerance_of(DType type, bool tolerant) {
  if (type == DType::kF16) return 0x1p-10;
  if (type == DType::kBF16) return 0x1p-7;
  if (type == DType::kF64 && !tolerant) return 0x1p-50;
  return 0x1p-22;
}

/// Is a stored number the one written in a rule? Binary fractions (1, 0.5, 6) are nobody's
/// rounding of another number: log(1.000005 + e^x) is no Softplus for x near -15. Zeros have signs:
/// the larger of -1 and -0 is no Relu's 0.
bool is_written_number(double stored, double written, DType type, bool tolerant) {
  if (std::signbit(stored) != std::signbit(written)) return false;
  if (stored == written) return true;
  if (!is_float(type)) return false;
  const double held = rounded_to(type, written);
  if (!std::isfinite(held)) return false;
  const bool decimal = rounded_to(DType::kF32, written) != written;
  return stored == held || (decimal && about(stored, written, tolerance_of(type, tolerant)));
}

std::optional<int64_t> rank_of(const Graph& graph, ValueId id) {
  if (id == kNone || !graph.value(id).type.dims) return std::nullopt;
  return static_cast<int64_t>(graph.value(id).type.dims->size());
}

/// Pattern variables and nodes while a match is looked for; choices are undone on the way back.
class Matcher {
 public:
  Matcher(const Rule& rule, const Graph& graph, bool tolerant)
      : rule_(rule), graph_(graph), tolerant_(tolerant) {
    match_.bindings.resize(rule.variables.size());
  }

  std::optional<Match> run(NodeId root);

 private:
  /// What is left to match, as a list on the call stack. Depth is bounded by the rule's terms.
  struct Goal {
    uint32_t term;
    ValueId value;
    ValueId first_input;  ///< of the node around: whose rank axes refer to
    const Goal* next;
  };

  bool solve(const Goal* goal) {
    if (!goal) return conditions_hold();
    if (++steps_ > kMaxSteps) return false;
    const Term& term = rule_.terms[goal->term];
    switch (term.kind) {
      case Term::Kind::kAbsent:
        return goal->value == kNone && solve(goal->next);
      case Term::Kind::kAlternative:
        return std::any_of(term.args.begin(), term.args.end(), [&](uint32_t arg) {
          const Goal chosen{arg, goal->value, goal->first_input, goal->next};
          return solve(&chosen);
        });
      case Term::Kind::kVariable:
        return is_allowed(term, *goal) && bind(term.variable, goal);
      case Term::Kind::kNumber:
        return is_number(term, *goal) && solve(goal->next);
      case Term::Kind::kInts:
      case Term::Kind::kAxes:
        return are_ints(term, *goal) && solve(goal->next);
      case Term::Kind::kOp:
        return op(term, *goal);
    }
    return false;
  }

  bool is_allowed(const Term& term, const Goal& goal) const {
    if (goal.value == kNone) return false;
    const Value& value = graph_.value(goal.value);
    if (term.only == Term::Only::kConstant) return value.is_constant();
    return term.only == Term::Only::kAny || scalar_constant(value).has_value();
  }

  bool bind(uint32_t variable, const Goal* goal) {
    Binding& binding = match_.bindings[variable];
    if (binding.bound()) return binding.value == goal->value && solve(goal->next);
    binding.value = goal->value;
    if (solve(goal->next)) return true;
    binding = {};
    return false;
  }

  bool is_number(const Term& term, const Goal& goal) const {
    if (goal.value == kNone) return false;
    const Value& value = graph_.value(goal.value);
    const std::optional<double> number = scalar_constant(value);
    return number && is_written_number(*number, term.number, value.constant.dtype(), tolerant_);
  }

  bool are_ints(const Term& term, const Goal& goal) const {
    if (goal.value == kNone) return false;
    auto given = known_integers(graph_.value(goal.value));
    std::vector<int64_t> wanted = term.ints;
    if (!given || given->size() != wanted.size()) return false;
    if (term.kind == Term::Kind::kAxes) {
      count_from_start(*given, goal.first_input);
      count_from_start(wanted, goal.first_input);
      std::sort(given->begin(), given->end());
      std::sort(wanted.begin(), wanted.end());
    }
    return *given == wanted;
  }

  void count_from_start(std::vector<int64_t>& axes, ValueId of) const {
    const std::optional<int64_t> rank = rank_of(graph_, of);
    if (!rank) return;
    for (int64_t& axis : axes)
      if (axis < 0) axis += *rank;
  }

  bool op(const Term& term, const Goal& goal) {
    if (goal.value == kNone) return false;
    const Value& value = graph_.value(goal.value);
    if (value.producer == kNone || value.output_index != 0) return false;
    const Node& node = graph_.node(value.producer);
    if (node.op != term.op) return false;
    size_t inputs = node.inputs.size();
    while (inputs > term.args.size() && node.inputs[inputs - 1] == kNone) --inputs;
    if (inputs > term.args.size()) return false;
    const std::vector<Binding> before = match_.bindings;
    const size_t nodes = match_.nodes.size();
    const auto undo = [&] {
      match_.bindings = before;
      match_.nodes.resize(nodes);
    };
    if (term.variable != kNone) {
      Binding& binding = match_.bindings[term.variable];
      if (binding.bound() && binding.value != goal.value) return false;
      binding.value = goal.value;
    }
    match_.nodes.push_back(value.producer);
    if (attributes(term, node)) {
      if (arguments(term, node, goal.next, false)) return true;
      if (term.op->commutative && term.args.size() >= 2 && inputs >= 2 &&
          arguments(term, node, goal.next, true))
        return true;
    }
    undo();
    return false;
  }

  bool arguments(const Term& term, const Node& node, const Goal* rest, bool swapped) {
    // One goal per argument, the first one on top.
    std::vector<Goal> goals(term.args.size());
    const Goal* next = rest;
    for (size_t i = term.args.size(); i-- > 0;) {
      const size_t from = swapped && i < 2 ? 1 - i : i;
      const ValueId value = from < node.inputs.size() ? node.inputs[from] : kNone;
      goals[i] = {term.args[i], value, node.inputs[0], next};
      next = &goals[i];
    }
    return solve(next);
  }

  bool attributes(const Term& term, const Node& node) {
    for (const auto& entry : node.attrs.entries()) {
      const bool named =
          std::any_of(term.attrs.begin(), term.attrs.end(),
                      [&](const AttrTerm& attr) { return attr.name == entry.first; });
      if (!named && !term.other_attrs) return false;
    }
    return std::all_of(term.attrs.begin(), term.attrs.end(), [&](const AttrTerm& wanted) {
      const Attr* given = node.attrs.find(wanted.name);
      if (!given)  // the host's operators: defaults are part of the signature
        if (const CustomOp* custom = as_custom(*node.op)) given = custom->default_of(wanted.name);
      if (!given) return wanted.may_be_absent;
      if (wanted.variable != kNone) {
        Binding& binding = match_.bindings[wanted.variable];
        if (binding.bound()) return binding.attr && same(*given, *binding.attr);
        binding.attr = *given;
        return true;
      }
      return equal(wanted, *given, node);
    });
  }

  static bool same(const Attr& a, const Attr& b) {
    std::string keys[2];
    Attrs attrs;
    attrs.set("", a);
    attrs.append_key(keys[0]);
    attrs.set("", b);
    attrs.append_key(keys[1]);
    return keys[0] == keys[1];
  }

  bool equal(const AttrTerm& wanted, const Attr& given, const Node& node) const {
    if (kind_of(wanted.value) != kind_of(given)) return false;
    if (const double* number = std::get_if<double>(&wanted.value))
      return is_written_number(std::get<double>(given), *number, DType::kF32, tolerant_);
    if (const int64_t* number = std::get_if<int64_t>(&wanted.value)) {
      std::vector<int64_t> a{*number}, b{std::get<int64_t>(given)};
      if (wanted.name == "axis") {
        count_from_start(a, node.inputs.empty() ? kNone : node.inputs[0]);
        count_from_start(b, node.inputs.empty() ? kNone : node.inputs[0]);
      }
      return a == b;
    }
    if (const auto* text = std::get_if<std::string>(&wanted.value))
      return *text == std::get<std::string>(given);
    if (const auto* ints = std::get_if<std::vector<int64_t>>(&wanted.value))
      return *ints == std::get<std::vector<int64_t>>(given);
    return false;
  }

  // ---- conditions -------------------------------------------------------------------------------

  /// What an expression comes to; monostate when it is not known.
  using Known = std::variant<std::monostate, double, Dim, DType>;

  Known eval(uint32_t index) const {
    const Expression& e = rule_.expressions[index];
    using Kind = Expression::Kind;
    const auto binary = [&](auto apply) -> Known {
      const std::optional<double> a = number(eval(e.a)), b = number(eval(e.b));
      if (!a || !b) return {};
      return static_cast<double>(apply(*a, *b));
    };
    switch (e.kind) {
      case Kind::kNumber:
        return e.number;
      case Kind::kDType:
        return e.dtype;
      case Kind::kAdd:
        return binary([](double a, double b) { return a + b; });
      case Kind::kSub:
        return binary([](double a, double b) { return a - b; });
      case Kind::kMul:
        return binary([](double a, double b) { return a * b; });
      case Kind::kDiv:
        return binary([](double a, double b) { return a / b; });
      case Kind::kSqrt: {
        const std::optional<double> a = number(eval(e.a));
        return a ? Known(std::sqrt(*a)) : Known{};
      }
      default:
        break;
    }
    const Binding& binding = match_.bindings[e.variable];
    if (e.kind == Kind::kValue) {
      const std::optional<double> value = number_of(graph_, binding);
      return value ? Known(*value) : Known{};
    }
    if (binding.value == kNone) return {};
    const Type& type = graph_.value(binding.value).type;
    if (e.kind == Kind::kTypeOf) return type.dtype;
    if (!type.dims) return {};
    const auto rank = static_cast<int64_t>(type.dims->size());
    if (e.kind == Kind::kRank) return static_cast<double>(rank);
    if (e.kind == Kind::kCount) return element_count(*type.dims);
    const int64_t axis = e.axis < 0 ? e.axis + rank : e.axis;
    if (axis < 0 || axis >= rank) return {};
    return (*type.dims)[static_cast<size_t>(axis)];
  }

  static std::optional<double> number(const Known& known) {
    if (const double* value = std::get_if<double>(&known)) return *value;
    if (const Dim* dim = std::get_if<Dim>(&known))
      if (const auto constant = dim->constant()) return static_cast<double>(*constant);
    return std::nullopt;
  }

  bool holds(const Condition& condition) const {
    using enum Condition::Compare;
    const Known a = eval(condition.left), b = eval(condition.right);
    if (std::holds_alternative<DType>(a) || std::holds_alternative<DType>(b)) {
      if (a.index() != b.index()) return false;
      const bool same = std::get<DType>(a) == std::get<DType>(b);
      return condition.compare == kEqual ? same : condition.compare == kNotEqual && !same;
    }
    const Dim *da = std::get_if<Dim>(&a), *db = std::get_if<Dim>(&b);
    if (da && db && condition.compare == kEqual) return *da == *db;
    const std::optional<double> x = number(a), y = number(b);
    if (!x || !y) return false;  // what is not known does not hold
    switch (condition.compare) {
      case kEqual:
        return *x == *y;
      case kNotEqual:
        return *x != *y;
      case kLess:
        return *x < *y;
      case kLessEqual:
        return *x <= *y;
      case kMore:
        return *x > *y;
      case kMoreEqual:
        return *x >= *y;
      case kAbout:
        return about(*x, *y, 1e-3);
    }
    return false;
  }

  bool conditions_hold() const {
    return std::all_of(rule_.conditions.begin(), rule_.conditions.end(),
                       [&](const Condition& condition) { return holds(condition); });
  }

  const Rule& rule_;
  const Graph& graph_;
  const bool tolerant_;
  Match match_;
  int steps_ = 0;
};

std::optional<Match> Matcher::run(NodeId root) {
  const Node& node = graph_.node(root);
  if (node.outputs.empty() || node.outputs[0] == kNone) return std::nullopt;
  const Goal goal{rule_.pattern, node.outputs[0], kNone, nullptr};
  if (!solve(&goal)) return std::nullopt;
  return std::move(match_);
}

}  // namespace

std::optional<Match> match_rule(const Rule& rule, const Graph& graph, NodeId root, bool tolerant) {
  return Matcher(rule, graph, tolerant).run(root);
}

std::optional<double> number_of(const Graph& graph, const Binding& binding) {
  if (binding.value != kNone) return scalar_constant(graph.value(binding.value));
  if (!binding.attr) return std::nullopt;
  if (const double* real = std::get_if<double>(&*binding.attr)) return *real;
  if (const int64_t* integer = std::get_if<int64_t>(&*binding.attr))
    return static_cast<double>(*integer);
  return std::nullopt;
}

}  // namespace xc
