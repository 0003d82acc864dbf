#include "loop/schedule.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "loop/dependence.h"
#include "loop/schedule_parts.h"
#include "loop/verify.h"

namespace xc::loop {

namespace {

using parts::Place;

bool find_in(Block& block, uint32_t var, size_t depth, Place& out) {
  for (size_t i = 0; i < block.size(); ++i) {
    For* loop = std::get_if<For>(&block[i].node);
    if (!loop) continue;
    if (loop->var.id == var) {
      out = {&block, i, depth};
      return true;
    }
    if (find_in(loop->body, var, depth + 1, out)) return true;
  }
  return false;
}

}  // namespace

namespace parts {

Place find(Kernel& kernel, std::string_view var) {
  const auto named = std::find(kernel.vars.begin(), kernel.vars.end(), var);
  Place place;
  if (named == kernel.vars.end() ||
      !find_in(kernel.body, static_cast<uint32_t>(named - kernel.vars.begin()), 0, place))
    fail(Status::kInvalidArgument, "schedule: kernel {} has no loop {}", kernel.name, var);
  return place;
}

[[noreturn]] void illegal(const char* step, std::string_view var, std::string_view why) {
  fail(Status::kInvalidArgument, "schedule: cannot {} loop {}: {}", step, var, why);
}

FreshNames::FreshNames(const Kernel& kernel) {
  taken_.insert(kernel.dims.begin(), kernel.dims.end());
  taken_.insert(kernel.strides.begin(), kernel.strides.end());
  taken_.insert(kernel.vars.begin(), kernel.vars.end());
  for (const BufferDecl& buffer : kernel.buffers) taken_.insert(buffer.name);
  for (const RegDecl& reg : kernel.regs) taken_.insert(reg.name);
  for (const AccDecl& acc : kernel.accs) taken_.insert(acc.name);
}

std::string FreshNames::operator()(const std::string& base) {
  if (taken_.insert(base).second) return base;
  int& next = next_.try_emplace(base, 1).first->second;
  for (;; ++next)
    if (std::string name = base + std::to_string(next); taken_.insert(name).second) return name;
}

std::string fresh_name(const Kernel& kernel, const std::string& base) {
  return FreshNames(kernel)(base);
}

}  // namespace parts

namespace {

// Accumulators declared in the block or below.
std::unordered_set<uint32_t> declared_in(const Block& block) {
  std::unordered_set<uint32_t> out;
  visit_statements(block, [&](const Stmt& stmt) {
    if (const auto* declare = std::get_if<DeclareAcc>(&stmt.node)) out.insert(declare->acc);
  });
  return out;
}

std::unordered_set<uint32_t> accumulated_in(const Block& block) {
  std::unordered_set<uint32_t> out;
  visit_statements(block, [&](const Stmt& stmt) {
    if (const auto* accumulate = std::get_if<Accumulate>(&stmt.node)) out.insert(accumulate->acc);
  });
  return out;
}

std::unordered_set<uint32_t> accs_read_in(const Block& block) {
  std::unordered_set<uint32_t> out;
  visit_statements(block, [&](const Stmt& stmt) {
    visit_exprs(stmt, [&](const Expr& root) {
      visit_nodes(root, [&](const Expr& e) {
        if (e->op == Op::kAccValue || e->op == Op::kAccIndex) out.insert(e->id);
      });
    });
  });
  return out;
}

bool intersects(const std::unordered_set<uint32_t>& a, const std::unordered_set<uint32_t>& b) {
  return std::any_of(a.begin(), a.end(), [&](uint32_t id) { return b.contains(id); });
}

bool accumulates_lanes_directly(const Kernel& kernel, const For& loop) {
  return std::any_of(loop.body.begin(), loop.body.end(), [&](const Stmt& stmt) {
    const auto* accumulate = std::get_if<Accumulate>(&stmt.node);
    return accumulate && kernel.accs[accumulate->acc].order != AccOrder::kSequential;
  });
}

// A scratch row that an iteration reads before it wrote carries data between iterations.
std::string scratch_carried(const Kernel& kernel, const For& loop) {
  std::unordered_set<uint32_t> written;
  std::string problem;
  visit_statements(loop.body, [&](const Stmt& stmt) {
    visit_exprs(stmt, [&](const Expr& root) {
      visit_nodes(root, [&](const Expr& e) {
        if (e->op == Op::kLoad && kernel.buffers[e->id].is_scratch() && !written.contains(e->id))
          problem = "scratch " + kernel.buffers[e->id].name + " is read before it is written";
      });
    });
    if (const auto* store = std::get_if<Store>(&stmt.node)) written.insert(store->buffer);
  });
  return problem;
}

}  // namespace

namespace parts {

void replace_var(Block& block, Var from, const Affine& to) {
  const auto rename = [&](std::vector<Index>& indices) {
    for (Index& index : indices) index.affine = index.affine.substitute(from, to);
  };
  block = rewrite_exprs(block, [&](const Expr& e) {
    if (e->op == Op::kLoopVar && e->id == from.id) return affine_value(to);
    if (e->op != Op::kLoad) return e;
    Node node = *e;
    rename(node.indices);
    return Expr(std::make_shared<const Node>(std::move(node)));
  });
  const std::function<void(Block&)> stores = [&](Block& b) {
    for (Stmt& stmt : b) {
      if (auto* store = std::get_if<Store>(&stmt.node)) rename(store->indices);
      if (auto* loop = std::get_if<For>(&stmt.node)) stores(loop->body);
    }
  };
  stores(block);
}

Kernel verified(Kernel kernel) {
  verify(kernel);
  return kernel;
}

}  // namespace parts

using namespace parts;

namespace {

std::string why_not_parallel(const Kernel& kernel, const For& loop) {
  if (std::string why = iteration_dependence(kernel, loop, false); !why.empty()) return why;
  return scratch_carried(kernel, loop);
}

}  // namespace

Kernel split(Kernel kernel, std::string_view var, int64_t factor) {
  if (factor < 1) illegal("split", var, "the factor is not positive");
  Place place = find(kernel, var);
  For inner = place.loop();
  if (accumulates_lanes_directly(kernel, inner))
    illegal("split", var, "it accumulates in lanes order, which would change");
  if (inner.kind != LoopKind::kSerial) illegal("split", var, "it is scheduled already");
  const Var outer{static_cast<uint32_t>(kernel.vars.size())};
  kernel.vars.push_back(fresh_name(kernel, std::string(var) + "_o"));
  const bool from_zero = is_const(inner.begin) && inner.begin->bits == 0;
  const Expr count = from_zero ? inner.end : inner.end - inner.begin;
  const Expr start = loop_var(outer) * i64(factor);
  For loop{outer, i64(0), (count + i64(factor - 1)) / i64(factor), LoopKind::kSerial, 1, {}};
  const Expr end = inner.end;
  inner.begin = from_zero ? start : inner.begin + start;
  inner.end = min(inner.begin + i64(factor), end);
  loop.body.push_back({std::move(inner)});
  (*place.block)[place.at] = {std::move(loop)};
  return verified(std::move(kernel));
}

Kernel vectorize(Kernel kernel, std::string_view var, int lanes) {
  For& loop = find(kernel, var).loop();
  if (loop.kind != LoopKind::kSerial) illegal("vectorize", var, "it is scheduled already");
  if (accumulates_lanes_directly(kernel, loop) && lanes != kReductionLanes)
    illegal("vectorize", var, "a reduction in lanes order has 16 lanes");
  loop.kind = LoopKind::kVector;
  loop.factor = lanes;
  return verified(std::move(kernel));
}

Kernel unroll(Kernel kernel, std::string_view var, int copies) {
  For& loop = find(kernel, var).loop();
  if (loop.kind != LoopKind::kSerial) illegal("unroll", var, "it is scheduled already");
  loop.kind = LoopKind::kUnroll;
  loop.factor = copies;
  return verified(std::move(kernel));
}

Kernel parallelize(Kernel kernel, std::string_view var) {
  const Place place = find(kernel, var);
  For& loop = place.loop();
  if (place.depth != 0) illegal("parallelize", var, "it is not the outermost loop");
  if (loop.kind != LoopKind::kSerial) illegal("parallelize", var, "it is scheduled already");
  if (std::string why = why_not_parallel(kernel, loop); !why.empty())
    illegal("parallelize", var, why);
  loop.kind = LoopKind::kParallel;
  return verified(std::move(kernel));
}

Kernel fuse(Kernel kernel, std::string_view first, std::string_view second) {
  const Place a = find(kernel, first), b = find(kernel, second);
  if (a.block != b.block || b.at != a.at + 1)
    illegal("fuse", second, "it does not follow the first");
  For& one = a.loop();
  For& two = b.loop();
  if (!same_expr(one.begin, two.begin) || !same_expr(one.end, two.end))
    illegal("fuse", second, "the ranges differ");
  if (one.kind != two.kind || one.factor != two.factor) illegal("fuse", second, "the kinds differ");
  const auto accumulated = accumulated_in(one.body);
  if (intersects(accumulated, accs_read_in(two.body)))
    illegal("fuse", second, "it reads what the first accumulates");
  if (intersects(accumulated, accumulated_in(two.body)))
    illegal("fuse", second, "both update one accumulator");
  replace_var(two.body, two.var, one.var);
  one.body.insert(one.body.end(), two.body.begin(), two.body.end());
  if (std::string why = memory_dependence(kernel, one); !why.empty()) illegal("fuse", second, why);
  a.block->erase(a.block->begin() + static_cast<std::ptrdiff_t>(b.at));
  return verified(std::move(kernel));
}

namespace {

// Copies of a block with registers and accumulators of their own, and `var` replaced by `by`.
class Copier {
 public:
  Copier(Kernel& kernel, FreshNames& names, Var var, Affine by, bool own_loops)
      : kernel_(kernel), names_(names), var_(var), by_(std::move(by)), own_loops_(own_loops) {}

