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

/// How a loop reads a buffer, and the loops inside by their variables, itself among them.
struct Reads {
  std::vector<Index> map;
  std::map<uint32_t, const For*> loops;
};

Reads reads_of(const Block& loop, uint32_t buffer, std::string_view name, std::string_view at) {
  Reads out;
  std::optional<std::vector<Index>> map;
  const auto see = [&](const Expr& e) {
    if (e->op != Op::kLoad || e->id != buffer) return;
    if (e->guard) illegal("stage", at, "it reads under a condition");
    for (const Index& index : e->indices)
      if (!index.is_affine()) illegal("stage", at, "it gathers");
    if (map && !same_affine(*map, e->indices))
      illegal("stage", at, "it reads the buffer in several ways");
    map = e->indices;
  };
  visit_statements(loop, [&](const Stmt& stmt) {
    if (const auto* l = std::get_if<For>(&stmt.node)) out.loops[l->var.id] = l;
    visit_exprs(stmt, [&](const Expr& root) { visit_nodes(root, see); });
  });
  if (!map) illegal("stage", at, fmt::format("it does not read {}", name));
  out.map = std::move(*map);
  return out;
}

/// The loop inside that an index steps through, one element at a time; null where it stands still.
const For* loop_through(const Affine& index, const Reads& reads, Var loop, std::string_view at) {
  const For* out = nullptr;
  for (const Affine::Term& term : index.terms()) {
    if (term.is_dim || !reads.loops.contains(term.id)) continue;
    if (term.id == loop.id) illegal("stage", at, "its iterations read different elements");
    if (out || term.coefficient != 1)
      illegal("stage", at, "an index is more than a loop's own step");
    out = reads.loops.at(term.id);
  }
  return out;
}

/// Elements that scratch needs for what a loop steps through: min(constant, rest) is a tile, whose
/// scratch has the constant's size.
Expr extent_of(const For& loop, const std::unordered_set<uint32_t>& inside, std::string_view at) {
  if (!is_const(loop.begin) || const_as_int(*loop.begin) != 0)
    illegal("stage", at, "a loop inside does not start at 0");
  if (uses(loop.end, inside)) illegal("stage", at, "the bounds of a loop inside depend on another");
  Expr extent = loop.end;
  if (extent->op == Op::kMin && is_const(extent->args[0])) extent = extent->args[0];
  bool over_dims = true;
  visit_nodes(extent, [&](const Expr& e) {
    over_dims = over_dims && e->op != Op::kLoopVar && e->op != Op::kReg;
  });
  if (!over_dims) illegal("stage", at, "the size of what it reads is not known in front of it");
  return extent;
}

/// The nest that copies, and how both sides of the copy and its readers find an element.
struct Staging {
  std::vector<For> loops;     ///< outermost first, without bodies
  std::vector<Expr> extents;  ///< of scratch, an axis per loop
  std::vector<Index> from, to, read;
};

Staging staging_of(Kernel& kernel, const Reads& reads, Var loop, std::string_view at) {
  std::unordered_set<uint32_t> inside, stepped;
  for (const auto& [var, l] : reads.loops) inside.insert(var);
  Staging out;
  out.from = reads.map;
  for (Index& index : out.from) {
    const For* through = loop_through(index.affine, reads, loop, at);
    if (!through) continue;
    const Var moving = through->var;
    if (!stepped.insert(moving.id).second) illegal("stage", at, "one loop steps through two axes");
    out.extents.push_back(extent_of(*through, inside, at));
    const Var var{static_cast<uint32_t>(kernel.vars.size())};
    kernel.vars.push_back(fresh_name(kernel, kernel.vars[moving.id] + "_c"));
    index.affine = index.affine.substitute(moving, var);
    out.loops.push_back({var, i64(0), through->end, LoopKind::kSerial, 1, {}});
    out.read.emplace_back(Affine(moving));
    out.to.emplace_back(Affine(var));
  }
  if (out.loops.empty()) illegal("stage", at, "it reads one element");
  return out;
}

/// Scratch of these extents; all but the outermost are tiles of known size, which are the strides.
BufferDecl scratch_for(const Kernel& kernel, const BufferDecl& staged,
                       const std::vector<Expr>& extents, std::string_view at) {
  BufferDecl out;
  out.name = fresh_name(kernel, staged.name + "_s");
  out.type = value_type(staged.type);
  out.access = Access::kInOut;
  int64_t stride = 1;
  out.strides.assign(extents.size(), 1);
  for (size_t k = extents.size(); k-- > 1;) {
    if (!is_const(extents[k])) illegal("stage", at, "two axes of unknown extent");
    stride *= const_as_int(*extents[k]);
    out.strides[k - 1] = stride;
  }
  out.scratch_elements = extents[0] * i64(stride);
  return out;
}

Expr load_of(const Kernel& kernel, uint32_t buffer, std::vector<Index> indices) {
  Node node;
  node.op = Op::kLoad;
  node.type = value_type(kernel.buffers[buffer].type);
  node.id = buffer;
  node.indices = std::move(indices);
  return Expr(std::make_shared<const Node>(std::move(node)));
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
  Block whole{(*place.block)[place.at]};
  const Reads reads = reads_of(whole, id, buffer, at);
  Staging staging = staging_of(kernel, reads, place.loop().var, at);
  const auto scratch = static_cast<uint32_t>(kernel.buffers.size());
  kernel.buffers.push_back(scratch_for(kernel, kernel.buffers[id], staging.extents, at));
  Block copy{{Store{scratch, staging.to, load_of(kernel, id, staging.from), {}}}};
  for (size_t k = staging.loops.size(); k-- > 0;) {
    staging.loops[k].body = std::move(copy);
    copy.clear();
    copy.push_back({std::move(staging.loops[k])});
  }
  const Expr read = load_of(kernel, scratch, staging.read);
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
