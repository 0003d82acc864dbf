// Loop IR to LLVM IR: one kernel, one function `int32_t name(const xc_kargs*)`.
//
// Values are scalars, or vectors of the current vector loop's lanes. What does not depend on a
// vector loop is computed once in front of it ("hoisted"), so no loop pass of LLVM is needed. A
// vector loop becomes: full groups (four at a time when it reduces in lanes order), then the rest:
// one masked body where the target has masked memory, else a scalar loop. Memory under a mask is
// never touched: by instruction where the target has one, else lane by lane with the address of a
// dummy in place of inactive ones.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <bitset>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "codegen/target.h"
#include "loop/kernel.h"
#include "loop/range.h"

namespace xc::codegen {

/// A value: uniform (one scalar for all lanes) or one per lane.
struct Val {
  llvm::Value* v = nullptr;
  bool vec = false;
};

inline bool is_affine(const std::vector<loop::Index>& indices) {
  return std::all_of(indices.begin(), indices.end(),
                     [](const loop::Index& i) { return i.is_affine(); });
}

class Emitter {
 public:
  /// `kernel` is scheduled, its math expanded. The function is added to `module`.
  Emitter(const loop::Kernel& kernel, const Target& target, llvm::Module& module);
  void run();

 private:
  using Builder = llvm::IRBuilder<>;
  using IdSet = std::unordered_set<uint32_t>;
  struct AccState;

  // --- the kernel's frame (emit_frame.cpp) ---
  void frame();
  llvm::Value* argument_field(unsigned index, llvm::Type* type);
  void place_scratch(const std::function<llvm::Value*()>& first);
  /// Leave with a range error; on a GPU report it and go on (threads must meet at barriers).
  void fail_if(llvm::Value* condition);

  // --- GPU (emit_gpu.cpp) ---
  bool gpu() const { return target_.family == Family::kNvptx; }
  void gpu_frame();
  void gpu_task_loop(const loop::For& loop);
  void gpu_vector_loop(const loop::For& loop, llvm::Value* begin, llvm::Value* end);
  void gpu_finish(const loop::AccDecl& decl, AccState& acc);
  void gpu_before_store(uint32_t buffer);
  llvm::Value* exchange(llvm::Value* v, int distance);
  llvm::Value* special_register(llvm::Intrinsic::ID id);
  void barrier();

  // --- statements (emit_statements.cpp) ---
  void block(const loop::Block& statements);
  void statement(const loop::Stmt& stmt);
  void forget(uint32_t buffer);
  using BufferSet = std::bitset<2 * loop::kMaxBuffers>;  // parameters and scratch
  BufferSet reads(const loop::Node& node);
  BufferSet reads(const loop::Block& statements);
  void for_loop(const loop::For& loop);
  void serial_loop(const loop::For& loop, llvm::Value* begin, llvm::Value* end);
  llvm::Value* behind_whole(llvm::Value* begin, llvm::Value* end, int64_t step);
  void unrolled_loop(const loop::For& loop, llvm::Value* begin, llvm::Value* end);
  /// How often the body of a vector loop is written, and for what.
  struct VectorPlan {
    int groups = 1;           // partial vectors that a reduction feeds in turn
    bool four_times = false;  // side by side for all groups, else once for one after the other
    bool all_masked = false;  // once, under the mask, for all iterations
    int64_t step = 0;         // iterations that all groups take together
    /// Known to divide the number of iterations: nothing may be left, or whole vectors only.
    int64_t divisor = 1;
  };
  using Carried = std::vector<llvm::Value**>;  // what changes from one iteration to the next
  VectorPlan vector_plan(const loop::For& loop, bool carries) const;
  void vector_loop(const loop::For& loop, llvm::Value* begin, llvm::Value* end);
  void vector_bodies(const loop::For& loop, llvm::Value* begin, llvm::Value* end,
                     const Carried& carried);
  struct VectorLoop;
  VectorLoop open_vector_loop(const loop::For& loop);
  llvm::Value* limit_of(const loop::For& loop);
  bool reduces(const loop::Block& body) const;
  static bool has_loop(const loop::Block& body);
  static size_t weight(const loop::Block& body);
  /// Bodies from there on are written once, not for several iterations side by side.
  static constexpr size_t kHeavyBody = 10;
  void join_front(Builder& front, llvm::BasicBlock* main);
  llvm::Value* first_lanes(llvm::Value* left, llvm::Value* condition = nullptr);
  llvm::Value* lanes_below(llvm::Value* limit);
  bool rest_under_mask(const loop::For& loop) const;
  void scalar_rest(const loop::For& loop, llvm::Value* begin, llvm::Value* end);
  void masked_rest(const loop::For& loop, llvm::Value* begin, llvm::Value* end, int64_t divisor,
                   bool always);