  Block copy(const Block& in) {
    Block out;
    for (const Stmt& stmt : in) {
      if (const auto* loop = std::get_if<For>(&stmt.node)) {
        For inner = *loop;
        inner.begin = expr(inner.begin);
        inner.end = expr(inner.end);
        if (own_loops_) {
          inner.var = Var{static_cast<uint32_t>(kernel_.vars.size())};
          kernel_.vars.push_back(names_(kernel_.vars[loop->var.id] + "_"));
          vars_[loop->var.id] = inner.var;
        }
        inner.body = copy(loop->body);
        out.push_back({std::move(inner)});
      } else if (const auto* let = std::get_if<Let>(&stmt.node)) {
        Expr value = expr(let->value);
        out.push_back({Let{declare_copy(kernel_.regs, regs_, let->reg), std::move(value)}});
      } else if (const auto* declare = std::get_if<DeclareAcc>(&stmt.node)) {
        Expr init = expr(declare->init);
        out.push_back(
            {DeclareAcc{declare_copy(kernel_.accs, accs_, declare->acc), std::move(init)}});
      } else if (const auto* store = std::get_if<Store>(&stmt.node)) {
        out.push_back({Store{store->buffer, indices(store->indices), expr(store->value),
                             expr(store->guard)}});
      } else if (const auto* feed = std::get_if<Accumulate>(&stmt.node)) {
        const auto acc = accs_.find(feed->acc);
        out.push_back({Accumulate{acc == accs_.end() ? feed->acc : acc->second, expr(feed->value),
                                  expr(feed->second)}});
      }
    }
    return out;
  }

