"""Nodes of the operators of which the standard has no tests of their own, and of types that those do not have.
Expected values come from onnxruntime or the standard's evaluator; results that are random by definition are held to
their types and dims."""

from __future__ import annotations

from dataclasses import dataclass

import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx.parser

HEAD = '<ir_version: {ir}, opset_import: ["" : {ai}, "ai.onnx.ml" : {ml}, "com.microsoft" : 1]>\n'


@dataclass
class Seed:
    op: str
    name: str
    model: object
    inputs: list
    random: bool = False
    outputs: list | None = None  # where no evaluator has them: empty ones, which have no values


def seed(op: str, text: str, *inputs, name: str = "", outputs: list | None = None, random: bool = False, ai: int = 22,
         ml: int = 4) -> Seed:
    model = onnx.parser.parse_model(HEAD.format(ir=14 if ai > 25 else 10, ml=ml, ai=ai) + "g " + text)
    return Seed(op, f"seed_{op.split('.')[-1].lower()}{'_' + name if name else ''}", model, list(inputs), random, outputs)


def strings(*values):
    return np.array(values, dtype=object)


def ml(op: str, inputs: str, outputs: str, attributes: str, *values, name: str = "", version: int = 4,
       expected: list | None = None) -> Seed:
    """A node of ai.onnx.ml. `inputs` and `outputs` are declarations whose last word is the name."""
    def names(text):
        return ", ".join(part.split()[-1] for part in text.split(";"))
    text = (f"({inputs.replace(';', ',')}) => ({outputs.replace(';', ',')}) "
            f"{{ {names(outputs)} = ai.onnx.ml.{op} {'<' + attributes + '>' if attributes else ''} ({names(inputs)}) }}")
    return seed(f"ai.onnx.ml.{op}", text, *values, name=name, ml=version, outputs=expected)


F = np.float32
X = np.array([[0.5, -1.25, 2.0], [3.0, 0.75, -0.5]], F)
TREE = ("nodes_treeids = [0,0,0], nodes_nodeids = [0,1,2], nodes_featureids = [1,0,0], nodes_modes = ['BRANCH_LEQ','LEAF',"
        "'LEAF'], nodes_values = [0.0,0.0,0.0], nodes_truenodeids = [1,0,0], nodes_falsenodeids = [2,0,0]").replace("'", '"')


def containers():
    a, b = np.arange(6, dtype=F).reshape(2, 3), np.ones((1, 3), F)
    yield seed("SequenceConstruct", "(float[2,3] a, float[1,3] b) => (seq(float[m,3]) y) { y = SequenceConstruct (a, b) }",
               a, b)
    yield seed("SequenceEmpty", "(float[2,3] a) => (seq(float[2,3]) y) { s = SequenceEmpty () y = SequenceInsert (s, a) }", a)
    for op in ("SequenceAt", "SequenceErase"):
        out = "float[m,3]" if op == "SequenceAt" else "seq(float[m,3])"
        yield seed(op, f"(seq(float[m,3]) s, int64 k) => ({out} y) {{ y = {op} (s, k) }}", [a, b], np.int64(1))
    yield seed("SequenceLength", "(seq(float[m,3]) s) => (int64 y) { y = SequenceLength (s) }", [a, b])
    yield seed("ConcatFromSequence", "(seq(float[m,3]) s) => (float[n,3] y) { y = ConcatFromSequence <axis = 0> (s) }",
               [a, b])
    nothing = np.zeros((0, 3), F)
    for op, result in (("SequenceAt", "float[m,3]"), ("SequenceErase", "seq(float[m,3])")):
        yield seed(op, f"(seq(float[m,3]) s, int64 k) => ({result} y) {{ y = {op} (s, k) }}", [a, nothing],
                   np.int64(0 if op == "SequenceErase" else 1), name="empty")
    yield seed("SequenceLength", "(seq(float[m,3]) s) => (int64 y) { y = SequenceLength (s) }", [nothing], name="empty")
    yield seed("ConcatFromSequence", "(seq(float[m,3]) s) => (float[n,3] y) { y = ConcatFromSequence <axis = 0> (s) }",
               [nothing, nothing], name="empty")
    yield seed("Optional", "(float[2,3] a) => (float[2,3] y) { o = Optional (a) y = OptionalGetElement (o) }", a)


