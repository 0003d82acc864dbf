// Products of bf16 by the matrix units of x86 (AMX), from and to f32: the sums of a dot_bf16
// accumulator (loop/kernel.h). Terms go by chunks. The panel's rows of a chunk are rounded and laid
// out in pairs of terms, once for all columns; then b's terms of sixteen columns at a time, one
// column after the other. Four tiles of sums, of sixteen columns by sixteen rows, are fed by one tile
// of b and four of the panel: eight cycles to load each, sixteen to multiply.
#include <llvm/IR/IntrinsicsX86.h>

#include <array>
#include <cstdint>
#include <numeric>

#include "codegen/library_write.h"
#include "loop/kernel.h"

namespace xc::codegen {

using llvm::Value;

namespace {

constexpr int kLanes = 16;  // of a register, and rows of a tile
constexpr int kTerms = loop::kDotBf16Terms;  // of a tile
constexpr int kChunk = 128;                  // terms
constexpr int kVectors = 4;                  // of rows, at most
constexpr int kTileBytes = 1024, kRowBytes = 64;
constexpr int kPanelBytes = kChunk / kTerms * kTileBytes;  // of a vector of rows
// Tiles: sums from 0 on, then these.
constexpr int kColumnTile = kVectors, kPanelTile = kVectors + 1;

class Bf16Product {
 public:
  Bf16Product(Builder& b, llvm::Function& function, bool adds)
      : b_(b),
        function_(function),
        given_(function),
        adds_(adds),
        element_(b.getFloatTy()),
        vector_(llvm::FixedVectorType::get(element_, kLanes)) {
    function.addFnAttr("target-features", "+amx-tile,+amx-bf16,+avx512bf16");
    config_ = memory(64);
    panel_ = memory(kVectors * kPanelBytes);
    columns_ = memory(kPanelBytes);
  }

  void write() {
    // The palette, and the bytes of a row of each tile (Intel's manual, LDTILECFG).
    b_.CreateMemSet(config_, b_.getInt8(0), 64, llvm::Align(64));
    b_.CreateStore(b_.getInt8(1), config_);
    for (uint64_t tile = 0; tile <= kPanelTile + 1; ++tile)
      b_.CreateStore(b_.getInt16(kRowBytes), byte_at(config_, 16 + 2 * tile));
    Value* rows = given_.vectors;
    std::vector<Value*> from{given_.panel, given_.out};
    const std::vector<Value*> step(2, number(kLanes));
    for (const unsigned vectors : {4U, 2U, 1U})
      tiles(b_, function_, vectors, rows, from, step, [&](const std::vector<Value*>& at) {
        write_rows(vectors, at[0], at[1]);
      });
    b_.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}, {});
  }

 private:
  Value* number(int64_t n) { return b_.getInt64(static_cast<uint64_t>(n)); }
  Value* memory(uint64_t bytes) {
    auto* out = b_.CreateAlloca(llvm::ArrayType::get(b_.getInt8Ty(), bytes));
    out->setAlignment(llvm::Align(64));
    return out;
  }
  Value* byte_at(Value* base, uint64_t bytes) {
    return b_.CreateConstGEP1_64(b_.getInt8Ty(), base, bytes);
  }
  Value* on(Value* base, Value* elements) { return b_.CreateGEP(element_, base, elements); }
  Value* times(Value* n, int64_t by) { return b_.CreateMul(n, number(by)); }
  std::vector<Value*> loop(
      Value* count, const std::vector<Value*>& start,
      const std::function<std::vector<Value*>(const std::vector<Value*>&)>& body) {
    return countdown(b_, function_, count, start, body);
  }
  void when(Value* condition, const std::function<void()>& then) {
    loop(b_.CreateZExt(condition, b_.getInt64Ty()), {}, [&](const std::vector<Value*>&) {
      then();
      return std::vector<Value*>{};
    });
  }

