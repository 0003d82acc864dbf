#include "loop/kernel.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "base/checked.h"

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
  return op == AccOp::kSum || op == AccOp::kDot || op == AccOp::kDotBf16;
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
  return total;
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
  if (!e || !seen.insert(e.get()).second) return;
  for_each_child(*e, [&](const Expr& child) { visit_once(child, seen, visit); });
  visit(e);
}

class Rewriter {
 public:
  explicit Rewriter(const std::function<Expr(const Expr&)>& rewrite) : rewrite_(rewrite) {}

  Expr expr(const Expr& e) {
    if (!e) return e;
    if (auto found = done_.find(e.get()); found != done_.end()) return found->second;
    Node node = *e;
    bool changed = false;
    const auto child = [&](Expr& c) {
      Expr now = expr(c);
      changed |= now.get() != c.get();
      c = std::move(now);
    };
    for (Expr& arg : node.args) child(arg);
    for (Index& index : node.indices) {
      child(index.checked);
      child(index.extent);
    }
    child(node.guard);
    Expr out = rewrite_(changed ? Expr(std::make_shared<const Node>(std::move(node))) : e);
    done_.emplace(e.get(), out);
    return out;
  }

  Block block(const Block& in) {
    Block out = in;
    for (Stmt& stmt : out) {
      if (auto* loop = std::get_if<For>(&stmt.node)) {
        loop->begin = expr(loop->begin);
        loop->end = expr(loop->end);
        loop->body = block(loop->body);
      } else if (auto* let = std::get_if<Let>(&stmt.node)) {
        let->value = expr(let->value);
      } else if (auto* store = std::get_if<Store>(&stmt.node)) {
        for (Index& index : store->indices) {
          index.checked = expr(index.checked);
          index.extent = expr(index.extent);
        }
        store->value = expr(store->value);
        store->guard = expr(store->guard);
      } else if (auto* acc = std::get_if<DeclareAcc>(&stmt.node)) {
        acc->init = expr(acc->init);
      } else if (auto* accumulate = std::get_if<Accumulate>(&stmt.node)) {
        accumulate->value = expr(accumulate->value);
        accumulate->second = expr(accumulate->second);
      }
    }
    return out;
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
  return Rewriter(rewrite).block(block);
}

}  // namespace xc::loop
