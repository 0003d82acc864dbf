// The line of text that declares an operator of the host: parser and checks.

#include <algorithm>
#include <map>
#include <set>

#include "ir/cursor.h"
#include "ops/custom.h"

namespace xc {
namespace {

constexpr size_t kMaxRank = 16;
/// Domains whose operators are not the host's to declare.
constexpr std::string_view kReserved[] = {"ai.onnx",          "ai.onnx.ml",
                                          "ai.onnx.preview",  "ai.onnx.preview.training",
                                          "ai.onnx.training", "xc"};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), in_(text) {}

  CustomSignature line() {
    head();
    in_.expect("(");
    if (!in_.eat(")")) {
      do port(out_.inputs, true);
      while (in_.eat(","));
      in_.expect(")");
    }
    if (in_.eat("{") && !in_.eat("}")) {
      do attribute();
      while (in_.eat(","));
      in_.expect("}");
    }
    in_.expect("->");
    do port(out_.outputs, false);
    while (in_.eat(","));
    if (in_.eat("where")) {
      do constraint();
      while (in_.eat(","));
    }
    if (!in_.at_end()) in_.error("unexpected text after the signature");
    check_types();
    check_dims();
    return std::move(out_);
  }

 private:
  void head() {
    if (in_.peek_word() == "pure") {
      in_.word("");
      out_.pure = true;
    }
    in_.skip_space();
    const size_t at = in_.position();
    out_.domain = in_.peek() == '"' ? in_.quoted() : std::string(in_.word("the operator's domain"));
    if (out_.domain.empty()) in_.error("expected the operator's domain");
    if (std::find(std::begin(kReserved), std::end(kReserved), out_.domain) != std::end(kReserved)) {
      in_.rewind(at);
      in_.error("the domain {} is not for operators of the host", out_.domain);
    }
    if (!in_.eat("::")) in_.error("expected '::': an operator is written domain::Name");
    out_.name = out_.domain + "::" + std::string(in_.word("the operator's name"));
  }

  void new_name(const std::string& name, const char* what) {
    if (!names_.insert(name).second) in_.error("{} '{}' is given twice", what, name);
  }

  // ---- inputs and outputs -----------------------------------------------------------------------

  void port(std::vector<CustomPort>& ports, bool input) {
    using enum CustomPort::Count;
    const char* what = input ? "an input's name" : "an output's name";
    if (ports.size() == kMaxCustomPorts)
      in_.error("more than {} {}", kMaxCustomPorts, input ? "inputs" : "outputs");
    CustomPort out;
    out.name = std::string(in_.word(what));
    new_name(out.name, input ? "input" : "output");
    if (!ports.empty() && ports.back().count == kAny)
      in_.error("'{}' stands for any number of inputs and comes last", ports.back().name);
    if (in_.eat("?")) {
      out.count = kOptional;
    } else if (in_.eat("*")) {
      if (!input) in_.error("an output stands for one value");
      out.count = kAny;
    } else if (!ports.empty() && ports.back().count == kOptional) {
      in_.error("'{}' follows an optional {}: mark it with '?' too", out.name,
                input ? "input" : "output");
    }
    in_.expect(":");
    in_.skip_space();
    const size_t start = in_.position();
    element_type(out);
    if (in_.eat("["))
      dims(out);
    else
      out.any_rank = true;
    out.type = std::string(text_.substr(start, in_.position() - start));
    ports.push_back(std::move(out));
  }

  /// "f32", "f32|f64", or a variable: a word that starts with a capital letter.
  void element_type(CustomPort& out) {
    if (const std::string_view first = in_.peek_word();
        !first.empty() && first[0] >= 'A' && first[0] <= 'Z') {
      const std::string name(in_.word(""));
      out.variable =
          variables_.emplace(name, static_cast<uint32_t>(variables_.size())).first->second;
      if (out.variable == allowed_.size()) allowed_.push_back(0);
      out_.variables = static_cast<uint32_t>(allowed_.size());
    } else {
      out.types = types();
    }
  }

  TypeSet types() {
    TypeSet out = 0;
    do {
      const std::string_view name = in_.word("an element type");
      const auto type = dtype_from_name(name);
      if (!type || !contains(kAnyType, *type)) in_.error("no element type '{}'", name);
      out |= type_set({*type});
    } while (in_.eat("|"));
    return out;
  }

  void dims(CustomPort& out) {
    if (in_.eat("]")) return;
    if (in_.eat("*")) {
      out.any_rank = true;
      in_.expect("]");
      return;
    }
    do {
      if (out.dims.size() == kMaxRank) in_.error("more than {} dims", kMaxRank);
      if (in_.eat("...")) {
        if (out.spread || !out.dims.empty()) in_.error("'...' stands in front of the other dims");
        out.spread = true;
      } else if (in_.eat("?")) {
        out.dims.emplace_back();
      } else {
        out.dims.push_back(dim());
      }
    } while (in_.eat(","));
    in_.expect("]");
  }

  Dim dim() {
    in_.skip_space();
    const size_t at = in_.position();
    const std::string_view text = in_.until(",]");
    try {
      const Dim out = Dim::parse(text);
      if (out.is_constant() && out.value() < 0) fail(Status::kFormat, "it is negative");
      std::vector<std::string> symbols;
      out.collect_symbols(symbols);
      for (const std::string& symbol : symbols)
        if (TextCursor(symbol).peek_word() != symbol)
          fail(Status::kFormat, "'{}' is no name", symbol);
      return out;
    } catch (const Error& error) {
      in_.rewind(at);
      in_.error("'{}' is no size: {}", text, error.message());
    }
  }

