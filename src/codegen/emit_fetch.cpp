// Fetching ahead: which of the streams that a vector loop reads the hardware does not see, or not
// far enough ahead. Loads are noted while a body is written, and fetched for behind it.
#include <algorithm>

#include "codegen/emitter.h"

namespace xc::codegen {

using llvm::Value;
using namespace loop;

// Rows this short are no stream to the hardware where a loop takes several at a time: a k-means
// step over 40 MB in rows of 400 bytes, two at a time, took 9.4 ms, 1.8 with this (2, 4, 8 and 16
// KiB ahead: 3.4, 2.5, 1.8 and 2.1). One row at a time needs no help, and in the cache a norm takes
// a third longer with it. What is noted here is fetched at the end of the iteration: a fetch in
// between would keep LLVM from taking loads of one address for one.
void Emitter::fetch_later(const Node& node, const Address& at) {
  constexpr int64_t kLongestRow = 2 << 10;  // bytes
  const BufferDecl& buffer = kernel_.buffers[node.id];
  if (target_.family != Family::kX86 || buffer.access != Access::kIn || !vector_ || vector_->mask ||
      vector_->nesting > 0 || !at.contiguous)
    return;
  if (buffer.strides.size() < 2) {
    if (!is_stream(buffer)) return;
    auto& groups = vector_->fetches.streams.try_emplace(node.id, at.base).first->second.groups;
    if (groups.empty() || groups.back() != vector_->group) groups.push_back(vector_->group);
    return;
  }
  if (vector_->fetches.block && vector_->fetches.block->buffer == node.id) {
    auto& rows = vector_->fetches.block->rows;
    const auto same = [&](const auto& row) {
      return same_affine(row.first->indices, node.indices);
    };
    if (std::ranges::none_of(rows, same)) rows.emplace_back(&node, at.base);
    return;
  }
  // Dense rows: the loop goes over all of one.
  const For& loop = *vector_->loop;
  const Stride& row = buffer.strides[buffer.strides.size() - 2];
  if (row.is_param || !is_const(loop.begin) || !is_const(loop.end) ||
      static_cast<int64_t>(loop.end->bits - loop.begin->bits) != row.value ||
      row.value * element_size(buffer.type) > kLongestRow)
    return;
  for (const auto& [other, address] : vector_->fetches.rows)
    if (other->id == node.id && same_affine(other->indices, node.indices)) return;
  vector_->fetches.rows.emplace_back(&node, at.base);
}

// Is it a buffer of one axis that the vector loop may read far, and is what it reads next not of a
// line that it has read from?
bool Emitter::is_stream(const BufferDecl& buffer) const {
  constexpr int64_t kLine = 64;  // bytes
  return buffer.strides.size() == 1 && vector_->limit &&
         vector_->group * vector_->lanes * element_size(buffer.type) % kLine == 0;
}

void Emitter::fetch(Value* address, Value* ahead, int level) {
  Value* const at = b_.CreateGEP(b_.getInt8Ty(), address, ahead);
  b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {at->getType()},
                     {at, b_.getInt32(0), b_.getInt32(level), b_.getInt32(1)});
}

// Behind the last iteration that is written side by side with others.
void Emitter::fetch_far_ahead() {
  fetch_streams_ahead();
  fetch_block_ahead();
}

// Several streams from beyond the second-level cache are more than the hardware keeps ahead of:
// sums over three of 40 MB take 0.93 to 0.97 and (three sums) 0.85 of the time with this, SwiGLU of
// 84 MB 0.86 (Xeon with AMX). It goes to the second level: to the first it took the buffers that
// the loads wait in, 1.2 to 1.5 times as long. What the second level holds must not be fetched, 1.7
// times as long.
void Emitter::fetch_streams_ahead() {
  constexpr int64_t kAhead = 2 << 10;  // bytes
  const auto streams = std::exchange(vector_->fetches.streams, {});
  if (streams.empty()) return;
  int64_t bytes = 0;  // per element of the loop
  for (const auto& [buffer, stream] : streams) bytes += element_size(kernel_.buffers[buffer].type);
  when(vector_->front->CreateICmpSGT(vector_->limit, integer(kSecondLevelBytes / bytes)), {}, [&] {
    for (const auto& [buffer, stream] : streams) {
      // By the first one's address: each would be computed in the loop.
      const int64_t bytes_of_group = vector_->lanes * element_size(kernel_.buffers[buffer].type);
      for (const int group : stream.groups)
        fetch(stream.address, integer(kAhead + (group - stream.groups[0]) * bytes_of_group),
              kToSecondLevel);
    }
  });
}

