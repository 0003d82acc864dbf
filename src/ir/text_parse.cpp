#include "ir/cursor.h"
#include "ir/op_ref.h"
#include "ir/text.h"
#include "ir/text_tensor.h"
#include "ir/verify.h"

namespace xc {
namespace {

constexpr int kMaxDepth = 16;  // of subgraphs, as verify()

class Parser {
 public:
  Parser(std::string_view text, const OpLibrary* library) : in_(text), library_(library) {}

  Graph file() {
    Graph out = graph(0);
    if (!in_.at_end()) in_.error("unexpected text after the graph");
    return out;
  }

 private:
  Graph graph(int depth) {
    if (depth > kMaxDepth) in_.error("subgraphs are nested more than {} deep", kMaxDepth);
    Graph g;
    in_.expect("graph");
    if (in_.peek() != '(') g.name = in_.name("the graph's name");
    in_.expect("(");
    list(")", [&] {
      const std::string name = value_name();
      define(g, name, [&] { g.add_input(name, optional_type()); });
    });
    in_.expect("->");
    in_.expect("(");
    std::vector<std::pair<std::string, size_t>> outputs;  // defined further down
    list(")", [&] {
      const size_t at = in_.position();
      outputs.emplace_back(value_name(), at);
    });
    in_.expect("{");
    while (!in_.eat("}")) {
      if (in_.at_end()) in_.error("expected '}}'");
      statement(g, depth);
    }
    for (const auto& [name, at] : outputs) g.outputs.push_back(find(g, name, at));
    return g;
  }

  template <class Item>
  void list(std::string_view close, const Item& item) {
    if (in_.eat(close)) return;
    do item();
    while (in_.eat(","));
    in_.expect(close);
  }

  std::string value_name() {
    in_.expect("%");
    return in_.name("a value's name");
  }

  Type optional_type() { return in_.eat(":") ? parse_type(in_) : Type{}; }

  /// Runs `add`; a name defined twice is told here.
  template <class Add>
  void define(const Graph& g, const std::string& name, const Add& add) {
    if (name.empty()) in_.error("a value needs a name");
    if (g.find_value(name)) in_.error("value %{} is defined twice", spell_name(name));
    add();
  }

  ValueId find(const Graph& g, const std::string& name, size_t at) {
    const std::optional<ValueId> id = g.find_value(name);
    if (!id) {
      in_.rewind(at);
      in_.error("value %{} is not defined before", spell_name(name));
    }
    return *id;
  }

  void statement(Graph& g, int depth) {
    if (in_.eat("const")) return constant(g);
    Node node;
    // Outputs exist only once the whole statement is read: it may not use them itself.
    struct Output {
      std::string name;
      Type type;
    };
    std::vector<std::optional<Output>> outputs;
    if (in_.peek() == '%' || in_.peek() == '_') {
      do {
        if (in_.eat("_")) {
          outputs.emplace_back();
          continue;
        }
        std::string name = value_name();
        Type type = optional_type();
        outputs.push_back(Output{std::move(name), std::move(type)});
      } while (in_.eat(","));
      in_.expect("=");
    }
    node.op = op();
    in_.expect("(");
    list(")", [&] {
      if (in_.eat("_")) {
        node.inputs.push_back(kNone);
        return;
      }
      const size_t at = in_.position();
      node.inputs.push_back(find(g, value_name(), at));
    });
    if (in_.eat("{")) list("}", [&] { attribute(node.attrs); });
    if (in_.peek() == '"') node.name = in_.quoted();
    if (in_.eat("by")) node.made_by = in_.quoted();
    if (in_.eat("captures")) subgraphs(node, depth);
    for (std::optional<Output>& output : outputs) {
      if (!output) {
        node.outputs.push_back(kNone);
        continue;
      }
      define(g, output->name,
             [&] { node.outputs.push_back(g.add_value(output->name, std::move(output->type))); });
    }
    g.add_node(std::move(node));
  }

  void constant(Graph& g) {
    const std::string name = value_name();
    in_.expect(":");
    const Type type = parse_type(in_);
    in_.expect("=");
    define(g, name, [&] { g.add_constant(name, tensor(type)); });
  }

  Tensor tensor(const Type& type) {
    std::optional<Dims> dims;
    if (type.kind == Type::Kind::kTensor && type.dims) dims = to_concrete(*type.dims);
    if (!dims) in_.error("a constant needs constant dims");
    return parse_elements(in_, type.dtype, *dims, budget_);
  }

  const OpDef* op() {
    in_.skip_space();
    const size_t at = in_.position();
    const auto [name, domain] = in_.operator_name();
    const OpDef* found = find_op(name, domain, library_);
    if (!found) fail_unknown_op(name, domain, in_.place(at));
    return found;
  }

  void subgraphs(Node& node, int depth) {
    const int64_t captures = in_.integer();
    if (captures < 0 || captures > static_cast<int64_t>(node.inputs.size()))
      in_.error("{} captured values of {} inputs", captures, node.inputs.size());
    node.capture_count = static_cast<uint32_t>(captures);
    in_.expect("(");
    list(")", [&] { node.subgraphs.push_back(std::make_shared<Graph>(graph(depth + 1))); });
  }

  void attribute(Attrs& attrs) {
    std::string name = in_.name("an attribute's name");
    if (attrs.has(name)) in_.error("attribute '{}' is given twice", name);
    in_.expect("=");
    attrs.set(std::move(name), attribute_value());
  }

  Attr attribute_value() {
    if (in_.peek() == '"') return in_.quoted();
    if (in_.peek() == '[') return attribute_list();
    if (in_.at_number()) return number();
    if (in_.eat("ints")) return empty_list<int64_t>();
    if (in_.eat("floats")) return empty_list<double>();
    if (in_.eat("strings")) return empty_list<std::string>();
    return tensor(parse_type(in_));
  }

  template <class T>
  Attr empty_list() {
    in_.expect("[");
    in_.expect("]");
    return std::vector<T>{};
  }

  Attr number() {
    in_.skip_space();
    const size_t start = in_.position();
    const bool integral = in_.number().integral;
    in_.rewind(start);
    if (integral) return in_.integer();
    return in_.real();
  }

  Attr attribute_list() {
    in_.expect("[");
    Attr first;
    if (in_.peek() == '"')
      first = in_.quoted();
    else
      first = number();
    const auto rest = [&]<class T>(T value, const auto& read) -> Attr {
      std::vector<T> out{std::move(value)};
      while (in_.eat(",")) out.push_back(read());
      in_.expect("]");
      return out;
    };
    if (auto* text = std::get_if<std::string>(&first))
      return rest(std::move(*text), [&] { return in_.quoted(); });
    if (auto* real = std::get_if<double>(&first)) return rest(*real, [&] { return in_.real(); });
    return rest(std::get<int64_t>(first), [&] { return in_.integer(); });
  }

  TextCursor in_;
  const OpLibrary* library_;
  int64_t budget_ = kMaxParsedBytes;
};

}  // namespace

Graph parse_graph(std::string_view text, const OpLibrary* library) {
  Graph out = Parser(text, library).file();
  verify(out);
  return out;
}

}  // namespace xc
