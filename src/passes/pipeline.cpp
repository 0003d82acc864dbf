#include "passes/pipeline.h"

#include "base/error.h"
#include "passes/passes.h"

namespace xc {

const Pipeline& portable_pipeline() {
  static const Pipeline kPipeline = {
      {{
          {"infer-types", "everything below reads types; errors of the model surface here",
           infer_all_types, true},
          {"inline-branches", "no pass looks into a branch that is never taken, nor may have types",
           inline_branches},
          {"remove-dead", "no time is spent on what no output needs", remove_dead},
      }},
      // Each of these makes work for the others: a folded constant decides a branch, a branch
      // brings nodes to merge, a merged node makes a rule match.
      {{
           {"sink-constants", "bodies see constants as such before they are folded",
            sink_constants},
           {"canonicalise", "one form of each thing, so that what follows needs to know only it",
            canonicalise},
           {"keep-reduced-axes", "rules know norms with their axes; after single forms of Reshape",
            keep_reduced_axes},
           {"fold-constants", "shape arithmetic and weight preparation leave the run",
            fold_constants},
           {"inline-branches", "a decided If is its branch; after folding decided it",
            inline_branches},
           {"merge-common", "rules and fusion then see one node where exporters wrote copies",
            merge_common},
           {"expand-operators", "before rules: what an operator stands for is fair game for them",
            expand_operators},
           {"loops-to-scans", "one form for loops over slices, which the next pass knows",
            loops_to_scans},
           {"hoist-products", "weights are read once, not at every step; what it leaves may fold",
            hoist_products},
           {"cancel-reshapes", "behind canonical forms; rules do not look through Reshapes",
            cancel_reshapes},
           {"apply-rules", "intent in primitives: gelu, norms; after canonical forms and merging",
            apply_rules},
           {"share-heads", "behind rules, which find what stands between the products as written",
            share_heads},
           {"remove-dead", "what the others left behind must not count as a use", remove_dead},
           {"infer-types", "folded shapes make more dims known", infer_all_types, true},
       },
       8},
      {{
          {"cancel-transposes",
           "behind rules, which look for norms along the last axis; in front of all that looks for "
           "neighbours of products",
           cancel_transposes},
          {"group-norms", "after rules took what stands behind; before halves, whose list has them",
           group_norms},
          {"widen-halves", "after rules, which know halves; what follows then finds f32 alone",
           widen_halves},
          {"lift-views", "products then find their operands right behind a DequantizeLinear",
           lift_views},
          {"fuse-quantised", "after rules and folding brought bias and clipping into one form",
           fuse_quantised},
          {"fuse-weights", "after fuse-quantised: what is left has a float on its other side",
           fuse_weights},
          {"remove-dead", "weights that a product keeps as integers nobody reads as floats",
           remove_dead},
          {"fold-dequantised", "what these two left is read as floats in every run",
           fold_dequantised},
          {"tabulate-bytes", "constants in bytes are numbers now; what no product took is left",
           tabulate_bytes},
          {"fold-dequantised", "its tables", fold_dequantised},
          {"share-prefixes", "after canonical forms, which are those of single Concats",
           share_prefixes},
          {"fold-batch-norm",
           "behind what looks for bytes; only what follows looks at such weights", fold_batch_norm},
          {"fold-padding", "behind fold-batch-norm: what is cut is then a convolution's own result",
           fold_padding},
          {"split-functions",
           "the factors and addends that fold-batch-norm left there are among them",
           split_functions},
          {"merge-convolutions", "behind those two: a branch is then a convolution or a scale",
           merge_convolutions},
          {"remove-dead", "the original weights go, and readers that would count", remove_dead},
          {"hoist-functions", "the Casts of widen-halves too; behind all that looks for patterns",
           hoist_functions},
          {"narrow-values", "nobody else needs to know of values in bf16 between f32; by session",
           narrow_values},
          {"infer-types", "the planner reads final types", infer_all_types, true},
      }},
  };
  return kPipeline;
}

const Pass& find_pass(std::string_view name) {
  std::string known;
  for (const Stage& stage : portable_pipeline())
    for (const Pass& pass : stage.passes) {
      if (pass.name == name) return pass;
      if (known.find(pass.name) == std::string::npos)
        known += (known.empty() ? "" : ", ") + std::string(pass.name);
    }
  fail(Status::kNotFound, "no pass '{}'; there are {}", name, known);
}

PassReport optimise(Graph& graph, const PassOptions& options) {
  return run_pipeline(graph, portable_pipeline(), options);
}

}  // namespace xc
