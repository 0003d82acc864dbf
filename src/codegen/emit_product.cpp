// Register tiles of products, as schedules of blocks write them: a vector loop of some registers
// whose body declares sums, feeds them in one serial loop with a row of one table times a column
// each of another, and stores them. The library has that as a function.
#include <algorithm>
#include <numeric>

#include "codegen/emitter.h"
#include "codegen/library.h"

namespace xc::codegen {

using llvm::Value;
using namespace loop;

namespace {

using Indices = std::vector<Index>;

bool is_affine(const Indices& indices) {
  return std::all_of(indices.begin(), indices.end(), [](const Index& i) { return i.is_affine(); });
}

// Do they differ in their constants only?
bool parallel(const Indices& a, const Indices& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Index& x, const Index& y) {
    return x.affine.terms() == y.affine.terms();
  });
}

// What the constant of each index grows by.
std::vector<int64_t> growth(const Indices& from, const Indices& to) {
  std::vector<int64_t> out;
  for (size_t d = 0; d < from.size(); ++d)
    out.push_back(to[d].affine.constant() - from[d].affine.constant());
  return out;
}

// What the statements of a tile read and write, column by column.
struct Tile {
  const For* inner = nullptr;
  std::vector<const DeclareAcc*> sums;
  std::vector<const Accumulate*> feeds;
  std::vector<const Store*> stores;

  // Three runs of as many statements, and the loop between.
  bool read(const Block& body) {
    for (const Stmt& stmt : body) {
      if (const auto* sum = std::get_if<DeclareAcc>(&stmt.node); sum && !inner)
        sums.push_back(sum);
      else if (const auto* loop = std::get_if<For>(&stmt.node); loop && !inner)
        inner = loop;
      else if (const auto* store = std::get_if<Store>(&stmt.node); store && inner)
        stores.push_back(store);
      else
        return false;
    }
    if (!inner || inner->kind != LoopKind::kSerial) return false;
    for (const Stmt& stmt : inner->body) {
      const auto* feed = std::get_if<Accumulate>(&stmt.node);
      if (!feed || !feed->second) return false;
      feeds.push_back(feed);
    }
    return !sums.empty() && sums.size() <= kMaxProductColumns && feeds.size() == sums.size() &&
           stores.size() == sums.size();
  }
};

bool is_plain_load(const Expr& e) {
  return e->op == Op::kLoad && !e->guard && is_affine(e->indices);
}

}  // namespace

bool Emitter::product_tiles(const For& loop, Value* first, Value* last) {
  Tile tile;
  if (!has_library(target_)) return false;
  const unsigned lanes = register_lanes(target_);
  const auto registers = static_cast<unsigned>(loop.factor) / lanes;
  // Whole vectors only.
  if (std::gcd(known_divisor(loop.begin), known_divisor(loop.end)) % lanes != 0 || registers < 1 ||
      registers > kMaxProductRegisters || !tile.read(loop.body))
    return false;
  const Expr& panel = tile.feeds[0]->value;
  const Expr& b = tile.feeds[0]->second;
  const Store& out = *tile.stores[0];
  const bool adds = static_cast<bool>(tile.sums[0]->init);
  const auto f32 = [&](uint32_t buffer) { return kernel_.buffers[buffer].type == DType::kF32; };
  const auto same_place = [&](const Expr& e, const Store& store) {
    return is_plain_load(e) && e->id == store.buffer && same_affine(e->indices, store.indices);
  };
  const size_t columns = tile.sums.size();
  for (size_t j = 0; j < columns; ++j) {
    const uint32_t acc = tile.sums[j]->acc;
    const AccDecl& decl = kernel_.accs[acc];
    const Accumulate& feed = *tile.feeds[j];
    const Store& store = *tile.stores[j];
    if (decl.op != AccOp::kDot || decl.type != DType::kF32 || decl.order != AccOrder::kSequential ||
        feed.acc != acc || store.guard || store.value->op != Op::kAccValue ||
        store.value->id != acc)
      return false;
    if (static_cast<bool>(tile.sums[j]->init) != adds ||
        (adds && !same_place(tile.sums[j]->init, store)))
      return false;
    if (!is_plain_load(feed.value) || !is_plain_load(feed.second) || !is_affine(store.indices) ||
        feed.value->id != panel->id || !same_affine(feed.value->indices, panel->indices) ||
        feed.second->id != b->id || store.buffer != out.buffer ||
        !parallel(feed.second->indices, b->indices) || !parallel(store.indices, out.indices))
      return false;
  }
  if (!f32(panel->id) || !f32(b->id) || !f32(out.buffer) || panel->id == out.buffer ||
      b->id == out.buffer)
    return false;

  // Steps in elements, along the lanes, the inner loop and the columns.
  if (!is_number(step_of(panel->id, panel->indices, loop.var), 1) ||
      !is_number(step_of(out.buffer, out.indices, loop.var), 1) ||
      !is_number(step_of(b->id, b->indices, loop.var), 0) ||
      !is_number(step_of(out.buffer, out.indices, tile.inner->var), 0))
    return false;
  // From column to column the constants grow alike.
  const auto b_of = [&](size_t j) -> const Indices& { return tile.feeds[j]->second->indices; };
  const auto out_of = [&](size_t j) -> const Indices& { return tile.stores[j]->indices; };
  const size_t next = columns > 1 ? 1 : 0;
  const std::vector<int64_t> b_grows = growth(b_of(0), b_of(next));
  const std::vector<int64_t> out_grows = growth(out_of(0), out_of(next));
  for (size_t j = 2; j < columns; ++j)
    if (growth(b_of(j - 1), b_of(j)) != b_grows || growth(out_of(j - 1), out_of(j)) != out_grows)
      return false;
  const auto column_step = [&](uint32_t buffer, const std::vector<int64_t>& grows) {
    Value* sum = integer(0);
    for (size_t d = 0; d < grows.size(); ++d)
      if (grows[d] != 0)
        sum = b_.CreateAdd(sum, b_.CreateMul(stride_value(buffer, d), integer(grows[d])));
    return sum;
  };

  vars_[loop.var.id] = first;
  Value* const begin = uniform(value(tile.inner->begin));
  Value* const end = uniform(value(tile.inner->end));
  vars_[tile.inner->var.id] = begin;
  Value* const panel_at = address(panel->id, panel->indices, {}).base;
  Value* const b_at = address(b->id, b->indices, {}).base;
  Value* const out_at = address(out.buffer, out.indices, {}).base;
  const ProductShape shape{registers, static_cast<unsigned>(columns), adds};
  b_.CreateCall(product_function(module_, target_, shape),
                {panel_at, step_of(panel->id, panel->indices, tile.inner->var), b_at,
                 step_of(b->id, b->indices, tile.inner->var), column_step(b->id, b_grows),
                 b_.CreateSub(end, begin), out_at, column_step(out.buffer, out_grows),
                 b_.CreateSDiv(b_.CreateSub(last, first), integer(lanes))});
  cache_.clear();
  return true;
}

}  // namespace xc::codegen