def pools_and_random():
    x = np.arange(2 * 3 * 4 * 4, dtype=F).reshape(2, 3, 4, 4) / 7 - 3
    yield seed("GlobalLpPool", "(float[2,3,4,4] x) => (float[2,3,1,1] y) { y = GlobalLpPool <p = 3> (x) }", x, ai=20)
    rois = np.array([[0, 0, 0, 3, 3], [1, 1, 0, 2, 3]], F)
    yield seed("MaxRoiPool", "(float[2,3,4,4] x, float[2,5] r) => (float[2,3,2,2] y) "
               "{ y = MaxRoiPool <pooled_shape = [2,2], spatial_scale = 1.0> (x, r) }", x, rois, ai=20)
    yield seed("Multinomial", "(float[2,3] x) => (int32[2,5] y) { y = Multinomial <sample_size = 5> (x) }", X, random=True)
    for op in ("RandomNormal", "RandomUniform"):
        yield seed(op, f"() => (float[2,3] y) {{ y = {op} <shape = [2,3]> () }}", random=True)
        yield seed(f"{op}Like", f"(float[2,3] x) => (float[2,3] y) {{ y = {op}Like <dtype = 1> (x) }}", X, random=True)
    yield seed("TfIdfVectorizer", "(string[4] x) => (float[3] y) { y = TfIdfVectorizer <mode = \"TF\", min_gram_length = 1, "
               "max_gram_length = 2, max_skip_count = 0, ngram_counts = [0,2], ngram_indexes = [0,1,2], "
               "pool_strings = [\"a\",\"b\",\"a\",\"b\"]> (x) }", strings("a", "b", "a", "c"), name="string")


def optional_inputs():
    """Inputs that no test of the standard gives."""
    x = np.arange(24, dtype=F).reshape(3, 2, 4) / 9 - 1
    lengths = np.array([3, 2], np.int32)
    for op, gates in (("GRU", 3), ("RNN", 1)):
        rows = gates * 5
        w, r = (np.sin(np.arange(rows * size, dtype=F)).reshape(1, rows, size) / 2 for size in (4, 5))
        b = np.cos(np.arange(2 * rows, dtype=F)).reshape(1, -1) / 2
        yield seed(op, f"(float[3,2,4] x, float[1,{rows},4] w, float[1,{rows},5] r, float[1,{2 * rows}] b, int32[2] n) => "
                   f"(float[3,1,2,5] y) {{ y = {op} <hidden_size = 5> (x, w, r, b, n) }}", x, w, r, b, lengths, name="lengths")
    signal = np.arange(20, dtype=F).reshape(2, 5, 2) / 7
    yield seed("DFT", "(float[2,5,2] x, int64 n, int64 axis) => (float[2,8,2] y) { y = DFT (x, n, axis) }", signal,
               np.int64(8), np.int64(1), name="length")
    image, kernel = np.arange(18).reshape(1, 2, 3, 3).astype(np.uint8), np.arange(16).reshape(2, 2, 2, 2).astype(np.uint8)
    yield seed("QLinearConv", "(uint8[1,2,3,3] x, float xs, uint8 xz, uint8[2,2,2,2] w, float ws, uint8 wz, float ys, uint8 yz, "
               "int32[2] b) => (uint8[1,2,2,2] y) { y = QLinearConv (x, xs, xz, w, ws, wz, ys, yz, b) }", image, F(0.5),
               np.uint8(3), kernel, F(0.25), np.uint8(7), F(1.5), np.uint8(9), np.array([40, -30], np.int32), name="bias")


def empty_sizes():
    """Sizes that a dim and a value give: both are 0."""
    yield seed("AffineGrid", "(float[0,2,3] t, int64[4] s) => (float[0,4,5,2] y) { y = AffineGrid (t, s) }",
               np.zeros((0, 2, 3), F), np.array([0, 3, 4, 5], np.int64), name="empty")
    for op in ("BlackmanWindow", "HammingWindow", "HannWindow"):
        yield seed(op, f"(int64 n) => (float[0] y) {{ y = {op} (n) }}", np.int64(0), name="empty",
                   outputs=[np.zeros(0, F)])
    yield seed("Range", "(int64 a, int64 b, int64 d) => (int64[k] y) { y = Range (a, b, d) }",
               np.int64(3), np.int64(3), np.int64(2), name="empty")
    yield seed("Constant", "() => (float[0] y) { y = Constant <value = float[0] {}> () }", name="empty")
    for op in ("RandomNormal", "RandomUniform"):
        yield seed(op, f"() => (float[0,3] y) {{ y = {op} <shape = [0,3]> () }}", name="empty",
                   outputs=[np.zeros((0, 3), F)])
    yield seed("GroupNormalization", "(float[0,4,2] x, float[4] s, float[4] b) => (float[0,4,2] y) "
               "{ y = GroupNormalization <num_groups = 2> (x, s, b) }", np.zeros((0, 4, 2), F), np.ones(4, F), np.ones(4, F),
               name="empty", outputs=[np.zeros((0, 4, 2), F)])
    yield ml("ZipMap", "float[0,3] x", "seq(map(int64, float)) y", "classlabels_int64s = [4,5,6]", np.zeros((0, 3), F),
             name="empty", expected=[[]])