  // ---- attributes -------------------------------------------------------------------------------

  void attribute() {
    CustomAttr out;
    out.name = std::string(in_.word("an attribute's name"));
    for (const CustomAttr& other : out_.attrs)
      if (other.name == out.name) in_.error("attribute '{}' is given twice", out.name);
    out.optional = in_.eat("?");
    in_.expect(":");
    in_.skip_space();
    const size_t at = in_.position();
    const std::string_view kind = in_.word("an attribute's kind");
    const auto found = std::find_if(std::begin(kKinds), std::end(kKinds),
                                    [&](AttrKind k) { return xc::name(k) == kind; });
    if (found == std::end(kKinds)) {
      in_.rewind(at);
      in_.error("no kind of attribute '{}': int, float, string, ints, floats, strings, tensor",
                kind);
    }
    out.kind = *found;
    if (in_.eat("=")) {
      if (out.optional) in_.error("'{}' has a default: it needs no '?'", out.name);
      out.otherwise = value(out.kind);
    }
    out_.attrs.push_back(std::move(out));
  }

  Attr value(AttrKind kind) {
    switch (kind) {
      case AttrKind::kInt:
        return in_.integer();
      case AttrKind::kFloat:
        return in_.real();
      case AttrKind::kString:
        return in_.quoted();
      case AttrKind::kInts:
        return list<int64_t>([&] { return in_.integer(); });
      case AttrKind::kFloats:
        return list<double>([&] { return in_.real(); });
      case AttrKind::kStrings:
        return list<std::string>([&] { return in_.quoted(); });
      case AttrKind::kTensor:
        break;
    }
    in_.error("a tensor has no default");
  }

  template <class T, class Item>
  std::vector<T> list(const Item& item) {
    std::vector<T> out;
    in_.expect("[");
    if (in_.eat("]")) return out;
    do {
      if (out.size() == 1024) in_.error("a list of more than 1024 values");
      out.push_back(item());
    } while (in_.eat(","));
    in_.expect("]");
    return out;
  }

  // ---- what the parts say of each other ---------------------------------------------------------

  void constraint() {
    const std::string name(in_.word("a type variable"));
    const auto it = variables_.find(name);
    if (it == variables_.end()) in_.error("no input or output is of type '{}'", name);
    if (allowed_[it->second]) in_.error("type '{}' is given twice", name);
    in_.expect(":");
    allowed_[it->second] = types();
  }

  void check_types() {
    for (TypeSet& set : allowed_)
      if (!set) set = kAnyType;
    std::set<uint32_t> known;
    for (CustomPort& p : out_.inputs) {
      if (p.variable == kNone) continue;
      p.types = allowed_[p.variable];
      if (p.count == CustomPort::Count::kOne) known.insert(p.variable);
    }
    for (CustomPort& p : out_.outputs) {
      const bool one =
          p.variable == kNone ? (p.types & (p.types - 1)) == 0 : known.count(p.variable) != 0;
      if (!one) in_.error("the type of output '{}' does not follow from required inputs", p.name);
      if (p.variable != kNone) p.types = allowed_[p.variable];
    }
  }

  /// Sizes of outputs are made of names that required inputs bind, or of int attributes.
  void check_dims() {
    std::set<std::string> known, always;
    bool spread = false, spread_always = false;
    for (const CustomAttr& attr : out_.attrs)
      if (attr.kind == AttrKind::kInt && !attr.optional) always.insert(attr.name);
    known = always;
    for (const CustomPort& p : out_.inputs) {
      const bool required = p.count == CustomPort::Count::kOne;
      spread = spread || p.spread;
      spread_always = spread_always || (p.spread && required);
      for (const auto& d : p.dims) {
        const auto symbol = d ? d->as_symbol() : std::nullopt;
        if (symbol) known.insert(*symbol);
        if (symbol && required) always.insert(*symbol);
      }
    }
    for (const CustomPort& p : out_.inputs) check_bound("input", p, known, spread);
    for (const CustomPort& p : out_.outputs) check_bound("output", p, always, spread_always);
  }

  void check_bound(const char* what, const CustomPort& p, const std::set<std::string>& known,
                   bool spread) {
    if (p.spread && !spread)
      in_.error("'...' in {} '{}' stands for dims of no required input", what, p.name);
    for (const auto& d : p.dims) {
      if (!d) continue;
      std::vector<std::string> symbols;
      d->collect_symbols(symbols);
      for (const std::string& symbol : symbols)
        if (!known.count(symbol))
          in_.error("size '{}' of {} '{}' is the lone dim of no {}input and no int attribute",
                    symbol, what, p.name, what[0] == 'o' ? "required " : "");
    }
  }

  static constexpr AttrKind kKinds[] = {AttrKind::kInt,   AttrKind::kFloat,  AttrKind::kString,
                                        AttrKind::kInts,  AttrKind::kFloats, AttrKind::kStrings,
                                        AttrKind::kTensor};
  std::string_view text_;
  TextCursor in_;
  CustomSignature out_;
  std::set<std::string> names_;
  std::map<std::string, uint32_t> variables_;
  std::vector<TypeSet> allowed_;  // by variable; 0 = not said
};

}  // namespace

CustomSignature parse_signature(std::string_view text) {
  return Parser(text).line();
}

}  // namespace xc
