// Products of f32 by the matrix units of x86 (AMX), each number as the sum of three of bf16: the
// sums of a dot_bf16x3 accumulator (loop/kernel.h).
//
// Four tiles of sums, of 32 columns by 32 rows, are fed by two tiles of b and two of the panel; a
// step is 32 terms, six products of each sum. Both sides have to be split into their parts and laid
// out for that. One of them is, as a whole, before anything is multiplied; the other one piece by
// piece beside the products of the piece in front of it, in the shadow of the units (points): b, of
// few terms and many columns, or the panel. Two things bound the rest: what is laid out is read and
// written through the first-level cache, so that pieces are small, and sums that pass through
// memory wait for the units, so that they are not smaller.
//
// What the units cannot sum up well is made NaN on its way to them, and what is not finite in the
// end is summed up anew.
#include <utility>

#include "codegen/library_split.h"

namespace xc::codegen {

using llvm::Value;

namespace {

constexpr int kPanelPiece = 64;  // terms of a piece of the panel, which is two vectors

class Bf16x3Product : SplitSides {
 public:
  using SplitSides::SplitSides;

  void write() {
    // All tiles are whole: to configure them takes as long as two steps.
    write_palette(kTiles);
    configure(Values(kTiles, b_.getInt8(kLanes)));
    write_sides();
    write_helpers();
    Value* const few_terms = b_.CreateICmpSLE(given_.count, number(kPieceTerms));
    loop(parts(given_.vectors, kVectors), {given_.vectors, given_.panel, given_.out},
         [&](const Values& now) {
           const Rows rows{least(now[0], kVectors), now[1], now[2]};
           loop(rows.vectors, {in_room(kLargest)}, [&](const Values& at) {
             b_.CreateAlignedStore(splat(0), at[0], llvm::Align(64));
             return Values{byte_at(at[0], kRowBytes)};
           });
           Value* const panel_first = b_.CreateAnd(
               few_terms, b_.CreateICmpSGE(given_.columns, times(rows.vectors, kLanes)));
           when(panel_first, [&] { lay_out_panel_first(rows); });
           when(b_.CreateNot(panel_first), [&] { lay_out_columns_first(rows); });
           Value* const behind = number(kVectors * kLanes);
           return Values{b_.CreateSub(now[0], number(kVectors)), on(now[1], behind),
                         on(now[2], behind)};
         });
    release();
  }

 private:
  // Tiles: sums [sixteen columns][vector of rows], then two of columns and two of the panel.
  static constexpr int kColumnTile = kSums, kPanelTile = kSums + 2, kTiles = kSums + 4;

  // Rows of the panel and of the sums.
  struct Rows {
    Value *vectors, *panel, *out;
  };
  // Sums of 32 columns or fewer. `step`: elements from one column to the next.
  struct Sums {
    Value *columns, *out, *step, *steps;
    Value *there, *last;  // are there sums already, and are these the last terms?
  };

  // What is called at several places.
  void write_helpers() {
    llvm::Type *const n = b_.getInt64Ty(), *const at = b_.getPtrTy(), *const is = b_.getInt1Ty();
    lay_out_some_ = helper("some", {}, [&](const Values&) { lay_out_some(); });
    multiply_ = helper("multiply", {n, at, n, n, is, is, n, at, at}, [&](const Values& a) {
      multiply({a[0], a[1], a[2], a[3], a[4], a[5]}, a[6], a[7], a[8]);
    });
    unpad_ =
        helper("unpad", {n, n, at, at}, [&](const Values& a) { unpad(a[0], a[1], a[2], a[3]); });
    sum_anew_ = helper("sum_anew", {n, n, at, at, at},
                       [&](const Values& a) { sum_anew(a[0], {a[1], a[2], a[4]}, a[3]); });
  }

  // ---- the two orders ---------------------------------------------------------------------------