  /// State that loops carry: the partial results of accumulators from outside.
  struct AccState {
    std::vector<llvm::Value*> values, indices;
    llvm::Value* init = nullptr;
    bool vec = false;        // per lane of an enclosing vector loop
    bool from_zero = false;  // a sum that begins with +0
    Val result, result_index;
    llvm::Value *memory = nullptr,
                *index_memory = nullptr;  // the partials while a scalar rest runs
  };
  std::vector<uint32_t> fed_by(const loop::Block& body) const;
  Carried carried_by(const loop::Block& body);
  std::vector<AccState*> partials_of(const loop::Block& body);
  void turn(const std::vector<AccState*>& partials, int by);
  /// for (v = begin; v < end; v += step) body(v)
  void counted_loop(llvm::Value* begin, llvm::Value* end, llvm::Value* step, const Carried& carried,
                    const std::function<void(llvm::Value*)>& body);
  void when(llvm::Value* condition, const Carried& carried, const std::function<void()>& then);
  void join(llvm::BasicBlock* exit, const Carried& carried, llvm::BasicBlock* before,
            const std::vector<llvm::Value*>& initial, llvm::BasicBlock* after);

  // --- expressions (emit_values.cpp) ---
  Val value(const loop::Expr& e);
  Val compute(const loop::Expr& e);
  Val leaf(const loop::Node& node);
  Val scalar_or_vector(const loop::Node& node);
  llvm::Value* operation(loop::Op op, DType type, DType operand, llvm::ArrayRef<llvm::Value*> v);
  llvm::Value* float_operation(loop::Op op, llvm::ArrayRef<llvm::Value*> v);
  llvm::Value* integer_operation(loop::Op op, bool is_signed, llvm::ArrayRef<llvm::Value*> v);
  llvm::Value* negate(llvm::Value* v);
  loop::KnownRange known(const loop::Expr& e);
  static bool fits(const loop::KnownRange& value, DType type);
  llvm::Value* minimum(llvm::Value* a, llvm::Value* b, DType type, bool want_max);
  llvm::Value* scale(llvm::Value* a, llvm::Value* k);
  llvm::Value* concatenate(llvm::Value* a, llvm::Value* b);
  llvm::Value* uniform(const Val& v);                       // checks that it is one
  llvm::Value* vector(const Val& v);                        // splat where needed
  static bool is_number(llvm::Value* v, uint64_t number) {  // that constant?
    const auto* constant = llvm::dyn_cast<llvm::ConstantInt>(v);
    return constant && constant->equalsInt(number);
  }
  llvm::Value* integer(int64_t number) { return b_.getInt64(static_cast<uint64_t>(number)); }
  llvm::Type* type_of(DType type, bool vec) const;
  llvm::Value* same_shape(double number, llvm::Value* like);  // constant shaped like `like`
  llvm::Value* iota();
  Val both(llvm::Value* a, llvm::Value* b);  // and of two masks, either may be null

  // --- integers: division, conversions from and to floats (emit_integers.cpp) ---
  llvm::Value* divide(loop::Op op, bool is_signed, llvm::Value* a, llvm::Value* b);
  llvm::Value* quotient(llvm::Value* a, int64_t number);
  llvm::Value* quotient_of_floats(bool is_signed, llvm::Value* a, llvm::Value* b, bool narrow);
  llvm::Value* divide_wide(loop::Op op, bool is_signed, llvm::Value* a, llvm::Value* b);
  llvm::Value* with_sign_of(llvm::Value* b, llvm::Value* rest);
  llvm::Value* convert(DType to, DType from, llvm::Value* v);
  llvm::Value* saturated(DType to, llvm::Value* v);
  llvm::Value* in_range(DType to, llvm::Value* v);  // of a float that such a type holds
  bool is_slow_wide(const llvm::Value* v) const;
  llvm::Value* lane_by_lane(llvm::ArrayRef<llvm::Value*> operands, llvm::Type* result,
                            const std::function<llvm::Value*(llvm::ArrayRef<llvm::Value*>)>& of);

