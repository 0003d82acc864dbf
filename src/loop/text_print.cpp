#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "loop/text.h"
#include "loop/words.h"

namespace xc::loop {

namespace {

constexpr int kMaxNesting = 10;  // deeper subexpressions get a line of their own

std::string index_text(const Affine& affine, const Kernel& kernel) {
  std::string out;
  const auto append = [&](int64_t coefficient, std::string_view symbol) {
    const bool negative = coefficient < 0;
    if (out.empty())
      out += negative ? "-" : "";
    else
      out += negative ? " - " : " + ";
    const uint64_t magnitude =
        negative ? 0 - static_cast<uint64_t>(coefficient) : static_cast<uint64_t>(coefficient);
    if (symbol.empty())
      out += fmt::format("{}", magnitude);
    else if (magnitude == 1)
      out += symbol;
    else
      out += fmt::format("{}*{}", magnitude, symbol);
  };
  for (const Affine::Term& term : affine.terms()) {
    const auto& names = term.is_dim ? kernel.dims : kernel.vars;
    append(term.coefficient, term.id < names.size() ? names[term.id] : "?");
  }
  if (affine.constant() != 0 || out.empty()) append(affine.constant(), "");
  return out;
}

std::string constant_text(const Node& node) {
  switch (node.type) {
    case DType::kBool:
      return node.bits != 0 ? "true" : "false";
    case DType::kI64:
      return fmt::format("{}", const_as_int(node));
    case DType::kU64:
      return fmt::format("{}:u64", node.bits);
    case DType::kF32: {
      const auto value = static_cast<float>(const_as_double(node));
      return value != value ? "nan:f32" : fmt::format("{}:f32", value);
    }
    case DType::kF64: {
      const double value = const_as_double(node);
      return value != value ? "nan:f64" : fmt::format("{}:f64", value);
    }
    default:
      return fmt::format("{}:{}", const_as_int(node), name(node.type));
  }
}

class Printer {
 public:
  explicit Printer(const Kernel& kernel) : kernel_(kernel) {}

  std::string kernel() {
    out_ = fmt::format("kernel {}({}", kernel_.name, fmt::join(kernel_.dims, ", "));
    if (!kernel_.strides.empty()) out_ += fmt::format("; {}", fmt::join(kernel_.strides, ", "));
    out_ += ")";
    if (kernel_.accuracy != Accuracy::kDefault)
      out_ += fmt::format(" math {}", accuracy_name(kernel_.accuracy));
    out_ += " {\n";
    for (const BufferDecl& buffer : kernel_.buffers) declaration(buffer);
    block(kernel_.body, 1);
    out_ += "}\n";
    return std::move(out_);
  }

  std::string expression(const Expr& e) {
    temporaries_.clear();
    return value(e);
  }

 private:
  template <class Table>
  static std::string named(const Table& table, uint32_t id) {
    if (id >= table.size()) return fmt::format("?{}", id);
    if constexpr (std::is_convertible_v<decltype(table[id]), std::string>)
      return table[id];
    else
      return table[id].name;
  }

  void declaration(const BufferDecl& buffer) {
    static constexpr const char* kAccess[] = {"in", "out", "inout"};
    out_ += fmt::format("  {} {}: {}[",
                        buffer.is_scratch() ? "scratch" : kAccess[static_cast<int>(buffer.access)],
                        buffer.name, name(buffer.type));
    if (buffer.is_scratch()) out_ += value(buffer.scratch_elements);
    if (!buffer.is_scratch() || buffer.strides != std::vector<Stride>{1}) {
      if (buffer.is_scratch()) out_ += "; ";
      for (size_t i = 0; i < buffer.strides.size(); ++i) {
        const Stride& stride = buffer.strides[i];
        out_ += i == 0 ? "" : ", ";
        out_ += stride.is_param ? named(kernel_.strides, stride.param)
                                : fmt::format("{}", stride.value);
      }
    }
    out_ += "]\n";
  }

  std::string subscripts(const std::vector<Index>& indices) {
    std::string out = "[";
    for (size_t i = 0; i < indices.size(); ++i) {
      out += i == 0 ? "" : ", ";
      out += indices[i].is_affine() ? index_text(indices[i].affine, kernel_)
                                    : fmt::format("check({}, {})", value(indices[i].checked),
                                                  value(indices[i].extent));
    }
    return out + "]";
  }

  std::string value(const Expr& e) {
    if (auto found = temporaries_.find(e.get()); found != temporaries_.end())
      return fmt::format("%{}", found->second);
    return formula(e);
  }