  // Of kPieceTerms at most: the panel as a whole; columns a piece ahead.
  void lay_out_panel_first(const Rows& rows) {
    Value *const terms = given_.count, *const steps = parts(terms, kTerms);
    Value* const laid_out = in_room(kLaidOut);
    begin_panel(least(rows.vectors, 2), number(0), rows.panel, terms, laid_out);
    finish_panel();
    Value* const here = in_room(kLaidOut + kVectors * kVectorBytes);
    begin_columns(least(given_.columns, kColumns), given_.b, terms, here);
    finish_columns();
    // Columns left, b's, those of the sums, where they are laid out, where the next ones are,
    // whether the panel is laid out.
    loop(parts(given_.columns, kColumns),
         {given_.columns, given_.b, rows.out, here, byte_at(here, kColumnsBytes), b_.getFalse()},
         [&](const Values& now) {
           Value* const columns = least(now[0], kColumns);
           const Padding padding = padding_of(columns, now[2], number(0));
           const Sums sums{columns, padding.out, padding.step, steps, b_.getFalse(), b_.getTrue()};
           Value* const left = b_.CreateSub(now[0], number(kColumns));
           Value* const next = on(now[1], times(given_.b_j, kColumns));
           begin_columns(least(most(left, 0), kColumns), next, terms, now[4]);
           pace(kColumnsLeft, kColumnsAtOnce, b_.CreateMul(rows.vectors, steps), kPoints / 2);
           nothing_is_bad();
           when(now[5], [&] { call_multiply(sums, rows.vectors, laid_out, now[3]); });
           when(b_.CreateNot(now[5]), [&] { multiply_first(rows, sums, laid_out, now[3]); });
           when(padding.is_there,
                [&] { call(unpad_, {columns, rows.vectors, padding.out, now[2]}); });
           finish_columns();
           finish_sums(sums.columns, {rows.vectors, rows.panel, now[2]}, now[1]);
           return Values{left,   next,   on(now[2], times(given_.out_j, kColumns)),
                         now[4], now[3], b_.getTrue()};
         });
  }

  // Two vectors, which are laid out, while the next ones are.
  void multiply_first(const Rows& rows, const Sums& sums, Value* panel, Value* columns) {
    loop(parts(rows.vectors, 2), {number(0), rows.panel, sums.out, panel}, [&](const Values& now) {
      Value* const left = b_.CreateSub(rows.vectors, now[0]);
      Value* const vectors = least(left, 2);
      mark_rows(vectors, now[0], now[1], now[3]);
      Value* const then = b_.CreateAdd(now[0], number(2));
      Value* const next = on(now[1], number(2 * kLanes));
      Value* const next_laid_out = byte_at(now[3], 2 * kVectorBytes);
      begin_panel(least(most(b_.CreateSub(left, number(2)), 0), 2), then, next, given_.count,
                  next_laid_out);
      pace_panel(sums.steps);
      call_multiply({sums.columns, now[2], sums.step, sums.steps, sums.there, sums.last}, vectors,
                    now[3], columns);
      finish_panel();
      return Values{then, next, on(now[2], number(2 * kLanes)), next_laid_out};
    });
  }

  // A block of columns, so many terms of it at a time; the panel a piece ahead.
  void lay_out_columns_first(const Rows& rows) {
    Value* const pairs = parts(least(given_.columns, kManyColumns), kColumns);
    // Whole pieces.
    Value* const many_terms =
        times(b_.CreateUDiv(number(kManyTerms / kPieceTerms), most(pairs, 1)), kPieceTerms);
    Value* held = b_.getTrue();
    const std::pair<Slot, Value*> key[] = {{kHeld, b_.CreatePtrToInt(given_.b, b_.getInt64Ty())},
                                           {kHeldColumns, given_.columns},
                                           {kHeldCount, given_.count},
                                           {kHeldK, given_.b_k},
                                           {kHeldJ, given_.b_j}};
    for (const auto& [slot, is] : key) held = b_.CreateAnd(held, b_.CreateICmpEQ(get(slot), is));
    loop(parts(given_.columns, kManyColumns), {given_.columns, given_.b, rows.out},
         [&](const Values& now) {
           Value* const columns = least(now[0], kManyColumns);
           nothing_is_bad();
           // b's and the panel's first terms, terms left, whether sums are there already.
           loop(most(rounded_up(given_.count, many_terms), 1),
                {now[1], rows.panel, given_.count, b_.getFalse()}, [&](const Values& at) {
                  Value* const terms = least(at[2], many_terms);
                  when(b_.CreateNot(held),
                       [&] { lay_out_many(columns, at[0], terms, many_terms); });
                  multiply_many({rows.vectors, at[1], now[2]}, columns, at[2], at[3], rows.panel,
                                many_terms);
                  return Values{on(at[0], b_.CreateMul(given_.b_k, many_terms)),
                                on(at[1], b_.CreateMul(given_.panel_k, many_terms)),
                                b_.CreateSub(at[2], many_terms), b_.getTrue()};
                });
           finish_sums(columns, {rows.vectors, rows.panel, now[2]}, now[1]);
           return Values{b_.CreateSub(now[0], number(kManyColumns)),
                         on(now[1], times(given_.b_j, kManyColumns)),
                         on(now[2], times(given_.out_j, kManyColumns))};
         });
    for (const auto& [slot, is] : key) set(slot, is);
    Value* const all = b_.CreateAnd(b_.CreateICmpSLE(given_.columns, number(kManyColumns)),
                                    b_.CreateICmpSLE(given_.count, many_terms));
    when(b_.CreateNot(all), [&] { set(kHeld, number(0)); });
  }