def encoders():
    words, whole = strings("a", "c", "b", "?"), np.array([1, 3, 2, 7], np.int64)
    both = 'cats_strings = ["a","b","c"], cats_int64s = [1,2,3]'
    yield ml("CategoryMapper", "string[4] x", "int64[4] y", f"{both}, default_int64 = 9", words, name="string")
    yield ml("CategoryMapper", "int64[4] x", "string[4] y", f'{both}, default_string = "none"', whole, name="i64")
    yield ml("OneHotEncoder", "int64[4] x", "float[4,3] y", "cats_int64s = [1,2,3]", whole)
    yield ml("OneHotEncoder", "string[4] x", "float[4,3] y", 'cats_strings = ["a","b","c"]', words, name="string")
    for kind, keys, values in (("string", "keys_strings = [\"a\",\"b\"]", "values_int64s = [5,6]"),
                               ("float", "keys_floats = [1.0,2.0]", "values_strings = [\"p\",\"q\"]"),
                               ("int64", "keys_int64s = [1,2]", "values_floats = [0.5,0.25]")):
        out = {"values_int64s": "int64", "values_strings": "string", "values_floats": "float"}[values.split(" ")[0]]
        x = words if kind == "string" else whole.astype({"float": F, "int64": np.int64}[kind])
        yield ml("LabelEncoder", f"{kind}[4] x", f"{out}[4] y", f"{keys}, {values}", x, name=kind)
    for kind, t in (("double", np.float64), ("int32", np.int32), ("int16", np.int16)):
        yield ml("LabelEncoder", f"{kind}[4] x", f"{kind}[4] y",
                 f"keys_tensor = {kind}[2] {{1,2}}, values_tensor = {kind}[2] {{7,8}}, default_tensor = {kind}[1] {{3}}",
                 whole.astype(t), name=kind)
    gaps = np.array([[1, -1, 2], [-1, 4, 5]], F)
    yield ml("Imputer", "float[2,3] x", "float[2,3] y", "imputed_value_floats = [9.0], replaced_value_float = -1.0", gaps)
    yield ml("Imputer", "int64[2,3] x", "int64[2,3] y", "imputed_value_int64s = [9], replaced_value_int64 = -1",
             gaps.astype(np.int64), name="i64")
    yield ml("ArrayFeatureExtractor", "string[1,4] x; int64[2] k", "string[1,2] y", "", words.reshape(1, 4),
             np.array([2, 0], np.int64), name="string")
    yield ml("FeatureVectorizer", "float[2,3] a; float[2,1] b", "float[2,4] y", "inputdimensions = [3,1]", X, X[:, :1])
    for norm in ("MAX", "L1", "L2"):
        yield ml("Normalizer", "float[2,3] x", "float[2,3] y", f'norm = "{norm}"', np.abs(X), name=norm.lower())
    yield ml("Scaler", "float[2,3] x", "float[2,3] y", "offset = [0.5,1.0,-1.0], scale = [2.0,0.25,4.0]", X)


def classifiers():
    labels = "classlabels_ints = [5,6,7]"
    weights = "coefficients = [1.0,-0.5,0.25,0.5,2.0,-1.0,-0.25,0.75,1.5], intercepts = [0.1,-0.2,0.3]"
    scores = "int64[2] l; float[2,3] s"
    yield ml("LinearClassifier", "float[2,3] x", scores, f'{labels}, {weights}, post_transform = "SOFTMAX"', X)
    yield ml("LinearClassifier", "float[2,3] x", "string[2] l; float[2,3] s",
             f'classlabels_strings = ["a","b","c"], {weights}', X, name="words")
    yield ml("LinearRegressor", "float[2,3] x", "float[2,1] y", "coefficients = [1.0,-0.5,0.25], intercepts = [0.5]", X)
    machine = ("vectors_per_class = [1,1], rho = [0.1], kernel_type = \"RBF\", kernel_params = [0.5,0.0,3.0], "
               "support_vectors = [1.0,0.0,0.5,0.0,1.0,-0.5], coefficients = [1.0,-1.0]")
    yield ml("SVMClassifier", "float[2,3] x", "int64[2] l; float[2,2] s", f"classlabels_ints = [1,2], {machine}", X)
    yield ml("SVMRegressor", "float[2,3] x", "float[2,1] y",
             machine.replace("vectors_per_class = [1,1]", "n_supports = 2"), X)
    votes = "{0}_treeids = [0,0], {0}_nodeids = [1,2], {0}_ids = [0,{1}], {0}_weights = [1.0,2.0]"
    yield ml("TreeEnsembleClassifier", "float[2,3] x", "int64[2] l; float[2,3] s",
             f"classlabels_int64s = [4,5,6], {TREE}, {votes.format('class', 2)}", X, version=3)
    yield ml("TreeEnsembleRegressor", "float[2,3] x", "float[2,2] y", f"n_targets = 2, {TREE}, {votes.format('target', 1)}", X,
             version=3)