  std::string formula(const Expr& e) {
    const Node& node = *e;
    const OpInfo& op = op_info(node.op);
    switch (node.op) {
      case Op::kConst:
        return constant_text(node);
      case Op::kReg:
        return named(kernel_.regs, node.id);
      case Op::kAccValue:
        return named(kernel_.accs, node.id);
      case Op::kAccIndex:
        return named(kernel_.accs, node.id) + ".index";
      case Op::kLoopVar:
        return named(kernel_.vars, node.id);
      case Op::kDim:
        return named(kernel_.dims, node.id);
      case Op::kLoad: {
        std::string load = named(kernel_.buffers, node.id) + subscripts(node.indices);
        return node.guard ? fmt::format("({} if {})", load, value(node.guard)) : load;
      }
      default:
        break;
    }
    if (op.infix)
      return fmt::format("({} {} {})", value(node.args[0]), op.infix, value(node.args[1]));
    std::string out = op.name;
    if (node.op == Op::kCast || node.op == Op::kBitcast)
      out += fmt::format("<{}>", name(node.type));
    out += "(";
    for (size_t i = 0; i < node.args.size(); ++i) out += (i == 0 ? "" : ", ") + value(node.args[i]);
    return out + ")";
  }

  // Gives shared and deeply nested subexpressions of the statement a %name and a line.
  void hoist_shared(const Stmt& stmt, const std::string& indent) {
    temporaries_.clear();
    std::unordered_map<const Node*, int> uses, depth;
    std::vector<Expr> order;
    const auto note = [&](const Expr& e) {
      if (!e) return 0;
      ++uses[e.get()];
      return depth[e.get()];
    };
    visit_exprs(stmt, [&](const Expr& root) {
      visit_nodes(root, [&](const Expr& e) {
        if (depth.contains(e.get())) return;
        int deepest = 0;
        for (const Expr& arg : e->args) deepest = std::max(deepest, note(arg));
        for (const Index& index : e->indices)
          deepest = std::max({deepest, note(index.checked), note(index.extent)});
        deepest = std::max(deepest, note(e->guard));
        depth[e.get()] = (deepest + 1) % kMaxNesting;
        order.push_back(e);
      });
      ++uses[root.get()];
    });
    for (const Expr& e : order) {
      const bool leaf = op_info(e->op).arity == 0 && e->op != Op::kLoad;
      if (leaf || (uses[e.get()] < 2 && depth[e.get()] != 0)) continue;
      const std::string text = formula(e);
      const size_t number = temporaries_.size();
      temporaries_.emplace(e.get(), number);
      out_ += fmt::format("{}%{} = {}\n", indent, number, text);
    }
  }

  void block(const Block& block, int depth) {
    const std::string indent(static_cast<size_t>(depth) * 2, ' ');
    for (const Stmt& stmt : block) {
      hoist_shared(stmt, indent);
      out_ += indent;
      if (const auto* loop = std::get_if<For>(&stmt.node)) {
        for_loop(*loop);
        this->block(loop->body, depth + 1);
        out_ += indent + "}\n";
      } else {
        simple(stmt);
      }
    }
  }

  void for_loop(const For& loop) {
    switch (loop.kind) {
      case LoopKind::kSerial:
        out_ += "for";
        break;
      case LoopKind::kParallel:
        out_ += "parallel";
        break;
      case LoopKind::kVector:
        out_ += fmt::format("vector({})", loop.factor);
        break;
      case LoopKind::kUnroll:
        out_ += fmt::format("unroll({})", loop.factor);
        break;
    }
    out_ += fmt::format(" {} = {} .. {} {{\n", named(kernel_.vars, loop.var.id), value(loop.begin),
                        value(loop.end));
  }

  void simple(const Stmt& stmt) {
    if (const auto* let = std::get_if<Let>(&stmt.node)) {
      out_ += fmt::format("let {}: {} = {}", named(kernel_.regs, let->reg), name(let->value.type()),
                          value(let->value));
    } else if (const auto* store = std::get_if<Store>(&stmt.node)) {
      out_ += named(kernel_.buffers, store->buffer) + subscripts(store->indices) + " = " +
              value(store->value);
      if (store->guard) out_ += " if " + value(store->guard);
    } else if (const auto* declare = std::get_if<DeclareAcc>(&stmt.node)) {
      const AccDecl& acc = kernel_.accs.at(declare->acc);
      out_ += fmt::format("acc {}: {} {} {}", acc.name, name(acc.type), acc_op_name(acc.op),
                          acc_order_name(acc.order));
      if (declare->init) out_ += " = " + value(declare->init);
    } else if (const auto* accumulate = std::get_if<Accumulate>(&stmt.node)) {
      out_ += named(kernel_.accs, accumulate->acc) + " <- " + value(accumulate->value);
      if (accumulate->second) out_ += ", " + value(accumulate->second);
    }
    out_ += "\n";
  }

  const Kernel& kernel_;
  std::string out_;
  std::unordered_map<const Node*, size_t> temporaries_;
};

}  // namespace

std::string print(const Kernel& kernel) {
  return Printer(kernel).kernel();
}

std::string print(const Kernel& kernel, const Expr& e) {
  return Printer(kernel).expression(e);
}

}  // namespace xc::loop
