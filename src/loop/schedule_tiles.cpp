#include "loop/schedule_tiles.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_set>

#include "base/error.h"
#include "loop/schedule.h"
#include "loop/schedule_parts.h"

namespace xc::loop {

using namespace parts;

namespace {

bool uses(const Expr& root, const std::unordered_set<uint32_t>& vars) {
  bool found = false;
  if (root)
    visit_nodes(root, [&](const Expr& e) {
      found = found || (e->op == Op::kLoopVar && vars.contains(e->id));
    });
  return found;
}

// Splits a loop so that the inner one starts at 0.
Kernel block_loop(Kernel kernel, std::string_view var, int64_t factor) {
  kernel = split(std::move(kernel), var, factor);
  const Place inner = find(kernel, var);
  For& loop = inner.loop();
  // split() begins it at the block's first iteration: `begin + outer * factor`.
  const Var outer{static_cast<uint32_t>(kernel.vars.size() - 1)};
  const Expr first = loop.begin;
  const Affine start = Affine(outer) * factor;
  if (!same_expr(first, affine_value(start))) illegal("tile", var, "it does not start at 0");
  replace_var(loop.body, loop.var, start + Affine(loop.var));
  // min(start + factor, end) - start
  const Expr end = loop.end->args[1];
  loop.begin = i64(0);
  loop.end = min(i64(factor), end - first);
  return verified(std::move(kernel));
}

}  // namespace

Kernel tile(Kernel kernel, std::string_view outer, std::string_view inner, int64_t outer_factor,
            int64_t inner_factor) {
  {
    const For& loop = find(kernel, outer).loop();
    const For* body = loop.body.size() == 1 ? std::get_if<For>(&loop.body[0].node) : nullptr;
    if (!body || kernel.vars[body->var.id] != inner)
      illegal("tile", outer, fmt::format("its body is not the loop {} alone", inner));
    if (uses(body->begin, {loop.var.id}) || uses(body->end, {loop.var.id}))
      illegal("tile", outer, "the inner bounds depend on it");
  }
  kernel = block_loop(std::move(kernel), outer, outer_factor);
  kernel = block_loop(std::move(kernel), inner, inner_factor);
  return reorder(std::move(kernel), outer);
}

Kernel stage(Kernel kernel, std::string_view buffer, std::string_view at) {
  const auto named = std::find_if(kernel.buffers.begin(), kernel.buffers.end(),
                                  [&](const BufferDecl& b) { return b.name == buffer; });
  if (named == kernel.buffers.end())
    fail(Status::kInvalidArgument, "schedule: kernel {} has no buffer {}", kernel.name, buffer);
  const auto id = static_cast<uint32_t>(named - kernel.buffers.begin());
  if (named->access != Access::kIn || named->is_scratch())
    illegal("stage", at, fmt::format("{} is no input", buffer));
  const Place place = find(kernel, at);
  // The loops inside, and how the buffer is read there.
  std::map<uint32_t, const For*> inside;
  std::optional<std::vector<Index>> map;
  Block whole{(*place.block)[place.at]};
  const Var loop = place.loop().var;
  visit_statements(whole, [&](const Stmt& stmt) {
    if (const auto* l = std::get_if<For>(&stmt.node)) inside[l->var.id] = l;
    visit_exprs(stmt, [&](const Expr& root) {
      visit_nodes(root, [&](const Expr& e) {
        if (e->op != Op::kLoad || e->id != id) return;
        if (e->guard) illegal("stage", at, "it reads under a condition");
        for (const Index& index : e->indices)
          if (!index.is_affine()) illegal("stage", at, "it gathers");
        if (map && !same_affine(*map, e->indices))
          illegal("stage", at, "it reads the buffer in several ways");
        map = e->indices;
      });
    });
  });
  if (!map) illegal("stage", at, fmt::format("it does not read {}", buffer));
  std::unordered_set<uint32_t> own;
  for (const auto& [var, l] : inside) own.insert(var);

  BufferDecl scratch;
  scratch.name = fresh_name(kernel, std::string(buffer) + "_s");
  scratch.type = value_type(named->type);
  scratch.access = Access::kInOut;
  std::vector<Index> copied = *map, staged, stored;
  std::vector<For> loops;
  std::vector<Expr> extents;
  std::unordered_set<uint32_t> stepped;
  for (Index& index : copied) {
    uint32_t moving = UINT32_MAX;
    for (const Affine::Term& term : index.affine.terms()) {
      if (term.is_dim || !own.contains(term.id)) continue;
      if (term.id == loop.id) illegal("stage", at, "its iterations read different elements");
      if (moving != UINT32_MAX || term.coefficient != 1)
        illegal("stage", at, "an index is more than a loop's own step");
      moving = term.id;
    }
    if (moving == UINT32_MAX) continue;
    const For& from = *inside.at(moving);
    if (!stepped.insert(moving).second) illegal("stage", at, "one loop steps through two axes");
    if (!is_const(from.begin) || const_as_int(*from.begin) != 0)
      illegal("stage", at, "a loop inside does not start at 0");
    if (uses(from.end, own)) illegal("stage", at, "the bounds of a loop inside depend on another");
    // min(constant, rest) is a tile; its scratch has the constant's size.
    Expr extent = from.end;
    if (extent->op == Op::kMin && is_const(extent->args[0])) extent = extent->args[0];
    bool over_dims = true;
    visit_nodes(extent, [&](const Expr& e) {
      over_dims = over_dims && e->op != Op::kLoopVar && e->op != Op::kReg;
    });
    if (!over_dims) illegal("stage", at, "the size of what it reads is not known in front of it");
    const Var var{static_cast<uint32_t>(kernel.vars.size())};
    kernel.vars.push_back(fresh_name(kernel, kernel.vars[moving] + "_c"));
    index.affine = index.affine.substitute(Var{moving}, var);
    loops.push_back({var, i64(0), from.end, LoopKind::kSerial, 1, {}});
    extents.push_back(extent);
    staged.emplace_back(Affine(Var{moving}));
    stored.emplace_back(Affine(var));
  }
  if (loops.empty()) illegal("stage", at, "it reads one element");
  // All axes but the outermost are tiles of known size, which are the strides.
  int64_t stride = 1;
  scratch.strides.assign(loops.size(), 1);
  for (size_t k = loops.size(); k-- > 1;) {
    if (!is_const(extents[k])) illegal("stage", at, "two axes of unknown extent");
    stride *= const_as_int(*extents[k]);
    scratch.strides[k - 1] = stride;
  }
  scratch.scratch_elements = extents[0] * i64(stride);
  const auto target = static_cast<uint32_t>(kernel.buffers.size());
  kernel.buffers.push_back(std::move(scratch));

  const auto load_of = [&](uint32_t from, std::vector<Index> indices) {
    Node node;
    node.op = Op::kLoad;
    node.type = value_type(kernel.buffers[from].type);
    node.id = from;
    node.indices = std::move(indices);
    return Expr(std::make_shared<const Node>(std::move(node)));
  };
  Block copy{{Store{target, stored, load_of(id, copied), {}}}};
  for (size_t k = loops.size(); k-- > 0;) {
    loops[k].body = std::move(copy);
    copy.clear();
    copy.push_back({std::move(loops[k])});
  }
  const Expr read = load_of(target, staged);
  whole = rewrite_exprs(
      whole, [&](const Expr& e) { return e->op == Op::kLoad && e->id == id ? read : e; });
  Block& block = *place.block;
  block[place.at] = std::move(whole[0]);
  block.insert(block.begin() + static_cast<std::ptrdiff_t>(place.at), std::move(copy[0]));
  return verified(std::move(kernel));
}

Kernel tensorize(Kernel kernel, std::string_view rows, std::string_view cols, int copies,
                 int lanes) {
  const For& outer = find(kernel, rows).loop();
  const For* inner = outer.body.size() == 1 ? std::get_if<For>(&outer.body[0].node) : nullptr;
  if (!inner || kernel.vars[inner->var.id] != cols)
    illegal("tensorize", rows, fmt::format("its body is not the loop {} alone", cols));
  bool product = false;
  for (const Stmt& stmt : inner->body) {
    const auto* declare = std::get_if<DeclareAcc>(&stmt.node);
    product = product || (declare && kernel.accs[declare->acc].op == AccOp::kDot &&
                          kernel.accs[declare->acc].order == AccOrder::kSequential);
  }
  if (!product) illegal("tensorize", cols, "it holds no sequential dot product");
  kernel = vectorize(std::move(kernel), cols, lanes);
  return jam(std::move(kernel), rows, copies);
}

}  // namespace xc::loop