  // The lanes below a number.
  Value* lanes_below(Value* limit) {
    llvm::SmallVector<llvm::Constant*, kLanes> numbers;
    for (int l = 0; l < kLanes; ++l) numbers.push_back(b_.getInt64(static_cast<uint64_t>(l)));
    return b_.CreateICmpSLT(llvm::ConstantVector::get(numbers),
                            b_.CreateVectorSplat(kLanes, limit));
  }
  Value* zeros() { return llvm::ConstantFP::get(vector_, 0.0); }

  // Two vectors rounded, one behind the other: <32 x i16>.
  Value* rounded(Value* low, Value* high) {
    Value* const both =
        b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtne2ps2bf16_512, {}, {high, low});
    return b_.CreateBitCast(both, llvm::FixedVectorType::get(b_.getInt16Ty(), 2 * kLanes));
  }
  // In turn.
  Value* rounded_pairs(Value* even, Value* odd) {
    llvm::SmallVector<int, 2 * kLanes> mask;
    for (int l = 0; l < kLanes; ++l) mask.insert(mask.end(), {l, l + kLanes});
    return b_.CreateShuffleVector(rounded(even, odd), mask);
  }

  // Sums of so many vectors of rows, over all columns.
  void write_rows(unsigned vectors, Value* panel, Value* out) {
    Value* const chunks = b_.CreateBinaryIntrinsic(
        llvm::Intrinsic::smax, number(1),
        b_.CreateSDiv(b_.CreateAdd(given_.count, number(kChunk - 1)), number(kChunk)));
    // The panel's and b's rows of a chunk, terms left, whether sums are there already.
    loop(chunks, {panel, given_.b, given_.count, b_.getInt1(adds_)},
         [&](const std::vector<Value*>& now) -> std::vector<Value*> {
           Value* const terms =
               b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, now[2], number(kChunk));
           Value* const steps =
               b_.CreateSDiv(b_.CreateAdd(terms, number(kTerms - 1)), number(kTerms));
           lay_out_panel(vectors, now[0], terms, steps);
           const auto columns = [&](Value* rows, Value* at, Value* sums) {
             lay_out_columns(rows, at, terms, steps);
             multiply(vectors, sums, steps, now[3]);
           };
           configure(number(kLanes));
           const std::vector<Value*> behind =
               loop(b_.CreateSDiv(given_.columns, number(kLanes)), {now[1], out},
                    [&](const std::vector<Value*>& at) -> std::vector<Value*> {
                      columns(number(kLanes), at[0], at[1]);
                      return {on(at[0], times(given_.b_j, kLanes)),
                              on(at[1], times(given_.out_j, kLanes))};
                    });
           Value* const left = b_.CreateSRem(given_.columns, number(kLanes));
           when(b_.CreateICmpSGT(left, number(0)), [&] {
             configure(left);
             columns(left, behind[0], behind[1]);
           });
           return {on(now[0], times(given_.panel_k, kChunk)), on(now[1], times(given_.b_k, kChunk)),
                   b_.CreateSub(now[2], number(kChunk)), b_.getInt1(true)};
         });
  }

  // Tiles of sums and of columns have so many rows, those of the panel one per pair of terms.
  void configure(Value* rows) {
    Value* const few = b_.CreateTrunc(rows, b_.getInt8Ty());
    for (uint64_t tile = 0; tile <= kPanelTile + 1; ++tile)
      b_.CreateStore(tile < kPanelTile ? few : b_.getInt8(kTerms / 2), byte_at(config_, 48 + tile));
    b_.CreateIntrinsic(llvm::Intrinsic::x86_ldtilecfg, {}, {config_});
  }

  // Pairs of terms side by side, zeros behind the last.
  void lay_out_panel(unsigned vectors, Value* panel, Value* terms, Value* steps) {
    const auto store = [&](Value* to, const std::function<Value*(unsigned)>& pairs) {
      for (unsigned v = 0; v < vectors; ++v)
        b_.CreateAlignedStore(pairs(v), byte_at(to, uint64_t{v} * kPanelBytes), llvm::Align(64));
      return byte_at(to, kRowBytes);
    };
    const auto row = [&](Value* at, unsigned v) -> Value* {
      return b_.CreateAlignedLoad(vector_, b_.CreateConstGEP1_64(element_, at, uint64_t{v} * kLanes),
                                  llvm::Align(4));
    };
    using Values = std::vector<Value*>;
    Values at = loop(b_.CreateSDiv(terms, number(2)), {panel, panel_}, [&](const Values& now) {
      Value* const odd = on(now[0], given_.panel_k);
      Value* const next = store(
          now[1], [&](unsigned v) { return rounded_pairs(row(now[0], v), row(odd, v)); });
      return Values{on(odd, given_.panel_k), next};
    });
    at = loop(b_.CreateSRem(terms, number(2)), at, [&](const Values& now) {
      return Values{now[0], store(now[1], [&](unsigned v) {
                      return rounded_pairs(row(now[0], v), zeros());
                    })};
    });
    Value* const pairs = b_.CreateSDiv(b_.CreateAdd(terms, number(1)), number(2));
    loop(b_.CreateSub(times(steps, kTerms / 2), pairs), {at[1]}, [&](const Values& now) {
      return Values{store(now[0], [&](unsigned) { return zeros(); })};
    });
  }

  // Terms of a column side by side, zeros behind the last.
  void lay_out_columns(Value* rows, Value* at, Value* terms, Value* steps) {
    Value* const along = b_.CreateICmpEQ(given_.b_k, number(1));
    Value* const across = b_.CreateAnd(b_.CreateICmpEQ(given_.b_j, number(1)), b_.CreateNot(along));
    when(along, [&] { column_by_column(rows, at, terms, steps, true); });
    when(across, [&] { pair_by_pair(rows, at, terms, steps); });
    when(b_.CreateNot(b_.CreateOr(along, across)),
         [&] { column_by_column(rows, at, terms, steps, false); });
  }

  void column_by_column(Value* rows, Value* at, Value* terms, Value* steps, bool dense) {
    const auto sixteen = [&](Value* from, Value* left) -> Value* {
      Value* const mask = lanes_below(left);
      if (dense) return b_.CreateMaskedLoad(vector_, from, llvm::Align(4), mask, zeros());
      llvm::SmallVector<llvm::Constant*, kLanes> numbers;
      for (int l = 0; l < kLanes; ++l) numbers.push_back(b_.getInt64(static_cast<uint64_t>(l)));
      Value* const places = b_.CreateMul(llvm::ConstantVector::get(numbers),
                                         b_.CreateVectorSplat(kLanes, given_.b_k));
      return b_.CreateMaskedGather(vector_, b_.CreateGEP(element_, from, places), llvm::Align(4),
                                   mask, zeros());
    };
    using Values = std::vector<Value*>;
    loop(rows, {at, columns_}, [&](const Values& column) {
      loop(steps, {column[0], column[1], terms}, [&](const Values& now) {
        Value* const low = sixteen(now[0], now[2]);
        Value* const high = sixteen(on(now[0], times(given_.b_k, kLanes)),
                                    b_.CreateSub(now[2], number(kLanes)));
        b_.CreateAlignedStore(rounded(low, high), now[1], llvm::Align(64));
        return Values{on(now[0], times(given_.b_k, kTerms)), byte_at(now[1], kTileBytes),
                      b_.CreateSub(now[2], number(kTerms))};
      });
      return Values{on(column[0], given_.b_j), byte_at(column[1], kRowBytes)};
    });
  }

  void pair_by_pair(Value* rows, Value* at, Value* terms, Value* steps) {
    auto* const words = llvm::FixedVectorType::get(b_.getInt32Ty(), kLanes);
    Value* const below = lanes_below(rows);
    using Values = std::vector<Value*>;
    loop(steps, {at, columns_, terms}, [&](const Values& now) {
      std::array<Value*, kLanes> pairs;
      Value* from = now[0];
      int64_t term = 0;
      const auto next = [&] {
        Value* const there = b_.CreateICmpSGT(now[2], number(term++));
        Value* const mask = b_.CreateAnd(below, b_.CreateVectorSplat(kLanes, there));
        Value* const out = b_.CreateMaskedLoad(vector_, from, llvm::Align(4), mask, zeros());
        from = on(from, given_.b_k);
        return out;
      };
      for (Value*& pair : pairs) {
        Value* const even = next();
        pair = b_.CreateBitCast(rounded_pairs(even, next()), words);
      }
      transpose(pairs);
      for (uint64_t column = 0; column < kLanes; ++column)
        b_.CreateAlignedStore(pairs[column], byte_at(now[1], column * kRowBytes), llvm::Align(64));
      return Values{from, byte_at(now[1], kTileBytes), b_.CreateSub(now[2], number(kTerms))};
    });
  }

  // Squares of half the size change places, within each of four, and so on.
  void transpose(std::array<Value*, kLanes>& rows) {
    for (int half = kLanes / 2; half > 0; half /= 2)
      for (int row = 0; row < kLanes; ++row) {
        if ((row & half) != 0) continue;
        llvm::SmallVector<int, kLanes> upper, lower;
        for (int l = 0; l < kLanes; ++l) {
          const bool right = (l & half) != 0;
          upper.push_back(right ? kLanes + l - half : l);
          lower.push_back(right ? kLanes + l : l + half);
        }
        Value*& a = rows[static_cast<size_t>(row)];
        Value*& c = rows[static_cast<size_t>(row + half)];
        Value* const first = b_.CreateShuffleVector(a, c, upper);
        c = b_.CreateShuffleVector(a, c, lower);
        a = first;
      }
  }

  void tile(llvm::Intrinsic::ID id, int number, llvm::ArrayRef<Value*> more = {}) {
    llvm::SmallVector<Value*, 3> arguments{b_.getInt8(static_cast<uint8_t>(number))};
    arguments.append(more.begin(), more.end());
    b_.CreateIntrinsic(id, {}, arguments);
  }

  void multiply(unsigned vectors, Value* out, Value* steps, Value* there) {
    Value* const step = times(given_.out_j, 4);
    const auto each = [&](const std::function<void(int, Value*)>& sums) {
      for (unsigned v = 0; v < vectors; ++v)
        sums(static_cast<int>(v), byte_at(out, uint64_t{v} * kRowBytes));
    };
    when(there, [&] {
      each([&](int v, Value* at) { tile(llvm::Intrinsic::x86_tileloadd64, v, {at, step}); });
    });
    when(b_.CreateNot(there),
         [&] { each([&](int v, Value*) { tile(llvm::Intrinsic::x86_tilezero, v); }); });
    loop(steps, {columns_, panel_}, [&](const std::vector<Value*>& now) -> std::vector<Value*> {
      tile(llvm::Intrinsic::x86_tileloadd64, kColumnTile, {now[0], number(kRowBytes)});
      each([&](int v, Value*) {
        const int from = kPanelTile + v % 2;
        tile(llvm::Intrinsic::x86_tileloadd64, from,
             {byte_at(now[1], static_cast<uint64_t>(v) * kPanelBytes), number(kRowBytes)});
        tile(llvm::Intrinsic::x86_tdpbf16ps, v,
             {b_.getInt8(kColumnTile), b_.getInt8(static_cast<uint8_t>(from))});
      });
      return {byte_at(now[0], kTileBytes), byte_at(now[1], kTileBytes)};
    });
    each([&](int v, Value* at) { tile(llvm::Intrinsic::x86_tilestored64, v, {at, step}); });
  }

  Builder& b_;
  llvm::Function& function_;
  ProductArguments given_;
  bool adds_;
  llvm::Type* element_;
  llvm::FixedVectorType* vector_;
  Value *config_, *panel_, *columns_;
};

}  // namespace

void write_product_bf16(Builder& b, llvm::Function& function, bool adds) {
  Bf16Product(b, function, adds).write();
}

}  // namespace xc::codegen
