#include "loop/kernel.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/checked.h"
#include "loop/dot.h"

namespace xc::loop {

namespace {

int64_t quotient(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return checked_mul(a, -1);
  return a / b;
}

}  // namespace

size_t Kernel::param_count() const {
  return static_cast<size_t>(std::count_if(buffers.begin(), buffers.end(),
                                           [](const BufferDecl& b) { return !b.is_scratch(); }));
}

bool is_sum(AccOp op) {
  return op == AccOp::kSum || is_dot(op);
}

bool is_dot(AccOp op) {
  return op == AccOp::kDot || needs_matrix_units(op);
}

bool needs_matrix_units(AccOp op) {
  return op == AccOp::kDotBf16 || op == AccOp::kDotBf16x3;
}

bool is_arg_op(AccOp op) {
  return op >= AccOp::kArgMax;
}

int partial_results(AccOrder order) {
  switch (order) {
    case AccOrder::kLanes:
      return kReductionLanes * kReductionAccumulators;
    case AccOrder::kLanes16:
      return kReductionLanes;
    default:
      return 1;
  }
}

int64_t evaluate_size(const Expr& e, std::span<const int64_t> dims) {
  const auto arg = [&](size_t i) { return evaluate_size(e->args[i], dims); };
  switch (e->op) {
    case Op::kConst:
      return const_as_int(*e);
    case Op::kDim:
      if (e->id >= dims.size())
        fail(Status::kInvalidArgument, "size expression: {} dims given, dim {} used", dims.size(),
             e->id);
      return dims[e->id];
    case Op::kAdd:
      return checked_add(arg(0), arg(1));
    case Op::kSub:
      return checked_add(arg(0), checked_mul(arg(1), -1));
    case Op::kMul:
      return checked_mul(arg(0), arg(1));
    case Op::kDiv:
      return quotient(arg(0), arg(1));
    case Op::kMin:
      return std::min(arg(0), arg(1));
    case Op::kMax:
      return std::max(arg(0), arg(1));
    default:
      fail(Status::kInvalidArgument, "size expression: operation {} is not allowed",
           op_info(e->op).name);
  }
}

int64_t known_divisor(const Expr& e) {
  const auto arg = [&](size_t i) { return known_divisor(e->args[i]); };
  switch (e->op) {
    case Op::kConst: {
      const int64_t value = const_as_int(*e);
      return value == INT64_MIN ? 1 : std::abs(value);
    }
    case Op::kAdd:
    case Op::kSub:
    case Op::kMin:
    case Op::kMax:
      return std::gcd(arg(0), arg(1));
    case Op::kMul: {
      int64_t product = 0;
      return __builtin_mul_overflow(arg(0), arg(1), &product) ? 1 : product;
    }
    default:
      return 1;
  }
}

bool has_dot_bf16x3(const Kernel& kernel) {
  return std::any_of(kernel.accs.begin(), kernel.accs.end(),
                     [](const AccDecl& acc) { return acc.op == AccOp::kDotBf16x3; });
}

int64_t scratch_bytes(const Kernel& kernel, std::span<const int64_t> dims) {
  int64_t total = 0;
  for (const BufferDecl& buffer : kernel.buffers) {
    if (!buffer.is_scratch()) continue;
    const int64_t elements = evaluate_size(buffer.scratch_elements, dims);
    if (elements < 0)
      fail(Status::kInvalidArgument, "scratch row {} has {} elements", buffer.name, elements);
    const int64_t bytes = checked_mul(elements, element_size(buffer.type));
    total = checked_add(total, align_up(bytes, kScratchAlignment));
  }
  return has_dot_bf16x3(kernel) ? checked_add(total, kDotBf16x3Room) : total;
}

std::optional<Range> parallel_range(const Kernel& kernel, std::span<const int64_t> dims) {
  for (const Stmt& stmt : kernel.body)
    if (const For* loop = std::get_if<For>(&stmt.node); loop && loop->kind == LoopKind::kParallel)
      return Range{evaluate_size(loop->begin, dims), evaluate_size(loop->end, dims)};
  return std::nullopt;
}

void visit_statements(const Block& block, const std::function<void(const Stmt&)>& visit) {
  for (const Stmt& stmt : block) {
    visit(stmt);
    if (const For* loop = std::get_if<For>(&stmt.node)) visit_statements(loop->body, visit);
  }
}

namespace {

void visit_once(const Expr& e, std::unordered_set<const Node*>& seen,
                const std::function<void(const Expr&)>& visit) {
  if (!e || (!e.is_only_handle() && !seen.insert(e.get()).second)) return;
  for_each_child(*e, [&](const Expr& child) { visit_once(child, seen, visit); });
  visit(e);
}

class Rewriter {
 public:
  explicit Rewriter(const std::function<Expr(const Expr&)>& rewrite) : rewrite_(rewrite) {}