  // Bytes from 32 of many columns to the next.
  Value* apart(Value* many_terms) { return times(many_terms, 2 * kStepBytes / kTerms); }

  void lay_out_many(Value* columns, Value* b, Value* terms, Value* many_terms) {
    loop(parts(columns, kColumns), {columns, b, in_room(kMany)}, [&](const Values& now) {
      loop(parts(terms, kPieceTerms), {now[1], now[2], terms}, [&](const Values& at) {
        begin_columns(least(now[0], kColumns), at[0], least(at[2], kPieceTerms), at[1]);
        finish_columns();
        return Values{on(at[0], times(given_.b_k, kPieceTerms)), byte_at(at[1], kColumnsBytes),
                      b_.CreateSub(at[2], number(kPieceTerms))};
      });
      return Values{b_.CreateSub(now[0], number(kColumns)), on(now[1], times(given_.b_j, kColumns)),
                    b_.CreateGEP(b_.getInt8Ty(), now[2], apart(many_terms))};
    });
  }

  // Columns that are laid out, by their terms of all rows. `left`: terms from here on; `panel`: the
  // rows from their first term on.
  void multiply_many(const Rows& rows, Value* columns, Value* left, Value* there, Value* panel,
                     Value* many_terms) {
    Value* const terms = least(left, many_terms);
    Value* const pieces = most(parts(terms, kPanelPiece), 1);
    Value* const here = in_room(kLaidOut);
    Value* const of_piece = times(given_.panel_k, kPanelPiece);
    begin_panel(least(rows.vectors, 2), number(0), rows.panel, least(terms, kPanelPiece), here);
    finish_panel();
    // Vectors left, those done, the panel's and the sums' rows, where they are laid out, where the
    // next ones are.
    loop(parts(rows.vectors, 2),
         {rows.vectors, number(0), rows.panel, rows.out, here, byte_at(here, 2 * kVectorBytes)},
         [&](const Values& now) {
           Value* const vectors = least(now[0], 2);
           Value* const vectors_left = b_.CreateSub(now[0], number(2));
           Value* const next_rows = on(now[2], number(2 * kLanes));
           const Values end = loop(
               pieces, {now[2], terms, left, there, in_room(kMany), now[4], now[5]},
               [&](const Values& at) {
                 Value* const steps = parts(least(at[1], kPanelPiece), kTerms);
                 Value* const last = b_.CreateICmpSLE(at[2], number(kPanelPiece));
                 when(last,
                      [&] { mark_rows(vectors, now[1], on(panel, times(now[1], kLanes)), at[5]); });
                 Value* const terms_left = b_.CreateSub(at[1], number(kPanelPiece));
                 Value* const in_rows = b_.CreateICmpSGT(terms_left, number(0));
                 Value* const next = on(at[0], of_piece);
                 begin_panel(b_.CreateSelect(in_rows, vectors, least(most(vectors_left, 0), 2)),
                             b_.CreateSelect(in_rows, now[1], b_.CreateAdd(now[1], number(2))),
                             b_.CreateSelect(in_rows, next, next_rows),
                             least(b_.CreateSelect(in_rows, terms_left, terms), kPanelPiece),
                             at[6]);
                 pace_panel(b_.CreateMul(parts(columns, kColumns), steps));
                 loop(parts(columns, kColumns), {columns, now[3], at[4]}, [&](const Values& pair) {
                   Value* const few = least(pair[0], kColumns);
                   const Padding padding = padding_of(few, pair[1], now[1]);
                   call_multiply({few, padding.out, padding.step, steps, at[3], last}, vectors,
                                 at[5], pair[2]);
                   when(b_.CreateAnd(padding.is_there, last),
                        [&] { call(unpad_, {few, vectors, padding.out, pair[1]}); });
                   return Values{b_.CreateSub(pair[0], number(kColumns)),
                                 on(pair[1], times(given_.out_j, kColumns)),
                                 b_.CreateGEP(b_.getInt8Ty(), pair[2], apart(many_terms))};
                 });
                 finish_panel();
                 return Values{next,
                               terms_left,
                               b_.CreateSub(at[2], number(kPanelPiece)),
                               b_.getTrue(),
                               byte_at(at[4], kPanelPiece / kTerms * 2 * kStepBytes),
                               at[6],
                               at[5]};
               });
           return Values{vectors_left, b_.CreateAdd(now[1], number(2)),
                         next_rows,    on(now[3], number(2 * kLanes)),
                         end[5],       end[6]};
         });
  }

