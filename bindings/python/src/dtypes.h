// Element types of xc, NumPy (ml_dtypes included) and DLPack.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <xc/xc.hpp>

namespace xc_python {

namespace nb = nanobind;

/// Of NumPy's type number; strings and objects are XC_DTYPE_STRING, what xc has not is undefined.
xc_dtype dtype_of_number(int number);
/// NumPy's type number; -1 where it has none (of extension types: without ml_dtypes).
int number_of_dtype(xc_dtype dtype);
/// NumPy's type of a byte that holds a 4- or 2-bit integer; -1 for other types.
int number_of_bytes(xc_dtype dtype);
/// Undefined for vectors of lanes and for types that xc has not.
xc_dtype dtype_of_dlpack(const nb::dlpack::dtype& type);

/// How much a number of a type may be: 0 true or false, 1 an integer, 2 real, 3 complex; -1 for
/// what is no number.
int number_class(xc_dtype dtype);

/// The NumPy dtype; None where NumPy and ml_dtypes have none.
nb::object numpy_dtype(xc_dtype dtype);

}  // namespace xc_python