  Expr expr(const Expr& e) {
    if (!e) return e;
    const bool shared = !e.is_only_handle();
    if (shared)
      if (auto found = done_.find(e.get()); found != done_.end()) return found->second;
    std::optional<Node> changed;  // a copy, once a child has changed
    const auto child = [&](const Expr& before, const auto& place) {
      Expr now = expr(before);
      if (now.get() == before.get()) return;
      if (!changed) changed = *e;
      place(*changed) = std::move(now);
    };
    for (size_t i = 0; i < e->args.size(); ++i)
      child(e->args[i], [&](Node& node) -> Expr& { return node.args[i]; });
    for (size_t i = 0; i < e->indices.size(); ++i) {
      child(e->indices[i].checked, [&](Node& node) -> Expr& { return node.indices[i].checked; });
      child(e->indices[i].extent, [&](Node& node) -> Expr& { return node.indices[i].extent; });
    }
    child(e->guard, [&](Node& node) -> Expr& { return node.guard; });
    Expr out = rewrite_(changed ? Expr(std::make_shared<const Node>(std::move(*changed))) : e);
    if (shared) done_.emplace(e.get(), out);
    return out;
  }

  void in_place(Block& block) {
    const auto rewrite = [&](Expr& e) { e = expr(e); };
    for (Stmt& stmt : block) {
      if (auto* loop = std::get_if<For>(&stmt.node)) {
        rewrite(loop->begin);
        rewrite(loop->end);
        in_place(loop->body);
      } else if (auto* let = std::get_if<Let>(&stmt.node)) {
        rewrite(let->value);
      } else if (auto* store = std::get_if<Store>(&stmt.node)) {
        for (Index& index : store->indices) {
          rewrite(index.checked);
          rewrite(index.extent);
        }
        rewrite(store->value);
        rewrite(store->guard);
      } else if (auto* acc = std::get_if<DeclareAcc>(&stmt.node)) {
        rewrite(acc->init);
      } else if (auto* accumulate = std::get_if<Accumulate>(&stmt.node)) {
        rewrite(accumulate->value);
        rewrite(accumulate->second);
      }
    }
  }

 private:
  const std::function<Expr(const Expr&)>& rewrite_;
  std::unordered_map<const Node*, Expr> done_;  // the originals stay alive while this runs
};

}  // namespace

void visit_nodes(const Expr& e, const std::function<void(const Expr&)>& visit) {
  std::unordered_set<const Node*> seen;
  visit_once(e, seen, visit);
}

void visit_exprs(const Stmt& stmt, const std::function<void(const Expr&)>& visit) {
  const auto see = [&](const Expr& e) {
    if (e) visit(e);
  };
  if (const auto* loop = std::get_if<For>(&stmt.node)) {
    see(loop->begin);
    see(loop->end);
  } else if (const auto* let = std::get_if<Let>(&stmt.node)) {
    see(let->value);
  } else if (const auto* store = std::get_if<Store>(&stmt.node)) {
    for (const Index& index : store->indices) {
      see(index.checked);
      see(index.extent);
    }
    see(store->value);
    see(store->guard);
  } else if (const auto* acc = std::get_if<DeclareAcc>(&stmt.node)) {
    see(acc->init);
  } else if (const auto* accumulate = std::get_if<Accumulate>(&stmt.node)) {
    see(accumulate->value);
    see(accumulate->second);
  }
}

Expr rewrite_expr(const Expr& e, const std::function<Expr(const Expr&)>& rewrite) {
  return Rewriter(rewrite).expr(e);
}

Block rewrite_exprs(const Block& block, const std::function<Expr(const Expr&)>& rewrite) {
  Block out = block;  // beside the originals, which stay alive
  Rewriter(rewrite).in_place(out);
  return out;
}

}  // namespace xc::loop
