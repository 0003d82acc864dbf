// NumPy's C interface, after Python.h. Its table of functions is one for all files: the one that
// defines XC_LOADS_NUMPY before it includes this has the table, and import_numpy() fills it.
#pragma once

#include <nanobind/nanobind.h>

#define PY_ARRAY_UNIQUE_SYMBOL xc_python_numpy
#ifndef XC_LOADS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>