  // --- memory (emit_memory.cpp) ---
  struct Address {
    llvm::Value* base = nullptr;     // of the element at lane 0, or of the row that `offsets` index
    llvm::Value* offsets = nullptr;  // per lane, in elements; null: contiguous or uniform
    bool contiguous = false;         // lane l is element l from base
    llvm::Value* valid = nullptr;    // GPU: false where a checked index is out of range
  };
  Address address(uint32_t buffer, const std::vector<loop::Index>& indices, const Val& guard);
  llvm::Value* fixed_base(uint32_t buffer, const std::vector<loop::Index>& indices);
  Val checked_offset(const loop::Index& index, llvm::Value* stride, const Val& guard, Address& out);
  llvm::Value* affine_offset(const loop::Affine& index, llvm::Value* stride, bool hoisted_part);
  void add_to(llvm::Value*& sum, llvm::Value* part);  // to nothing: the part itself
  Val load(const loop::Node& node);
  void store(const loop::Store& stmt);
  llvm::Value* stride_value(uint32_t buffer, size_t dimension);
  llvm::Value* mask_for(uint32_t buffer, const std::vector<loop::Index>& indices, const Val& guard);
  llvm::Value* lane_pointers(const Address& at, llvm::Type* element, llvm::Value* mask);
  llvm::Value* load_vector(const Address& at, llvm::Type* element, llvm::Value* mask);
  bool by_words(llvm::Value* mask, llvm::Type* element) const;
  llvm::Value* load_words(llvm::Value* base, llvm::FixedVectorType* type, llvm::Value* mask);
  void store_words(llvm::Value* value, llvm::Value* base, llvm::Value* mask);
  void store_vector(const Address& at, llvm::Value* value, llvm::Value* mask);
  llvm::Value* from_memory(DType stored, llvm::Value* raw);
  llvm::Value* to_memory(DType stored, llvm::Value* v);
  llvm::Type* memory_type(DType stored) const;
  llvm::Value* round_to_half(llvm::Value* v);  // f32 -> i16 bits of f16
  llvm::Value* half_to_float(llvm::Value* bits);
  llvm::Value* half_bits(llvm::Value* v);  // the same two where there is no instruction
  llvm::Value* half_value(llvm::Value* bits);
  llvm::Value* called(const char* name, llvm::Value* v, llvm::Type* element,
                      const std::function<llvm::Value*(llvm::Value*)>& body);
  llvm::Value* round_to_bf16(llvm::Value* v);
  llvm::Value* any(llvm::Value* mask);
  llvm::Value* zeros();

  // --- fetching ahead (emit_fetch.cpp) ---
  /// What a vector loop over rows of a block fetches of the next block.
  struct BlockFetch {
    uint32_t buffer = 0;
    int64_t ahead = 0;           // bytes from a row to the one in its place in the next block
    llvm::Value* far = nullptr;  // whether the second-level cache does not hold them all
    bool second = false;         // of the two passes over a block
    std::vector<std::pair<const loop::Node*, llvm::Value*>> rows;  // of an iteration
  };
  /// What the body of a vector loop has noted.
  struct Fetches {
    struct Stream {
      llvm::Value* address;  // in the first of the groups that read a line
      std::vector<int> groups;
    };
    std::vector<std::pair<const loop::Node*, llvm::Value*>> rows;
    std::map<uint32_t, Stream> streams;  // by buffer
    std::optional<BlockFetch> block;
  };
  void fetch_later(const loop::Node& node, const Address& at);
  void fetch(llvm::Value* address, llvm::Value* ahead, int level);
  void fetch_ahead();
  void fetch_far_ahead();
  void fetch_streams_ahead();
  std::vector<const loop::Node*> rows_read(const loop::For& loop, uint32_t buffer) const;
  std::optional<BlockFetch> block_fetch(const loop::For& loop);
  void fetch_block_ahead();
  bool is_stream(const loop::BufferDecl& buffer) const;
  /// Levels to fetch to, as LLVM's prefetch counts: its "locality".
  static constexpr int kToFirstLevel = 3, kToSecondLevel = 2;
  /// What a loop reads is fetched into the second level where it is more than that holds.
  static constexpr int64_t kSecondLevelBytes = 2 << 20;

  // --- copies that transpose (emit_transpose.cpp) ---
  /// When `loop`, inside a vector loop, is such a copy: copies the tiles of its first iterations
  /// and gives the first one left, else `begin`.
  llvm::Value* transposing_copy(const loop::For& loop, llvm::Value* begin, llvm::Value* end);
  llvm::Value* step_of(uint32_t buffer, const std::vector<loop::Index>& indices, loop::Var var);

  // --- products (emit_product.cpp) ---
  /// When a loop over columns [first, last) is one: calls the library for all of it.
  bool product(const loop::For& columns, llvm::Value* first, llvm::Value* last);
  llvm::Value* splits(llvm::Value* rows, llvm::Value* columns, llvm::Value* terms);
  void either(llvm::Value* condition, const std::function<void()>& then,
              const std::function<void()>& otherwise);

