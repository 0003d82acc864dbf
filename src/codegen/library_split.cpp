#include "codegen/library_split.h"

#include <array>

namespace xc::codegen {

using llvm::Value;

void SplitSides::write_sides() {
  set(kPanelK, given_.panel_k);
  set(kBK, given_.b_k);
  set(kBJ, given_.b_j);
  set(kCount, given_.count);
  set(kOutJ, given_.out_j);
  set(kPanelLeft, number(0));
  set(kColumnsLeft, number(0));
  llvm::Type *const n = b_.getInt64Ty(), *const at = b_.getPtrTy();
  lay_out_panel_ = helper("panel", {n}, [&](const Values& a) { write_lay_out_panel(a[0], true); });
  lay_out_partial_panel_ =
      helper("partial_panel", {n}, [&](const Values& a) { write_lay_out_panel(a[0], false); });
  finish_panel_ = helper("finish_panel", {}, [&](const Values&) { write_finish_panel(); });
  mark_rows_ = helper("mark_rows", {n, n, at, at},
                      [&](const Values& a) { write_mark_rows(a[0], a[1], a[2], a[3]); });
  lay_out_columns_ = helper("columns", {n}, [&](const Values& a) { write_lay_out_columns(a[0]); });
  gather_columns_ = helper("gather", {n}, [&](const Values& a) { write_gather_columns(a[0]); });
}

llvm::Function* SplitSides::helper(const char* name, llvm::ArrayRef<llvm::Type*> arguments,
                                   const std::function<void(const Values&)>& body) {
  llvm::SmallVector<llvm::Type*, 10> types{b_.getPtrTy()};
  types.append(arguments.begin(), arguments.end());
  auto* const made = llvm::Function::Create(
      llvm::FunctionType::get(b_.getVoidTy(), types, false), llvm::Function::InternalLinkage,
      std::string("xc.product.bf16x3.") + name, function_->getParent());
  made->addFnAttrs(llvm::AttrBuilder(b_.getContext(), function_->getAttributes().getFnAttrs()));
  made->addFnAttr(llvm::Attribute::NoInline);
  const Builder::InsertPointGuard guard(b_);
  llvm::Function* const outer = std::exchange(function_, made);
  Value* const room = std::exchange(room_, made->getArg(0));
  const ProductArguments given = given_;
  b_.SetInsertPoint(llvm::BasicBlock::Create(b_.getContext(), "entry", made));
  given_.panel_k = get(kPanelK);
  given_.b_k = get(kBK);
  given_.b_j = get(kBJ);
  given_.count = get(kCount);
  given_.out_j = get(kOutJ);
  Values of_body;
  for (unsigned i = 1; i <= arguments.size(); ++i) of_body.push_back(made->getArg(i));
  body(of_body);
  b_.CreateRetVoid();
  function_ = outer;
  room_ = room;
  given_ = given;
  return made;
}
void SplitSides::call(llvm::Function* helper, const Values& arguments) {
  Values all{room_};
  all.insert(all.end(), arguments.begin(), arguments.end());
  b_.CreateCall(helper, all);
}

// Sixteen numbers as three of bf16, in the upper halves of 32 bits.
SplitSides::Split SplitSides::split(Value* x) {
  Split out{};
  Value* rest = x;
  for (int part = 0; part + 1 < kParts; ++part) {
    out.part[part] = b_.CreateAnd(b_.CreateAdd(as_bits(rest), splat(0x8000)), splat(0xffff0000));
    rest = b_.CreateFSub(rest, as_numbers(out.part[part]));
  }
  out.part[kParts - 1] = as_bits(rest);
  return out;
}

// The upper halves of both side by side. By an instruction of its own: LLVM makes a permutation
// of it, which takes three.
Value* SplitSides::paired(Value* low, Value* high) {
  constexpr int kSelect = 0xca;
  return b_.CreateIntrinsic(
      llvm::Intrinsic::x86_avx512_pternlog_d_512, {},
      {splat(0xffff0000), high, b_.CreateLShr(low, splat(16)), b_.getInt32(kSelect)});
}

// The three parts of two vectors in pairs, into tiles that are so far apart; the magnitudes of
// the largest part, <32 x i16>.
Value* SplitSides::store_pairs(Value* first, Value* second, Value* to, uint64_t apart) {
  const Split a = split(first), c = split(second);
  Value* largest = nullptr;
  for (int part = 0; part < kParts; ++part) {
    Value* const pair = paired(a.part[part], c.part[part]);
    b_.CreateAlignedStore(pair, byte_at(to, static_cast<uint64_t>(part) * apart), llvm::Align(64));
    if (part == 0) largest = as_halves(b_.CreateAnd(pair, splat(0x7fff7fff)));
  }
  return largest;
}

// ---- the panel --------------------------------------------------------------------------------
// Terms k and k + 16 of a step side by side, zeros behind the last. A unit of work is two pairs
// of each step.

void SplitSides::begin_panel(Value* vectors, Value* first, Value* panel, Value* terms, Value* to) {
  set(kPanelLeft, times(vectors, kUnits));
  set(kPanelFrom, panel);
  set(kPanelTo, to);
  set(kPanelTerms, terms);
  set(kPanelFirst, first);
}

void SplitSides::write_finish_panel() {
  Value* const whole = has_whole_steps(get(kPanelTerms));
  when(whole, [&] { call(lay_out_panel_, {get(kPanelLeft)}); });
  when(b_.CreateNot(whole), [&] { call(lay_out_partial_panel_, {get(kPanelLeft)}); });
}

// So many units, the last ones first. `whole`: the steps have all their terms.
void SplitSides::write_lay_out_panel(Value* units, bool whole) {
  Value *const from = get_address(kPanelFrom), *const to = get_address(kPanelTo);
  Value* const panel_k = given_.panel_k;
  Value* const terms = get(kPanelTerms);
  Value* const steps = parts(terms, kTerms);
  Value* const of_step = times(panel_k, kTerms);
  Value* const half = times(panel_k, kLanes);
  const Values done = loop(units, {get(kPanelLeft)}, [&](const Values& now) {
    Value* const unit = b_.CreateSub(now[0], number(1));
    Value* const vector = b_.CreateUDiv(unit, number(kUnits));
    Value* const pair = times(b_.CreateURem(unit, number(kUnits)), kPairs);
    Value* const row = on(on(from, times(vector, kLanes)), b_.CreateMul(pair, panel_k));
    Value* const tile = b_.CreateGEP(
        b_.getInt8Ty(), to, b_.CreateAdd(times(vector, kVectorBytes), times(pair, kRowBytes)));
    Value* const largest_at =
        b_.CreateGEP(b_.getInt8Ty(), in_room(kLargest),
                     times(b_.CreateAdd(get(kPanelFirst), vector), kRowBytes));
    Value* const largest = b_.CreateAlignedLoad(halves_, largest_at, llvm::Align(64));
    // Rows, where they go, the largest, terms left.
    const auto one_pair = [&](const Values& at) {
      const auto term = [&](Value* row_of_term, int behind) -> Value* {
        if (whole) return sixteen(row_of_term);
        Value* const there = b_.CreateICmpSGT(at[3], number(behind));
        return sixteen(row_of_term, b_.CreateSelect(there, number(kLanes), number(0)));
      };
      Value* const found =
          store_pairs(term(at[0], 0), term(on(at[0], half), kLanes), at[1], kTileBytes);
      return Values{on(at[0], panel_k), byte_at(at[1], kRowBytes), larger(at[2], found),
                    b_.CreateSub(at[3], number(1))};
    };
    const Values end =
        loop(steps, {row, tile, largest, b_.CreateSub(terms, pair)}, [&](const Values& step) {
          Values at = step;
          if (whole)
            for (int k = 0; k < kPairs; ++k) at = one_pair(at);
          else
            at = loop(number(kPairs), at, one_pair);
          return Values{on(step[0], of_step), byte_at(step[1], kStepBytes), at[2],
                        b_.CreateSub(step[3], number(kTerms))};
        });
    b_.CreateAlignedStore(end[2], largest_at, llvm::Align(64));
    return Values{unit};
  });
  set(kPanelLeft, done[0]);
}

void SplitSides::write_mark_rows(Value* vectors, Value* first, Value* panel, Value* laid_out) {
  loop(vectors,
       {panel, laid_out, b_.CreateGEP(b_.getInt8Ty(), in_room(kLargest), times(first, kRowBytes))},
       [&](const Values& vector) {
         Value* const largest = b_.CreateAlignedLoad(bits_, vector[2], llvm::Align(64));
         Value* const small = b_.CreateICmpULT(
             larger(b_.CreateLShr(largest, splat(16)), b_.CreateAnd(largest, splat(0xffff))),
             splat(kLeast));
         when(any(small), [&] {
           const Values all = loop(given_.count, {vector[0], splat(0)}, [&](const Values& now) {
             return Values{on(now[0], given_.panel_k),
                           b_.CreateOr(now[1], as_bits(sixteen(now[0])))};
           });
           Value* const bad = b_.CreateAnd(small, is_not_zero(all[1]));
           Value* const row = b_.CreateAlignedLoad(bits_, vector[1], llvm::Align(64));
           b_.CreateAlignedStore(b_.CreateSelect(bad, splat(kNaN), row), vector[1],
                                 llvm::Align(64));
         });
         return Values{on(vector[0], number(kLanes)), byte_at(vector[1], kVectorBytes),
                       byte_at(vector[2], kRowBytes)};
       });
}

// ---- columns ----------------------------------------------------------------------------------
// Terms of a column side by side, as the panel has them, zeros behind the last.

void SplitSides::begin_columns(Value* columns, Value* at, Value* terms, Value* to) {
  set(kColumnsLeft, columns);
  set(kColumnsFrom, at);
  set(kColumnsTo, to);
  set(kColumnsTerms, terms);
  set(kColumnsApart, given_.b_j);
  Value* const in_place =
      b_.CreateAnd(b_.CreateICmpEQ(given_.b_k, number(1)), has_whole_steps(terms));
  when(b_.CreateNot(in_place), [&] { call(gather_columns_, {columns}); });
}

// Brings them to where their terms lie side by side, zeros behind the last, to the end of a step:
// sixteen terms at a time while that goes by whole tiles, the rest one by one.
void SplitSides::write_gather_columns(Value* columns) {
  Value *const at = get_address(kColumnsFrom), *const terms = get(kColumnsTerms);
  Value* const fours =
      b_.CreateICmpEQ(b_.CreateURem(columns, number(kTransposeColumns)), number(0));
  Value* const across = b_.CreateAnd(b_.CreateICmpEQ(given_.b_j, number(1)), fours);
  Value* const turned = b_.CreateSelect(across, b_.CreateUDiv(terms, number(kLanes)), number(0));
  turn(columns, at, turned);
  Value* const done = times(turned, kLanes);
  gather(columns, on(at, b_.CreateMul(given_.b_k, done)), on(in_room(kTurned), done),
         b_.CreateSub(terms, done), b_.CreateSub(times(parts(terms, kTerms), 2), turned));
  set(kColumnsFrom, in_room(kTurned));
  set(kColumnsApart, number(kPieceTerms));
}

void SplitSides::write_lay_out_columns(Value* count) {
  constexpr uint64_t kPartBytes = 2 * kTileBytes;
  Value *const apart = get(kColumnsApart), *const steps = parts(get(kColumnsTerms), kTerms);
  const Values end =
      loop(count, {get_address(kColumnsFrom), get_address(kColumnsTo)}, [&](const Values& column) {
        loop(steps, column, [&](const Values& now) {
          Value *const low = sixteen(now[0]), *const high = sixteen(byte_at(now[0], kRowBytes));
          Value* const largest = store_pairs(low, high, now[1], kPartBytes);
          // NaN if the largest element is too small, but not 0.
          Value* const fine = any(b_.CreateICmpUGE(
              largest, llvm::ConstantInt::get(halves_, static_cast<uint16_t>(kLeast))));
          when(b_.CreateNot(fine), [&] {
            when(any(is_not_zero(b_.CreateOr(as_bits(low), as_bits(high)))),
                 [&] { b_.CreateAlignedStore(splat(kNaN), now[1], llvm::Align(64)); });
          });
          return Values{byte_at(now[0], 2 * kRowBytes), byte_at(now[1], 2 * kStepBytes)};
        });
        return Values{on(column[0], apart), byte_at(column[1], kRowBytes)};
      });
  set(kColumnsFrom, end[0]);
  set(kColumnsTo, end[1]);
  set(kColumnsLeft, b_.CreateSub(get(kColumnsLeft), count));
}

// So many times sixteen terms of fours of columns that lie one element behind the other.
void SplitSides::turn(Value* columns, Value* at, Value* sixteens) {
  loop(parts(columns, kTransposeColumns), {at, in_room(kTurned)}, [&](const Values& four) {
    loop(sixteens, four, [&](const Values& now) {
      std::array<Value*, kLanes> rows{};
      Value* from = now[0];
      for (Value*& row : rows) {
        row = from;
        from = on(from, given_.b_k);
      }
      uint64_t column = 0;
      for (Value* const turned : columns_of(b_, rows))
        b_.CreateAlignedStore(turned, byte_at(now[1], column++ * kPieceTerms * 4), llvm::Align(64));
      return Values{from, byte_at(now[1], kRowBytes)};
    });
    return Values{on(four[0], number(kTransposeColumns)),
                  byte_at(four[1], kTransposeColumns * kPieceTerms * 4)};
  });
}

// The same of columns that lie in any way; zeros behind their last terms.
void SplitSides::gather(Value* columns, Value* at, Value* to, Value* terms, Value* sixteens) {
  Value* const along = b_.CreateICmpEQ(given_.b_k, number(1));
  loop(columns, {at, to}, [&](const Values& column) {
    loop(sixteens, {column[0], column[1], terms}, [&](const Values& now) {
      const auto store = [&](Value* found) {
        b_.CreateAlignedStore(found, now[1], llvm::Align(64));
      };
      when(along, [&] { store(sixteen(now[0], now[2])); });
      when(b_.CreateNot(along), [&] { store(sixteen(now[0], now[2], given_.b_k)); });
      return Values{on(now[0], times(given_.b_k, kLanes)), byte_at(now[1], kRowBytes),
                    b_.CreateSub(now[2], number(kLanes))};
    });
    return Values{on(column[0], given_.b_j), byte_at(column[1], kPieceTerms * 4)};
  });
}

}  // namespace xc::codegen