 private:
  /// A declaration of the same kind under a name of its own; its number.
  template <class Decl>
  uint32_t declare_copy(std::vector<Decl>& table, std::unordered_map<uint32_t, uint32_t>& renamed,
                        uint32_t from) {
    const auto id = static_cast<uint32_t>(table.size());
    Decl decl = table[from];
    decl.name = names_(decl.name + "_");
    table.push_back(std::move(decl));
    return renamed[from] = id;
  }

  void substitute(Affine& affine) const {
    affine = affine.substitute(var_, by_);
    for (const auto& [from, to] : vars_) affine = affine.substitute(Var{from}, to);
  }

  std::vector<Index> indices(std::vector<Index> list) {
    for (Index& index : list) {
      substitute(index.affine);
      if (index.checked) index.checked = expr(index.checked);
      if (index.extent) index.extent = expr(index.extent);
    }
    return list;
  }

  Expr expr(const Expr& root) {
    if (!root) return root;
    return rewrite_expr(root, [&](const Expr& e) -> Expr {
      const auto renamed = [&](const std::unordered_map<uint32_t, uint32_t>& names) {
        const auto it = names.find(e->id);
        if (it == names.end()) return e;
        Node node = *e;
        node.id = it->second;
        return Expr(std::make_shared<const Node>(std::move(node)));
      };
      switch (e->op) {
        case Op::kLoopVar:
          if (e->id == var_.id) return affine_value(by_);
          if (const auto it = vars_.find(e->id); it != vars_.end()) return loop_var(it->second);
          return e;
        case Op::kReg:
          return renamed(regs_);
        case Op::kAccValue:
        case Op::kAccIndex:
          return renamed(accs_);
        case Op::kLoad: {
          Node node = *e;
          for (Index& index : node.indices)
            substitute(index.affine);  // checked parts are rewritten as children
          return Expr(std::make_shared<const Node>(std::move(node)));
        }
        default:
          return e;
      }
    });
  }