  // --- reductions (emit_reductions.cpp) ---
  void declare(const loop::DeclareAcc& stmt);
  void accumulate(const loop::Accumulate& stmt);
  void accumulate_slot(const loop::Accumulate& stmt);
  bool zero_if_off(const llvm::Value* v) const;
  void spill(AccState& acc);
  llvm::Value* spill_memory(int64_t bytes);
  void reload(AccState& acc);
  void finish(uint32_t acc);
  void finish(std::vector<uint32_t> accs);
  void finish_together(std::span<const uint32_t> accs);
  llvm::Value* opaque(llvm::Value* v);
  llvm::Value* sixteen(const loop::AccDecl& decl, const AccState& acc);
  llvm::Value* combine(loop::AccOp op, DType type, llvm::Value* a, llvm::Value* b);
  llvm::Value* update(const loop::AccDecl& decl, llvm::Value* partial, llvm::Value* value,
                      llvm::Value* second);
  struct Partial {
    llvm::Value *value, *index;  // index: of arg-reductions
  };
  Partial merged(const loop::AccDecl& decl, Partial a, Partial b);
  llvm::Value* replaces(loop::AccOp op, DType type, llvm::Value* value, llvm::Value* index,
                        llvm::Value* best, llvm::Value* best_index);
  llvm::Constant* constant(DType type, uint64_t bits, bool vec) const;

  // --- the current vector loop ---
  struct VectorLoop {
    const loop::For* loop = nullptr;
    int lanes = 0;
    llvm::Value* first = nullptr;    // value of the variable at lane 0
    llvm::Value* mask = nullptr;     // active lanes, null: all
    llvm::Value* limit = nullptr;    // of the variable in all blocks of the loop; null: constant
    int group = 0;                   // which of the four partial results is fed
    IdSet vars, regs, accs, stored;  // defined or stored inside
    size_t nesting = 0;              // serial loops open inside
    std::unordered_map<const loop::Node*, Val> hoisted;
    std::unordered_map<llvm::Value*, llvm::Value*> splats;
    std::unordered_set<const llvm::Value*> zero_if_off;  // loaded under the mask: 0 in other lanes
    std::unordered_map<const void*, llvm::Value*> pointers;  // by address of the index list
    std::unordered_map<const loop::Node*, bool> invariant;
    Fetches fetches;
    Builder* front = nullptr;  // where hoisted code goes
  };
  bool is_invariant(const loop::Expr& e);
  /// Runs `emit` in front of the vector loop, as scalar code.
  llvm::Value* hoist(const std::function<llvm::Value*()>& emit);

  /// Serial loops around what is emitted, outside of vector loops.
  struct OpenLoop {
    const loop::For* loop;
    llvm::Value* limit;  // limit_of(), may be null
  };
  std::vector<OpenLoop> open_loops_;

  const loop::Kernel& kernel_;
  const Target& target_;
  llvm::Module& module_;
  llvm::LLVMContext& context_;
  Builder b_;
  llvm::Function* function_ = nullptr;
  llvm::BasicBlock* range_error_ = nullptr;
  llvm::Value* status_ = nullptr;  // GPU: where a range error is reported
  bool apart_ = false;             // GPU: in a vector loop, where threads go their own ways
  BufferSet read_;                 // GPU: what the kernel reads
  llvm::Value* task_begin_ = nullptr;
  llvm::Value* task_end_ = nullptr;
  static constexpr uint64_t kWidestAccess = 64 * 8;  // bytes: 64 lanes of 8
  llvm::Value* dummy_ = nullptr;                     // so much stack that may be written in vain
  llvm::GlobalVariable* zeros_ = nullptr;            // so much that may be read instead
  std::vector<llvm::Value*> dims_, strides_, buffers_;
  std::vector<int64_t> distances_;  // of scratch from its pointer in buffers_, in elements
  std::vector<llvm::Value*> vars_;  // scalar value, or first lane
  std::vector<Val> regs_;
  std::vector<loop::Expr> lets_;                        // what each register is
  std::vector<std::optional<loop::KnownRange>> known_;  // of each, where it has been asked for
  std::vector<AccState> accs_;
  VectorLoop* vector_ = nullptr;
  llvm::Value* slot_ = nullptr;                  // the partial result that a scalar rest feeds
  static constexpr int64_t kMostSpilled = 4096;  // bytes of partial results of one loop
  llvm::AllocaInst* spilled_ = nullptr;          // where they wait: all loops share it
  int64_t spilled_bytes_ = 0;                    // of it, taken by the current loop
  int64_t most_spilled_ = 0;                     // the most that any loop takes
  /// A sum by matrix units that no function of the library makes.
  bool lone_matrix_sum_ = false;
  llvm::Value* room_ = nullptr;                       // scratch of dot_bf16x3 accumulators
  std::unordered_map<const loop::Node*, Val> cache_;  // of the current block, up to here
  std::unordered_map<const loop::Node*, BufferSet> reads_;
};

}  // namespace xc::codegen