  // ---- sums -------------------------------------------------------------------------------------

  static constexpr int kPoints = 4;  // in a step of four tiles, at which something is laid out

  // Spreads the work that is left over `steps` of so many points each.
  void pace(Slot left, Slot at_once, Value* steps, int points) {
    set(at_once, rounded_up(get(left), most(times(steps, points), 1)));
  }
  void pace_panel(Value* steps) {
    pace(kPanelLeft, kPanelAtOnce, steps, kPoints);
    // What takes longer is left to finish_panel().
    when(b_.CreateNot(has_whole_steps(get(kPanelTerms))), [&] { set(kPanelAtOnce, number(0)); });
  }
  // At a point, whichever side has something left.
  void lay_out_some() {
    Value* const columns = least(get(kColumnsAtOnce), get(kColumnsLeft));
    when(b_.CreateICmpNE(columns, number(0)), [&] { lay_out_columns(columns); });
    Value* const units = least(get(kPanelAtOnce), get(kPanelLeft));
    when(b_.CreateICmpNE(units, number(0)), [&] { lay_out_panel(units); });
  }

  void call_multiply(const Sums& sums, Value* vectors, Value* panel, Value* columns) {
    call(multiply_, {sums.columns, sums.out, sums.step, sums.steps, sums.there, sums.last, vectors,
                     panel, columns});
  }

  // Both sides are laid out.
  void multiply(const Sums& sums, Value* vectors, Value* panel, Value* columns) {
    Values at{sums.out, panel};
    for (unsigned rows = 2; rows > 0; rows /= 2)
      tiles(b_, *function_, rows, vectors, at, {number(kLanes), number(kVectorBytes / 4)},
            [&](const Values& now) { write_sums(sums, rows, now[0], now[1], columns); });
  }

  // Where the sums of columns go that do not fill their tiles: to the room, and from there to
  // `out`. `first`: the number of the first vector.
  struct Padding {
    Value *is_there, *out, *step;
  };
  Padding padding_of(Value* columns, Value* out, Value* first) {
    Value* const is_there = b_.CreateICmpNE(columns, number(kColumns));
    Value* const padded = on(in_room(kPadded), times(first, kLanes));
    return {is_there, b_.CreateSelect(is_there, padded, out),
            b_.CreateSelect(is_there, number(kVectors * kLanes), given_.out_j)};
  }
  void unpad(Value* columns, Value* vectors, Value* padded, Value* out) {
    loop(columns, {padded, out}, [&](const Values& column) {
      loop(vectors, column, [&](const Values& now) {
        b_.CreateAlignedStore(sixteen(now[0]), now[1], llvm::Align(4));
        return Values{on(now[0], number(kLanes)), on(now[1], number(kLanes))};
      });
      return Values{on(column[0], number(kVectors * kLanes)), on(column[1], given_.out_j)};
    });
  }

  void write_sums(const Sums& sums, unsigned rows, Value* out, Value* panel, Value* columns) {
    Value* const step = times(sums.step, 4);
    const auto each = [&](const std::function<void(unsigned column, unsigned row)>& one) {
      for (unsigned c = 0; c < 2; ++c)
        for (unsigned r = 0; r < rows; ++r) one(c, r);
    };
    const auto sum = [](unsigned c, unsigned r) { return static_cast<int>(2 * c + r); };
    const auto at = [&](unsigned c, unsigned r) {
      return byte_at(on(out, times(sums.step, int64_t{c} * kLanes)), uint64_t{r} * kRowBytes);
    };
    when(sums.there,
         [&] { each([&](unsigned c, unsigned r) { load_tile(sum(c, r), at(c, r), step); }); });
    when(b_.CreateNot(sums.there), [&] {
      each([&](unsigned c, unsigned r) { tile(llvm::Intrinsic::x86_tilezero, sum(c, r)); });
    });
    loop(sums.steps, {columns, panel}, [&](const Values& now) {
      const auto load_column = [&](unsigned c, uint64_t part) {
        load_tile(kColumnTile + static_cast<int>(c), byte_at(now[0], (2 * part + c) * kTileBytes),
                  number(kRowBytes));
      };
      const auto load_row = [&](unsigned r, uint64_t part) {
        if (r < rows)
          load_tile(kPanelTile + static_cast<int>(r),
                    byte_at(now[1], part * kTileBytes + r * kVectorBytes), number(kRowBytes));
      };
      const auto product = [&](unsigned c, unsigned r) {
        if (r < rows)
          multiply_tiles(sum(c, r), kColumnTile + static_cast<int>(c),
                         kPanelTile + static_cast<int>(r));
      };
      // What the next four products need is loaded behind the last two that need what was there.
      const auto then_rows = [&](uint64_t part) {
        for (unsigned r = 0; r < 2; ++r) {
          product(0, r);
          product(1, r);
          load_row(r, part);
        }
      };
      const auto then_columns = [&](uint64_t part) {
        for (unsigned c = 0; c < 2; ++c) {
          product(c, 0);
          product(c, 1);
          load_column(c, part);
        }
      };
      const auto point = [&] {
        if (rows == 2) call(lay_out_some_, {});
      };
      load_column(0, 0);
      load_row(0, 2);
      load_column(1, 0);
      load_row(1, 2);
      then_rows(1);
      point();
      then_columns(1);
      point();
      then_rows(0);
      then_columns(2);
      point();
      then_columns(0);
      each(product);
      point();
      return Values{byte_at(now[0], 2 * kStepBytes), byte_at(now[1], kStepBytes)};
    });
    each([&](unsigned c, unsigned r) { store_tile(sum(c, r), at(c, r), step); });
    when(sums.last, [&] { look_for_bad(sums, rows, out); });
  }