// The rows of a buffer of two axes that a vector loop reads side by side.
std::vector<const Node*> Emitter::rows_read(const For& loop, uint32_t buffer) const {
  std::vector<const Node*> out;
  visit_statements(loop.body, [&](const Stmt& stmt) {
    visit_exprs(stmt, [&](const Expr& root) {
      visit_nodes(root, [&](const Expr& e) {
        if (e->op != Op::kLoad || e->id != buffer || e->indices.size() != 2) return;
        const auto same = [&](const Node* row) { return same_affine(row->indices, e->indices); };
        if (e->indices[0].is_affine() && std::ranges::none_of(out, same)) out.push_back(e.get());
      });
    });
  });
  return out;
}

// A block of rows that is read twice comes from memory the first time, while nothing is computed
// that memory would wait for, and the second time from a cache, while memory waits.
// So each pass over a block fetches half of the next one: 40 MB by rows of 4000 bytes, X'(Xv), take
// 0.81 of the time, by rows of 2000 bytes with four columns 0.88 (Xeon with AMX). Small blocks are
// over before memory answers: half of the one behind the next (four rows of 4000 bytes, AMD Zen 4:
// 0.97 of the time).
std::optional<Emitter::BlockFetch> Emitter::block_fetch(const For& loop) {
  constexpr int64_t kFewestRows = 4;
  constexpr int64_t kSmallBlock = 24 << 10;  // bytes
  if (target_.family != Family::kX86) return std::nullopt;
  for (uint32_t id = 0; id < kernel_.buffers.size(); ++id) {
    const BufferDecl& buffer = kernel_.buffers[id];
    if (buffer.access != Access::kIn || buffer.strides.size() != 2 || buffer.strides[0].is_param ||
        buffer.strides[0].value <= 0)
      continue;
    const std::vector<const Node*> rows = rows_read(loop, id);
    if (rows.size() < 2) continue;
    for (const OpenLoop& open : open_loops_) {
      const int64_t block = rows[0]->indices[0].affine.coefficient(open.loop->var);
      if (block < kFewestRows || !open.limit) continue;
      std::vector<const For*> passes;
      visit_statements(open.loop->body, [&](const Stmt& stmt) {
        const auto* pass = std::get_if<For>(&stmt.node);
        if (pass && pass->kind == LoopKind::kVector && rows_read(*pass, id).size() >= 2)
          passes.push_back(pass);
      });
      if (passes.size() != 2) continue;
      const int64_t bytes = block * buffer.strides[0].value * element_size(buffer.type);
      Value* const far = b_.CreateICmpSGT(open.limit, integer(kSecondLevelBytes / bytes));
      return BlockFetch{.buffer = id,
                        .ahead = bytes < kSmallBlock ? 2 * bytes : bytes,
                        .far = far,
                        .second = passes[1] == &loop,
                        .rows = {}};
    }
  }
  return std::nullopt;
}

void Emitter::fetch_block_ahead() {
  if (!vector_->fetches.block) return;
  BlockFetch& block = *vector_->fetches.block;
  const size_t half = block.rows.size() / 2;
  when(block.far, {}, [&] {
    for (size_t k = 0; k < block.rows.size(); ++k)
      if ((k >= half) == block.second)
        fetch(block.rows[k].second, integer(block.ahead), kToSecondLevel);
  });
  block.rows.clear();
}

void Emitter::fetch_ahead() {
  constexpr int64_t kAhead = 8 << 10;  // bytes
  const auto rows_of = [&](uint32_t buffer) {
    return std::count_if(vector_->fetches.rows.begin(), vector_->fetches.rows.end(),
                         [&](const auto& fetch) { return fetch.first->id == buffer; });
  };
  for (const auto& [node, address] : vector_->fetches.rows) {
    if (rows_of(node->id) >= 2) fetch(address, integer(kAhead), kToFirstLevel);
  }
  vector_->fetches.rows.clear();
}

}  // namespace xc::codegen
