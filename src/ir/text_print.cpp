#include "base/error.h"
#include "ir/op_ref.h"
#include "ir/text.h"
#include "ir/text_tensor.h"

namespace xc {
namespace {

class Printer {
 public:
  explicit Printer(const PrintOptions& options) : options_(options) {}

  void graph(const Graph& g, int indent) {
    out_ += "graph";
    if (!g.name.empty()) out_ += ' ' + spell_name(g.name);
    out_ += '(';
    for (size_t i = 0; i < g.inputs.size(); ++i) {
      if (i) out_ += ", ";
      const Value& value = g.value(g.inputs[i]);
      out_ += '%' + spell_name(value.name);
      if (!(value.type == Type{})) out_ += ": " + print_type(value.type);
    }
    out_ += ") -> (";
    for (size_t i = 0; i < g.outputs.size(); ++i) {
      if (i) out_ += ", ";
      use(g, g.outputs[i]);
    }
    out_ += ") {\n";
    for (ValueId id = 0; id < g.value_count(); ++id) {
      const Value& value = g.value(id);
      if (!value.is_constant()) continue;
      pad(indent + 1);
      out_ += "const %" + spell_name(value.name) + ": " + print_type(value.type) + " = " +
              print_elements(value.constant, options_.max_elements) + '\n';
    }
    for (NodeId id : g.order()) node(g, g.node(id), indent + 1);
    pad(indent);
    out_ += '}';
  }

  std::string take() { return std::move(out_); }

 private:
  void pad(int indent) { out_.append(static_cast<size_t>(indent) * 2, ' '); }

  void use(const Graph& g, ValueId id) {
    out_ += id == kNone ? std::string("_") : '%' + spell_name(g.value(id).name);
  }

  void node(const Graph& g, const Node& n, int indent) {
    pad(indent);
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      if (i) out_ += ", ";
      use(g, n.outputs[i]);
      if (n.outputs[i] == kNone || !options_.types) continue;
      const Type& type = g.value(n.outputs[i]).type;
      if (!(type == Type{})) out_ += ": " + print_type(type);
    }
    if (!n.outputs.empty()) out_ += " = ";
    if (const std::string_view domain = op_domain(*n.op); !domain.empty())
      out_ += spell_name(domain) + "::";
    out_ += std::string(op_name(*n.op)) + '(';
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (i) out_ += ", ";
      use(g, n.inputs[i]);
    }
    out_ += ')';
    if (!n.attrs.entries().empty()) attrs(n.attrs);
    if (options_.origins && (!n.name.empty() || !n.made_by.empty())) {
      out_ += ' ' + spell_quoted(n.name);
      if (!n.made_by.empty()) out_ += " by " + spell_quoted(n.made_by);
    }
    if (!n.subgraphs.empty()) {
      out_ += fmt::format(" captures {} (\n", n.capture_count);
      for (size_t i = 0; i < n.subgraphs.size(); ++i) {
        pad(indent + 1);
        graph(*n.subgraphs[i], indent + 1);
        out_ += i + 1 < n.subgraphs.size() ? ",\n" : "\n";
      }
      pad(indent);
      out_ += ')';
    }
    out_ += '\n';
  }

  template <class T, class One>
  void list(const char* kind, const std::vector<T>& values, const One& one) {
    if (values.empty()) out_ += std::string(kind) + ' ';
    out_ += '[';
    for (size_t i = 0; i < values.size(); ++i) out_ += (i ? ", " : "") + one(values[i]);
    out_ += ']';
  }

  void attrs(const Attrs& attrs) {
    out_ += " {";
    bool first = true;
    for (const auto& [attr_name, attr] : attrs.entries()) {
      if (!first) out_ += ", ";
      first = false;
      out_ += spell_name(attr_name) + " = ";
      const auto integer = [](int64_t v) { return fmt::format("{}", v); };
      switch (kind_of(attr)) {
        case AttrKind::kInt:
          out_ += integer(std::get<int64_t>(attr));
          break;
        case AttrKind::kFloat:
          out_ += print_real(std::get<double>(attr));
          break;
        case AttrKind::kString:
          out_ += spell_quoted(std::get<std::string>(attr));
          break;
        case AttrKind::kInts:
          list("ints", std::get<std::vector<int64_t>>(attr), integer);
          break;
        case AttrKind::kFloats:
          list("floats", std::get<std::vector<double>>(attr), print_real);
          break;
        case AttrKind::kStrings:
          list("strings", std::get<std::vector<std::string>>(attr), spell_quoted);
          break;
        case AttrKind::kTensor: {
          const Tensor& t = std::get<Tensor>(attr);
          if (!t) fail(Status::kInternal, "attribute '{}' holds no tensor", attr_name);
          out_ += print_type(Type::tensor(t.dtype(), to_symbolic(t.dims()))) + ' ' +
                  print_elements(t, options_.max_elements);
          break;
        }
      }
    }
    out_ += '}';
  }

  const PrintOptions& options_;
  std::string out_;
};

}  // namespace

std::string print(const Graph& graph, const PrintOptions& options) {
  Printer printer(options);
  printer.graph(graph, 0);
  return printer.take() + '\n';
}

}  // namespace xc