  // ---- what is not finite -----------------------------------------------------------------------

  void nothing_is_bad() { b_.CreateAlignedStore(zeros(), in_room(kBad), llvm::Align(64)); }

  // NaN where a sum is not finite.
  void look_for_bad(const Sums& sums, unsigned rows, Value* out) {
    Values start{out};
    for (unsigned r = 0; r < rows; ++r) start.push_back(zeros());
    const Values seen = loop(sums.columns, start, [&](const Values& now) {
      Values next{on(now[0], sums.step)};
      for (unsigned r = 0; r < rows; ++r)
        next.push_back(b_.CreateIntrinsic(
            llvm::Intrinsic::fma, {vector_},
            {sixteen(byte_at(now[0], uint64_t{r} * kRowBytes)), zeros(), now[r + 1]}));
      return next;
    });
    Value* bad = b_.CreateAlignedLoad(vector_, in_room(kBad), llvm::Align(64));
    for (unsigned r = 0; r < rows; ++r) bad = b_.CreateFAdd(bad, seen[r + 1]);
    b_.CreateAlignedStore(bad, in_room(kBad), llvm::Align(64));
  }

  void finish_sums(Value* columns, const Rows& rows, Value* b) {
    call(sum_anew_, {columns, rows.vectors, rows.panel, b, rows.out});
  }

  // Sums that are not finite, if there are such, of all terms, one after the other.
  void sum_anew(Value* columns, const Rows& rows, Value* b) {
    Value* const seen = b_.CreateAlignedLoad(vector_, in_room(kBad), llvm::Align(64));
    loop(b_.CreateSelect(any(b_.CreateFCmpUNO(seen, zeros())), columns, number(0)), {b, rows.out},
         [&](const Values& column) {
           loop(rows.vectors, {rows.panel, column[1]}, [&](const Values& vector) {
             Value* const sums = sixteen(vector[1]);
             Value* const bad = b_.CreateFCmpUNO(b_.CreateFMul(sums, zeros()), zeros());
             when(any(bad), [&] {
               const Values exact =
                   loop(given_.count, {vector[0], column[0], zeros()}, [&](const Values& now) {
                     Value* const factor = b_.CreateVectorSplat(
                         kLanes, b_.CreateAlignedLoad(element_, now[1], llvm::Align(4)));
                     return Values{on(now[0], given_.panel_k), on(now[1], given_.b_k),
                                   b_.CreateIntrinsic(llvm::Intrinsic::fma, {vector_},
                                                      {sixteen(now[0]), factor, now[2]})};
                   });
               b_.CreateAlignedStore(b_.CreateSelect(bad, exact[2], sums), vector[1],
                                     llvm::Align(4));
             });
             return Values{on(vector[0], number(kLanes)), on(vector[1], number(kLanes))};
           });
           return Values{on(column[0], given_.b_j), on(column[1], given_.out_j)};
         });
  }

  llvm::Function *lay_out_some_ = nullptr, *multiply_ = nullptr, *unpad_ = nullptr,
                 *sum_anew_ = nullptr;
};

}  // namespace

void write_product_bf16x3(Builder& b, llvm::Function& function) {
  Bf16x3Product(b, function).write();
}

}  // namespace xc::codegen