def maps():
    yield ml("CastMap", "map(int64, float) m", "float[1,4] y", 'cast_to = "TO_FLOAT", map_form = "SPARSE", max_map = 4',
             {0: 1.5, 2: -2.0})
    yield ml("DictVectorizer", "map(string, float) m", "float[1,3] y", 'string_vocabulary = ["a","b","c"]',
             {"a": 4.0, "c": -3.5})
    yield ml("ZipMap", "float[2,3] x", "seq(map(int64, float)) y", "classlabels_int64s = [4,5,6]", X)


def microsoft_nodes():
    """onnxruntime's operators have no tests in the standard: the problems of tests/ops are seeds too."""
    # In the standard's domain.
    x, scale = np.stack([X, X[::-1] * F(0.5)]), np.array([0.5, 2.0, -1.0], F)
    for name, attributes in (("plain", ""), ("all_axes", "axis = 0, epsilon = 0.01")):
        text = f"<{attributes}>" if attributes else ""
        wide = np.broadcast_to(scale, x.shape).copy() if attributes else scale
        dims = "2,2,3" if attributes else "3"
        yield seed("SimplifiedLayerNormalization", f"(float[2,2,3] x, float[{dims}] s) => (float[2,2,3] y, float[a,b,c] i) "
                   f"{{ y, i = SimplifiedLayerNormalization {text} (x, s) }}", x, wide, name=name)
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "ops"))
    import microsoft_problems

    for problem in microsoft_problems.problems():
        if problem.alone:
            continue
        node = problem.node
        op = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        expected = problem.expected
        yield Seed(op, f"seed_microsoft_{problem.name.lower()}", problem.model(), problem.arrays(), outputs=expected)


def narrow_floats():
    """Floats of 6 bits, of which the standard has no tests: every code, ties, and what is out of range."""
    numbers = np.array([0.0, -0.0, 0.0625, 0.1, 0.1875, 1.0625, -1.1875, 2.5, 7.25, 7.75, -9.0, 26.0, 30.0, -1e9, np.inf], F)
    for number, name in ((27, "float6_e2m3fn"), (28, "float6_e3m2fn")):
        kind, dtype = name.replace("_", "").removesuffix("fn"), np.dtype(getattr(ml_dtypes, name))
        codes = np.arange(64, dtype=np.uint8).view(dtype)
        short = kind.replace("float", "f")
        yield seed("Cast", f"(float[15] x) => ({kind}[15] y) {{ y = Cast <to = {number}> (x) }}", numbers,
                   name=f"to_{short}", ai=28)
        for other, to in (("float", 1), ("float16", 10), ("int8", 3)):
            yield seed("Cast", f"({kind}[64] x) => ({other}[64] y) {{ y = Cast <to = {to}> (x) }}", codes,
                       name=f"{short}_to_{other}", ai=28)
        scale, zero = np.array([0.5, 2.0, 1.25], F), np.array([0.5, -1.0, 0.0]).astype(dtype)
        yield seed("QuantizeLinear", f"(float[5,3] x, float[3] s, {kind}[3] z) => ({kind}[5,3] y) "
                   "{ y = QuantizeLinear <axis = 1> (x, s, z) }", numbers.reshape(5, 3), scale, zero, name=f"zero_{short}",
                   ai=28)
        yield seed("QuantizeLinear", f"(float[15] x, float s) => ({kind}[15] y) "
                   f"{{ y = QuantizeLinear <output_dtype = {number}> (x, s) }}", numbers, F(0.75), name=f"to_{short}", ai=28)
        yield seed("DequantizeLinear", f"({kind}[4,16] x, float[4,2] s) => (float[4,16] y) "
                   "{ y = DequantizeLinear <axis = 1, block_size = 8> (x, s) }", codes.reshape(4, 16),
                   np.arange(1, 9, dtype=F).reshape(4, 2) / 4, name=f"blocks_{short}", ai=28)
        yield seed("Optional", f"({kind}[64] x) => ({kind}[64] y) {{ o = Optional (x) y = OptionalGetElement (o) }}", codes,
                   name=short, ai=28, outputs=[codes])
    yield seed("Cast", "(float[4] x) => (float8e8m0[4] y) "
               "{ y = Cast <to = 24, saturate = 0, round_mode = \"nearest\"> (x) }",
               np.array([np.inf, 3.3e38, 1.5, 2.0], F), name="scale_out_of_range", ai=28)


def seeds():
    for family in (containers, pools_and_random, optional_inputs, empty_sizes, encoders, classifiers, maps, narrow_floats):
        yield from family()
    yield from microsoft_nodes()
