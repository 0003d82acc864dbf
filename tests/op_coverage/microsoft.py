"""The schemas of onnxruntime's own operators, made known to the package `onnx`, whose helpers then treat their nodes as
those of the standard. Importing it is enough."""

from __future__ import annotations

import onnx.reference.op_run  # noqa: F401  it wants names to be unique over domains, and looks when it is imported
from onnx import defs
from onnxruntime.capi import onnxruntime_pybind11_state as runtime

DOMAIN = "com.microsoft"


# Types of their own for what has that of another input here: the cache, which may be quantised in onnxruntime, samples,
# states.
SAME_AS = {("GroupQueryAttention", "T_CACHE"): "T", ("GridSample", "T2"): "T1", ("LinearAttention", "S"): "T"}


def parameters(op: str, formal) -> list:
    kind = defs.OpSchema.FormalParameterOption
    option = {"Single": kind.Single, "Optional": kind.Optional, "Variadic": kind.Variadic}
    return [defs.OpSchema.FormalParameter(p.name, SAME_AS.get((op, p.typeStr), p.typeStr), "", param_option=option[str(p.option).split(".")[-1]],
                                          is_homogeneous=p.isHomogeneous) for p in formal]


def register() -> None:
    kinds = {str(kind).split(".")[-1]: kind for kind in defs.OpSchema.AttrType.__members__.values()}
    for schema in runtime.get_all_operator_schema():
        known = schema.domain == "" and schema.name == "SimplifiedLayerNormalization"
        if schema.domain != DOMAIN and not known:
            continue
        constraints = [(c.type_param_str, list(c.allowed_type_strs), "") for c in schema.type_constraints
                       if (schema.name, c.type_param_str) not in SAME_AS]
        attributes = [defs.OpSchema.Attribute(name, kinds[str(a.type).split(".")[-1]], "", required=a.required)
                      for name, a in schema.attributes.items()]
        defs.register_schema(defs.OpSchema(schema.name, schema.domain, schema.since_version, "",
                                           inputs=parameters(schema.name, schema.inputs), outputs=parameters(schema.name, schema.outputs),
                                           type_constraints=constraints, attributes=attributes))


register()