  Kernel& kernel_;
  FreshNames& names_;
  Var var_;
  Affine by_;
  bool own_loops_;
  std::unordered_map<uint32_t, uint32_t> regs_, accs_;
  std::unordered_map<uint32_t, Var> vars_;
};

// Blocks of one shape as one: statement by statement, loops merged.
Block side_by_side(std::vector<Block> copies) {
  Block out;
  for (size_t i = 0; i < copies[0].size(); ++i) {
    auto* loop = std::get_if<For>(&copies[0][i].node);
    if (!loop) {
      for (Block& copy : copies) out.push_back(std::move(copy[i]));
      continue;
    }
    std::vector<Block> bodies;
    for (Block& copy : copies) bodies.push_back(std::move(std::get<For>(copy[i].node).body));
    loop->body = side_by_side(std::move(bodies));
    out.push_back(std::move(copies[0][i]));
  }
  return out;
}

}  // namespace

namespace {

constexpr int kMaxCopies = 64;  // side by side: as many as a loop may be unrolled by

// A constant multiple, or something times one.
bool multiple_of(const Expr& e, int64_t unit) {
  if (is_const(e)) return const_as_int(*e) % unit == 0;
  return e->op == Op::kMul && (multiple_of(e->args[0], unit) || multiple_of(e->args[1], unit));
}

}  // namespace

Kernel jam(Kernel kernel, std::string_view var, int copies) {
  if (copies < 1) illegal("jam", var, "the number of copies is not positive");
  if (copies > kMaxCopies) illegal("jam", var, fmt::format("more than {} copies", kMaxCopies));
  const Place place = find(kernel, var);
  const For loop = place.loop();
  if (loop.kind != LoopKind::kSerial) illegal("jam", var, "it is scheduled already");
  if (!is_const(loop.begin) || const_as_int(*loop.begin) != 0)
    illegal("jam", var, "it does not start at 0");
  if (std::string why = iteration_dependence(kernel, loop, true); !why.empty())
    illegal("jam", var, why);
  const auto declared = declared_in(loop.body);
  for (const uint32_t acc : accumulated_in(loop.body))
    if (!declared.contains(acc)) illegal("jam", var, "the order of a reduction would change");
  visit_statements(loop.body, [&](const Stmt& stmt) {
    const For* inner = std::get_if<For>(&stmt.node);
    if (!inner) return;
    for (const Expr& root : {inner->begin, inner->end})
      visit_nodes(root, [&](const Expr& e) {
        if (e->op == Op::kLoopVar && e->id == loop.var.id)
          illegal("jam", var, "the bounds of a loop inside depend on it");
      });
  });
  const Var group{static_cast<uint32_t>(kernel.vars.size())};
  FreshNames names(kernel);
  kernel.vars.push_back(names(std::string(var) + "_g"));
  std::vector<Block> bodies;
  for (int copy = 0; copy < copies; ++copy)
    bodies.push_back(Copier(kernel, names, loop.var, Affine(group) * copies + Affine(copy), false)
                         .copy(loop.body));
  const Expr groups = loop.end / i64(copies);
  For main{group, i64(0), groups, LoopKind::kSerial, 1, side_by_side(std::move(bodies))};
  Block& block = *place.block;
  const auto at = block.begin() + static_cast<std::ptrdiff_t>(place.at);
  const bool exact = multiple_of(loop.end, copies);
  if (!exact) {
    For rest = loop;
    rest.begin = groups * i64(copies);
    rest.body = Copier(kernel, names, loop.var, Affine(loop.var), true).copy(loop.body);
    block.insert(at + 1, {std::move(rest)});
  }
  block[place.at] = {std::move(main)};
  return verified(std::move(kernel));
}

Kernel reorder(Kernel kernel, std::string_view outer) {
  For& out = find(kernel, outer).loop();
  For* in = out.body.size() == 1 ? std::get_if<For>(&out.body[0].node) : nullptr;
  if (!in) illegal("reorder", outer, "its body is not one loop");
  for (const Expr& root : {in->begin, in->end})
    visit_nodes(root, [&](const Expr& e) {
      if (e->op == Op::kLoopVar && e->id == out.var.id)
        illegal("reorder", outer, "the inner bounds depend on it");
    });
  const auto declared = declared_in(in->body);
  for (const uint32_t acc : accumulated_in(in->body))
    if (!declared.contains(acc)) illegal("reorder", outer, "the order of a reduction would change");
  if (std::string why = iteration_dependence(kernel, out, true); !why.empty())
    illegal("reorder", outer, why);
  std::swap(out.var, in->var);
  std::swap(out.begin, in->begin);
  std::swap(out.end, in->end);
  std::swap(out.kind, in->kind);
  std::swap(out.factor, in->factor);
  return verified(std::move(kernel));
}

// --- the default schedule ---

namespace {

bool can_vectorize(const Kernel& kernel, const For& loop) {
  if (!iteration_dependence(kernel, loop, true).empty()) return false;
  bool possible = true;
  const auto declared = declared_in(loop.body);
  for (const uint32_t acc : declared) possible &= kernel.accs[acc].order == AccOrder::kSequential;
  visit_statements(loop.body, [&](const Stmt& stmt) {
    const For* inner = std::get_if<For>(&stmt.node);
    if (!inner) return;
    possible &= inner->kind == LoopKind::kSerial || inner->kind == LoopKind::kUnroll;
    for (const Expr& root : {inner->begin, inner->end})
      visit_nodes(root, [&](const Expr& e) {
        possible &= !(e->op == Op::kLoopVar && e->id == loop.var.id);
      });
    possible &= !accumulates_lanes_directly(kernel, *inner);
  });
  return possible;
}

bool has_loop(const Block& block) {
  return std::any_of(block.begin(), block.end(),
                     [](const Stmt& stmt) { return std::holds_alternative<For>(stmt.node); });
}

size_t operations(const Block& body) {
  size_t out = 0;
  visit_statements(body, [&](const Stmt& stmt) {
    visit_exprs(stmt, [&](const Expr& root) {
      visit_nodes(root, [&](const Expr& e) { out += op_info(e->op).arity > 0 ? 1 : 0; });
    });
  });
  return out;
}
constexpr size_t kLightBody = 6;

// Vectorizes the innermost loops of the block that can be; true when one was.
bool vectorize_innermost(const Kernel& kernel, Block& block, int lanes) {
  bool any = false;
  for (Stmt& stmt : block) {
    For* loop = std::get_if<For>(&stmt.node);
    if (!loop) continue;
    if (loop->kind == LoopKind::kVector) {  // loops inside it stay serial
      any = true;
      continue;
    }
    bool inside = vectorize_innermost(kernel, loop->body, lanes);
    if (!inside && loop->kind == LoopKind::kSerial && can_vectorize(kernel, *loop)) {
      loop->kind = LoopKind::kVector;
      // Loops inside (a column reduction) are chains: more lanes give them company, while registers
      // last.
      const bool chains = has_loop(loop->body) && operations(loop->body) <= kLightBody &&
                          !accumulates_lanes_directly(kernel, *loop);
      loop->factor = accumulates_lanes_directly(kernel, *loop) ? kReductionLanes
                     : chains                                  ? std::min(4 * lanes, 64)
                                                               : lanes;
      inside = true;
    }
    any |= inside;
  }
  return any;
}

// The only loop of the body when everything else there is a register.
For* task_loop(Kernel& kernel) {
  For* found = nullptr;
  for (Stmt& stmt : kernel.body) {
    if (For* loop = std::get_if<For>(&stmt.node)) {
      if (found) return nullptr;
      found = loop;
    } else if (!std::holds_alternative<Let>(stmt.node)) {
      return nullptr;
    }
  }
  return found;
}

}  // namespace

namespace {

// Iterations per task of a loop that is cut because it becomes the vector loop itself: `grain` for
// a flat loop; 256 columns where loops lie inside.
int64_t task_grain(const For& loop, const TargetWidth& width) {
  return has_loop(loop.body) ? 256 : width.grain;
}

}  // namespace

Kernel schedule_default(Kernel kernel, TargetWidth width) {
  if (For* loop = task_loop(kernel);
      loop && loop->kind == LoopKind::kSerial && why_not_parallel(kernel, *loop).empty()) {
    std::string var = kernel.vars[loop->var.id];
    // Where nothing inside can be vectorized the task loop itself is, in blocks.
    Block inside = loop->body;
    if (!vectorize_innermost(kernel, inside, width.lanes)) {
      const int64_t grain = task_grain(*loop, width);
      kernel = split(std::move(kernel), var, grain);
      var = kernel.vars.back();
    }
    kernel = parallelize(std::move(kernel), var);
  }
  vectorize_innermost(kernel, kernel.body, width.lanes);
  verify(kernel, Level::kScheduled);
  return kernel;
}

}  // namespace xc::loop
