#pragma once
// FlexAttention written out: its two graph attributes become nodes of the graph around it, where
// they fuse like any others.

#include <functional>

#include "formats/onnx/draft.h"

namespace xc::onnx {

/// Adds the nodes of one of the two modifier graphs after a value; returns what it makes of it.
using ModifierFn = std::function<ValueId(ValueId)>;

/// Finishes the draft. Empty functions stand for modifiers that are not given.
void expand_flex_attention(Draft& d, const ModifierFn& score_mod, const ModifierFn& prob_mod);

}  // namespace xc::onnx
